"""The command with a home of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optimus_core.cli import shared
from optimus_core.cli.main import app
from optimus_core.engine.engine import Engine
from optimus_core.settings import Settings
from tests.conftest import TRAIN, until

ROOT = Path(__file__).parents[2]
NODES = 'local:\n  kind: local\n  nodes: [{name: a, cpu: "4", memory: 4Gi}, {name: b, cpu: "4", memory: 4Gi}]\n'


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with two nodes and quick steps; all jobs in it are stopped at the end."""
    for name in [name for name in os.environ if name.startswith(("OPTIMUS_", "AIRFLOW__OPTIMUS__", "AIRFLOW_HOME"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "clusters.yaml").write_text(NODES)
    (folder / "config.toml").write_text(
        "[optimus]\npoll_seconds = 0.1\nround_delay_seconds = 0\nretry_backoff_seconds = 0.1\n"
    )
    monkeypatch.setenv("OPTIMUS_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "250")
    yield folder
    engine = Engine(Settings.load())
    for report in engine.jobs(live=True):
        engine.request_stop(report.id, by="the test's end")
        until(lambda job_id=report.id: engine.step(job_id).final)


@pytest.fixture
def optimus(home):
    """Calls the command in this process, whose handlers of signals stay as they were."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def call(*arguments, code=0, **more):
        result = CliRunner().invoke(app, [str(a) for a in arguments], **more)
        assert result.exit_code == code, result.output
        return result

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def optimus_json(optimus):
    """Calls the command with --json and returns what it printed."""
    return lambda *arguments, **more: json.loads(optimus(*arguments, "--json", **more).stdout)


@pytest.fixture
def start(home):
    """Starts the command as a process of its own."""
    started = []

    def start(*arguments):
        command = [sys.executable, "-c", "from optimus_core.cli.main import app; app()", *map(str, arguments)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=environment, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def engine(home):
    """The engine that the command uses."""
    return shared.engine()


@pytest.fixture
def job_file(tmp_path):
    """Writes a job file of the small training; upper-case names are its environment."""

    def write(name="digits", **more):
        (tmp_path / "train.py").write_text(TRAIN)
        env = {key: str(more.pop(key)) for key in list(more) if key.isupper()}
        job = {
            "name": name, "command": [sys.executable, "train.py"], "strategy": {"all_reduce": {}},
            "workers": {"cpu": "1", "memory": "64Mi", "min": 1, "max": 1}, "env": env, "grace_seconds": 5,
        }  # fmt: skip
        path = tmp_path / f"{name}.yaml"
        path.write_text(json.dumps(job | more))
        return path

    return write
