"""A fresh home of Airflow and Optimus for these tests; no daemon runs."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

_HOME = Path(tempfile.mkdtemp(prefix="optimus-airflow-tests-"))
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
if "airflow" not in sys.modules:  # Airflow reads its home once, when it is first imported
    os.environ["AIRFLOW_HOME"] = str(_HOME)
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"
    os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{_HOME}/airflow.db"
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "WARNING"
    import airflow  # noqa: F401

    os.environ.pop("AIRFLOW_HOME")  # Optimus asks for it too; other tests shall not find this one


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of Optimus of its own, with a local cluster of two nodes and quick steps."""
    from optimus_airflow import settings

    monkeypatch.setenv("OPTIMUS_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__OPTIMUS__POLL_SECONDS", "0.2")
    monkeypatch.setenv("AIRFLOW__OPTIMUS__ROUND_DELAY_SECONDS", "0")
    monkeypatch.setenv("AIRFLOW__OPTIMUS__FIRST_EVENT_SECONDS", "1.5")
    (tmp_path / "clusters.yaml").write_text(
        'local:\n  kind: local\n  nodes:\n  - {name: a, cpu: "4", memory: 4Gi}\n  - {name: b, cpu: "4", memory: 4Gi}\n'
    )
    settings.forget_engine()
    yield tmp_path
    opened = settings.opened_engine()
    if opened is not None:
        stop_all(opened)
    settings.forget_engine()


@pytest.fixture
def engine(home: Path) -> Any:
    """The engine that operator and trigger use too."""
    from optimus_airflow import settings

    return settings.engine()


def stop_all(engine: Any) -> None:
    """Leave no process behind."""
    from optimus_core.engine.drive import drive_to_end

    for report in engine.jobs(live=True):
        engine.request_stop(report.id, by="the test's end")
        assert drive_to_end(engine, report.id, 20)


class State(dict):
    """What Airflow's task state store does."""

    set = dict.__setitem__


@pytest.fixture
def context() -> Any:
    """Makes the part of Airflow's context that is used."""

    def make(try_number: int = 1, map_index: int = -1, task_id: str = "train", **more: Any) -> dict[str, Any]:
        ti = SimpleNamespace(
            dag_id="digits", run_id="run1", task_id=task_id, map_index=map_index, try_number=try_number, start_date=None
        )
        return {"ti": ti, "task_state_store": State(), **more}

    return make


# -- the API as Airflow's own server mounts it ----------------------------------------------------------------


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A client for each role of Airflow's own application, which has loaded the plugin; with real roles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "vera:viewer,ursula:user")
        passwords = tmp_path_factory.mktemp("auth") / "passwords.json"
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(passwords))
        from airflow.api_fastapi.app import create_app, get_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
        from airflow.utils.db import initdb
        from fastapi.testclient import TestClient

        initdb()
        _know_dag("digits")
        app = create_app(apps="core")
        clients = {"anonymous": TestClient(app, raise_server_exceptions=False)}
        for role in ("viewer", "user"):
            token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=f"a-{role}", role=role))
            headers = {"Authorization": f"Bearer {token}"}
            clients[role] = TestClient(app, headers=headers, raise_server_exceptions=False)
        yield clients


def _know_dag(dag_id: str) -> None:
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    with create_session() as session:
        if session.get(DagModel, dag_id) is None:
            session.add(DagBundleModel(name="tests"))
            session.flush()
            session.add(DagModel(dag_id=dag_id, bundle_name="tests", is_stale=False))


@pytest.fixture
def submit_task(engine: Any) -> Any:
    """Submits the job of a DAG's task; nothing of it starts before it is stepped."""
    from optimus_core.engine.identity import Identity
    from optimus_core.job import AllReduce, Replicas, TrainingJob

    def submit(dag_id: str, task_id: str = "train", **more: Any) -> Any:
        asked = TrainingJob(
            name="digits",
            command=[sys.executable, "-c", "import time; time.sleep(60)"],
            strategy=AllReduce(),
            **{"workers": Replicas(cpu="1", memory="64Mi", min=1, max=3), **more},
        )
        submission = engine.submit(asked, Identity.of_task("default", dag_id, "run1", task_id, -1))
        return engine.job_by_id(submission.job_id)

    return submit


@pytest.fixture
def jobs(submit_task: Any) -> dict[str, str]:
    """A job of a DAG that Airflow knows, and one of a DAG that it does not: the names."""
    return {dag: submit_task(dag).name for dag in ("digits", "unknown_dag")}
