"""What a sentence says of other people's jobs: a reader learns no name of a job whose DAG he may not read."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("api")


def say(engine: Any, job_id: int, text: str) -> None:
    """Let every sentence of a job hold ``text``."""
    with engine.store.transaction() as tx:
        row = tx.job(job_id)
        row.reason = {"code": "user_error", "numbers": {"message": text}}
        tx.record(row, "retried", 1, error=text)
        for generation in tx.generations(job_id):
            generation.reason, generation.cause = row.reason, row.reason


@pytest.fixture
def ways(jobs: dict[str, str]) -> dict[str, str]:
    """How a sentence may name the job of the DAG that nobody here may read."""
    hidden = jobs["unknown_dag"]
    return {"name": hidden, "replica": f"{hidden}-3-worker-0", "title": "unknown_dag.train"}


@pytest.mark.parametrize("way", ["name", "replica", "title"])
def test_no_sentence_names_a_job_that_may_not_be_read(server, engine, jobs, ways, way):
    say(engine, engine.job(jobs["digits"]).id, f"took the room of {ways[way]}, which waits for {ways[way]}.")
    asked = (
        server["viewer"].get("/optimus/api/jobs"),
        server["viewer"].get(f"/optimus/api/jobs/{jobs['digits']}"),
        server["viewer"].get(f"/optimus/jobs/{jobs['digits']}"),
        server["viewer"].get("/optimus/api/clusters/local"),
        server["user"].post(f"/optimus/api/jobs/{jobs['digits']}/unpin"),
    )
    for answer in asked:
        assert answer.status_code == 200
        assert jobs["unknown_dag"] not in answer.text
        assert "unknown_dag" not in answer.text
    assert "took the room of another job, which waits for another job." in asked[0].json()["jobs"][0]["reason"]


def test_a_job_that_may_be_read_is_named(server, engine, jobs, submit_task):
    other = submit_task("digits", "evaluate")
    say(engine, engine.job(jobs["digits"]).id, f"took the room of {other.title} on node a.example.org")
    detail = server["viewer"].get(f"/optimus/api/jobs/{jobs['digits']}").json()
    assert "took the room of digits.evaluate on node a.example.org" in detail["job"]["reason"]
