"""What the page's API tells of a cluster and of all jobs together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

pytestmark = pytest.mark.xdist_group("api")
API = "/optimus/api"


def test_home_is_told_counts_of_readable_jobs_only(server, jobs, submit_task):
    submit_task("digits", "tardy", deadline=datetime.now(UTC) - timedelta(hours=1))
    found = server["viewer"].get(f"{API}/summary").json()
    assert (found["live"], found["late"], found["cluster"], found["clusters"]) == (2, 1, "local", ["local"])
    assert found["running"] + found["waiting"] == 2


def test_an_idle_page_is_told_nothing_new_though_a_job_gets_later_each_second(server, jobs, submit_task, monkeypatch):
    late = submit_task("digits", "tardy", deadline=datetime.now(UTC) - timedelta(minutes=5, seconds=30))
    for path in ("summary", "clusters/local", "jobs", f"jobs/{late.name}"):
        first = server["viewer"].get(f"{API}/{path}")
        tag = {"If-None-Match": first.headers["etag"]}
        assert server["viewer"].get(f"{API}/{path}", headers=tag).status_code == 304, path
    assert server["viewer"].get(f"{API}/jobs/{late.name}").json()["job"]["late_seconds"] % 60 == 0


def test_who_waits_is_told_its_place(server, jobs, submit_task, engine):
    from optimus_core.job import Replicas

    waits = submit_task("digits", "large", workers=Replicas(cpu="4", memory="64Mi", min=2, max=2))
    engine.round()
    (queued,) = server["viewer"].get(f"{API}/clusters/local").json()["queue"]
    assert (queued["name"], queued["position"], queued["state"]) == (waits.name, 1, "queued")
    assert queued["why"].startswith("Waits for room for 2 workers")


def test_a_round_tells_what_it_changed_of_readable_jobs(server, jobs):
    newest = server["viewer"].get(f"{API}/clusters/local").json()["rounds"][-1]
    found = server["viewer"].get(f"{API}/clusters/local/rounds/{newest['id']}").json()
    assert {each["title"] for each in found["decisions"]} <= {"digits.train"}
    assert "unknown_dag" not in str(found)
    assert server["viewer"].get(f"{API}/clusters/local/rounds/99999").status_code == 409


def test_what_if_tells_who_would_be_late(server, jobs):
    soon = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    answer = server["viewer"].post(f"{API}/clusters/local/what-if", json={"deadline": {jobs["digits"]: soon}})
    (only,) = answer.json()
    assert only["now"]["late_seconds"] is None
    assert only["then"]["late_seconds"] >= 60
    naive = server["viewer"].post(f"{API}/clusters/local/what-if", json={"deadline": {"x": "2030-01-01T00:00:00"}})
    assert naive.status_code == 422


def test_only_who_may_start_the_rebalance_dag_is_offered_it(server, jobs, engine, rebalance_dag):
    from optimus_core.store import ActionRow

    offered = {role: server[role].get(f"{API}/clusters/local").json()["may_rebalance"] for role in ("viewer", "user")}
    assert offered == {"viewer": False, "user": True}
    assert server["anonymous"].post(f"{API}/rebalance").status_code == 401
    assert server["viewer"].post(f"{API}/rebalance").status_code == 403
    first = server["user"].post(f"{API}/rebalance").json()
    assert server["user"].post(f"{API}/rebalance").json() == first
    with engine.store.transaction() as tx:
        kept = [(row.user, row.action, row.detail) for row in tx.session.query(ActionRow)]
    assert kept == [("a-user", "rebalance", {"run_id": first["run_id"]})] * 2


def test_without_its_dag_a_rebalance_says_where_to_put_it(server, jobs):
    answer = server["user"].post(f"{API}/rebalance")
    assert answer.status_code == 409
    assert "dags/optimus_rebalance.py" in answer.json()["detail"]


@pytest.fixture
def rebalance_dag(server):
    """The rebalance DAG, as Airflow's scheduler would have stored it; taken out again."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session
    from optimus_airflow.rebalance import DAG_ID, build

    with create_session() as session:
        session.add(DagModel(dag_id=DAG_ID, bundle_name="tests", is_stale=False, is_paused=False))
        session.flush()
        SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(build()), bundle_name="tests", session=session)
    yield
    with create_session() as session:
        session.query(DagRun).filter(DagRun.dag_id == DAG_ID).delete()
        session.query(DagModel).filter(DagModel.dag_id == DAG_ID).delete()
