"""The API as Airflow's own server mounts it, under the simple auth manager with real roles."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.xdist_group("api")
ROLES = ("anonymous", "viewer", "user")


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
    assert {size["job"] for size in answer["sizes"]} <= {"digits.train"}
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
