"""The API as Airflow's own server mounts it, under the simple auth manager with real roles."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from optimus_core.engine.identity import Identity
from optimus_core.job import AllReduce, Replicas, TrainingJob

HOSTILE = "<img src=x onerror=alert(1)> \u202eevil \U0001f600 "
ROLES = ("anonymous", "viewer", "user")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client for each role of Airflow's own application, which has loaded the plugin."""
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
        for role in ROLES[1:]:
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
def jobs(engine: Any) -> dict[str, str]:
    """A job of a DAG that Airflow knows, and one of a DAG that it does not: the names."""
    return {dag: _submit(engine, dag).name for dag in ("digits", "unknown_dag")}


def _submit(engine: Any, dag_id: str, workers: int = 1) -> Any:
    asked = TrainingJob(
        name=HOSTILE.strip()[:20],
        command=[sys.executable, "-c", "import time; time.sleep(60)"],
        strategy=AllReduce(),
        workers=Replicas(cpu="1", memory="64Mi", min=1, max=3),
    )
    submission = engine.submit(asked, Identity.of_task("default", dag_id, "run1", "train", -1))
    return engine.job_by_id(submission.job_id)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        pytest.param("GET", "jobs", (401, 200, 200), id="list"),
        pytest.param("GET", "jobs/{job}", (401, 200, 200), id="a job"),
        pytest.param("GET", "jobs/none", (401, 404, 404), id="no such job"),
        pytest.param("GET", "clusters/local", (401, 200, 200), id="the cluster"),
        pytest.param("POST", "clusters/local/what-if", (401, 200, 200), id="what if"),
        pytest.param("POST", "jobs/{job}/unpin", (401, 403, 200), id="unpin"),
        pytest.param("POST", "jobs/{job}/pin", (401, 403, 200), id="pin"),
        pytest.param("POST", "jobs/{job}/stop", (401, 403, 200), id="stop"),
    ],
)
def test_each_role_gets_its_answer(server, jobs, method, path, expected):
    body = {"workers": 1} if path.endswith("/pin") else {}
    got = tuple(
        server[role].request(method, "/optimus/api/" + path.format(job=jobs["digits"]), json=body).status_code
        for role in ROLES
    )
    assert got == expected


def test_an_action_is_kept_with_its_user(server, jobs, engine):
    from optimus_core.store import ActionRow

    assert server["user"].post(f"/optimus/api/jobs/{jobs['digits']}/pin", json={"workers": 2}).status_code == 200
    with engine.store.transaction() as tx:
        kept = [(row.user, row.action, row.detail) for row in tx.session.query(ActionRow)]
    assert kept == [("a-user", "pin", {"workers": 2, "servers": 0})]


def test_a_list_is_paged_and_tells_what_the_reader_has_already(server, jobs):
    first = server["viewer"].get("/optimus/api/jobs", params={"limit": 1})
    assert [job["name"] for job in first.json()["jobs"]] == [jobs["digits"]]
    assert first.json()["total"] == 1
    older = server["viewer"].get("/optimus/api/jobs", params={"before": first.json()["next"]})
    assert older.json()["jobs"] == []
    tag = {"If-None-Match": first.headers["etag"]}
    assert server["viewer"].get("/optimus/api/jobs", params={"limit": 1}, headers=tag).status_code == 304


def test_jobs_that_a_reader_may_not_see_hold_room_without_a_name(server, jobs):
    answer = server["viewer"].get("/optimus/api/clusters/local").json()
    assert {node["name"] for node in answer["nodes"]} == {"a", "b"}
    assert {size["job"] for size in answer["sizes"]} <= {HOSTILE.strip()[:20], "digits.train"}
    assert "unknown_dag" not in str(answer)


def test_what_if_shows_both_plans_and_changes_nothing(server, jobs, engine):
    before = engine.job(jobs["digits"])
    answer = server["viewer"].post("/optimus/api/clusters/local/what-if", json={"without_job": jobs["digits"]})
    (only,) = answer.json()
    assert only["name"] == jobs["digits"]
    assert only["now"]["workers"] >= 1
    assert only["then"] is None
    assert engine.job(jobs["digits"]) == before


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("jobs?limit=100000", id="too many"),
        pytest.param("jobs?before=-1", id="negative"),
        pytest.param("jobs/x?points=3", id="too few points"),
    ],
)
def test_what_has_no_bound_is_refused(server, jobs, path):
    assert server["viewer"].get(f"/optimus/api/{path}").status_code == 422


@pytest.mark.parametrize(
    "name", ["%00", "%F0%9F%98%80", "x" * 10_000, "%E2%80%AE", "%3Cscript%3E", "%ED%A0%80", "9" * 40]
)
def test_a_hostile_name_is_no_job(server, jobs, name):
    for path in (f"jobs/{name}", f"jobs?dag_id={name[:600]}", f"clusters/{name}"):
        assert server["viewer"].get(f"/optimus/api/{path}").status_code in (200, 404, 409, 422)


def test_the_scripts_are_open_and_hold_no_job(server, jobs):
    answer = server["anonymous"].get("/optimus/optimus.js")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert jobs["digits"] not in answer.text


@pytest.mark.parametrize("when", ["before it was opened", "after it was opened"])
def test_a_store_that_is_gone_is_told_with_what_to_run(server, home, engine, monkeypatch, when):
    from optimus_airflow import settings
    from sqlalchemy import text

    if when == "before it was opened":
        monkeypatch.setenv("AIRFLOW__OPTIMUS__DATABASE_URL", f"sqlite:///{home}/clusters.yaml/optimus.db")
        settings.forget_engine()
    else:
        with engine.store.engine.begin() as connection:
            connection.execute(text("ALTER TABLE optimus_jobs RENAME TO gone"))
    try:
        answer = server["viewer"].get("/optimus/api/jobs")
        assert answer.status_code == 503
        assert "optimus" in answer.json()["detail"]
    finally:
        if when == "after it was opened":
            with engine.store.engine.begin() as connection:
                connection.execute(text("ALTER TABLE gone RENAME TO optimus_jobs"))
        settings.forget_engine()
