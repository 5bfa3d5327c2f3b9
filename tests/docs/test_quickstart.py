"""How the quickstart ends: at once, whatever state Airflow's parts and the jobs are in."""

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from optimus_core.engine.engine import Engine
from optimus_core.engine.identity import Identity
from optimus_core.job import AllReduce, Replicas, TrainingJob
from optimus_core.settings import Settings

PATIENT = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


@pytest.fixture
def ending():
    path = Path(__file__).parents[2] / "scripts" / "quickstart" / "ending.py"
    spec = importlib.util.spec_from_file_location("ending", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMUS_HOME", str(tmp_path))
    return Settings.load()


@pytest.fixture
def part():
    """Starts what stands for a part of Airflow: in a session of its own, and a child that nobody waits for."""
    parts = []

    def start(code):
        parts.append(
            subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
        )
        parts[-1].stdout.readline()
        return parts[-1]

    yield start
    for each in parts:
        each.kill()
        each.wait()
        each.stdout.close()


def test_does_not_wait_for_parts_that_have_ended_already(ending, settings, part, monkeypatch):
    monkeypatch.setattr(ending, "_PATIENCE", 60)
    ended = part("import time; print(flush=True); time.sleep(600)")
    began = time.monotonic()
    ending.end([ended.pid], settings)
    assert time.monotonic() - began < 30
    assert psutil.Process(ended.pid).status() == psutil.STATUS_ZOMBIE


def test_kills_a_part_that_does_not_listen_and_stops_the_jobs(ending, settings, part):
    engine = Engine(settings)
    job = TrainingJob(
        name="long",
        command=[sys.executable, "-c", "import time; time.sleep(600)"],
        strategy=AllReduce(),
        workers=Replicas(cpu="100m", memory="64Mi"),
    )
    job_id = engine.submit(job, Identity.of_name("default", "long")).job_id
    while engine.job_by_id(job_id).workers == 0:
        engine.step(job_id)
    deaf = part(PATIENT)
    began = time.monotonic()
    ending.end([deaf.pid], settings)
    assert time.monotonic() - began < 30
    assert deaf.wait(1) < 0
    assert engine.job_by_id(job_id).state == "stopped"
