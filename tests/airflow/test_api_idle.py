"""A page that polls: what stays the same reads no job, and whatever a person would see differently is told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event

from optimus_core.store import GenerationRow, OutputRow, RoundRow, SeriesRow, SpeedRow, changes
from optimus_core.store.tables import Base
from optimus_core.telemetry import BoundedSeries

pytestmark = pytest.mark.xdist_group("api")
JOB, PAGE, CLUSTER, COUNTS = "jobs/{job}", "jobs", "clusters/local", "summary"
ALL = (JOB, PAGE, CLUSTER, COUNTS)


@pytest.fixture(autouse=True)
def within_one_minute(monkeypatch):
    """What moves by itself is told anew each minute; here none passes."""
    monkeypatch.setattr(changes, "_minute", lambda tx: datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def poll(server, jobs) -> Callable[[str], int]:
    """Polls a path with the tag of its last answer; returns the status."""
    tags: dict[str, str] = {}

    def ask(path: str) -> int:
        tag = {"If-None-Match": tags[path]} if path in tags else {}
        answer = server["viewer"].get("/optimus/api/" + path.format(job=jobs["digits"]), headers=tag)
        tags[path] = answer.headers["etag"]
        return int(answer.status_code)

    return ask


@contextmanager
def reading(engine: Any) -> Iterator[dict[str, int]]:
    """Count the rows that become objects, and the statements, while the block runs."""
    seen = {"rows": 0, "statements": 0}

    def row(*_: Any) -> None:
        seen["rows"] += 1

    def statement(*_: Any) -> None:
        seen["statements"] += 1

    event.listen(Base, "load", row, propagate=True)
    event.listen(engine.store.engine, "before_cursor_execute", statement)
    yield seen
    event.remove(Base, "load", row)
    event.remove(engine.store.engine, "before_cursor_execute", statement)


@pytest.mark.parametrize("path", ALL)
def test_an_idle_poll_reads_no_row_and_asks_as_often_for_nine_jobs_as_for_two(poll, engine, submit_task, path):
    statements = []
    for more in (0, 7):
        for number in range(more):
            submit_task("digits", f"more{number}")
        assert poll(path) == 200
        with reading(engine) as seen:
            assert poll(path) == 304
        assert seen["rows"] == 0
        statements.append(seen["statements"])
    assert statements[0] == statements[1] <= 12


def adds(row: type[Any], **values: Any) -> Callable[[Any, Any], None]:
    """Return what adds a row to a job."""
    return lambda tx, job: tx.add(row(job_id=job.id, **values))


NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIZE = {"attempt": 1, "servers": 0, "workers": 1, "placement": {}, "reason": {}, "wanted_at": NOW}
SPEED = {"specification_hash": "", "generation": 1, "servers": 0, "workers": 1, "steps": 1, "seconds": 1.0, "time": NOW}


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        pytest.param(lambda tx, job: setattr(job, "step", 77), ALL, id="a step"),
        pytest.param(lambda tx, job: setattr(job, "state", "succeeded"), ALL, id="an end"),
        pytest.param(adds(GenerationRow, number=9, state="wanted", **SIZE), (JOB, PAGE, CLUSTER), id="a size"),
        pytest.param(
            lambda tx, job: setattr(tx.generation(job.id, 1), "state", "gone"), (JOB, PAGE, CLUSTER), id="its end"
        ),
        pytest.param(lambda tx, job: tx.record(job, "paused"), (JOB,), id="an event"),
        pytest.param(adds(SeriesRow, name="loss", state=BoundedSeries().state(), points=1), (JOB,), id="a metric"),
        pytest.param(adds(OutputRow, replica="w", uid="u", generation=1, tail="x"), (JOB,), id="an output"),
        pytest.param(
            lambda tx, job: adds(SpeedRow, workload=job.workload, **SPEED)(tx, job), (JOB,), id="a speed"
        ),
        pytest.param(lambda tx, job: tx.workload(job.workload), (JOB,), id="an earlier run"),
        pytest.param(
            lambda tx, job: tx.add(RoundRow(cluster="local", time=NOW, epoch=1, revision=1, changes=1, plan={})),
            (CLUSTER,), id="a round",
        ),
        pytest.param(
            lambda tx, job: setattr(tx.cluster("local"), "planned_at", tx.now + timedelta(hours=1)), (CLUSTER,),
            id="a plan that changed nothing",
        ),
    ],
)  # fmt: skip
def test_what_differs_is_told_by_the_next_poll_wherever_it_is_shown(poll, jobs, engine, change, shown):
    assert [poll(path) for path in ALL] == [200] * 4
    with engine.store.transaction() as tx:
        change(tx, tx.find_job(jobs["digits"]))
    assert [poll(path) for path in shown] == [200] * len(shown)
    assert [poll(path) for path in ALL] == [304] * 4


def test_a_node_that_is_lost_is_told_by_the_next_poll(poll, engine, monkeypatch):
    assert poll(CLUSTER) == 200
    nodes = engine.ctx.cluster("local").nodes()
    monkeypatch.setattr(type(engine.ctx.cluster("local")), "nodes", lambda self: nodes[:1])
    assert poll(CLUSTER) == 200


def test_a_right_that_is_given_or_taken_is_told_by_the_next_poll(poll, monkeypatch):
    from optimus_airflow.web import app

    assert poll(JOB) == 200
    allowed = app.may
    monkeypatch.setattr(app, "may", lambda user, method, dag: method == "PUT" or allowed(user, method, dag))
    assert poll(JOB) == 200
    monkeypatch.setattr(app, "readable_dags", lambda user: set())
    assert [poll(path) for path in (PAGE, CLUSTER, COUNTS)] == [200] * 3


def test_a_tag_of_one_address_is_none_of_another(server, jobs):
    tag = server["viewer"].get("/optimus/api/clusters/local?hours=6").headers["etag"]
    other = server["viewer"].get("/optimus/api/clusters/local?hours=24", headers={"If-None-Match": tag})
    assert other.status_code == 200
