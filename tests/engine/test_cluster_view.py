"""What the page is told of a cluster stays bounded, and is of the newest."""

from datetime import timedelta

import pytest

from optimus_core.engine import views
from optimus_core.engine.cluster_view import MOST_JOBS, MOST_SIZES, cluster_view
from optimus_core.engine.identity import Identity
from optimus_core.store import GenerationRow

PER_JOB = MOST_SIZES // MOST_JOBS + 2


@pytest.fixture
def busy(driver, make_job):
    """More jobs than are drawn, each resized more often than would fit, the last resize never begun."""
    engine = driver.engine
    ids = [
        engine.submit(make_job(), Identity.of_task("default", "dag", f"run{n}", "train", -1)).job_id
        for n in range(MOST_JOBS + 2)
    ]
    with engine.store.transaction() as tx:
        for row in tx.jobs():
            for generation in tx.generations(row.id):
                tx.session.delete(generation)
        tx.session.flush()
        for job_id in ids:
            for number in range(1, PER_JOB + 1):
                tx.add(_generation(job_id, number, tx.now, begun=number < PER_JOB))
    return ids


def _generation(job_id, number, now, *, begun):
    starting = now - timedelta(minutes=PER_JOB - number) if begun else None
    return GenerationRow(
        job_id=job_id,
        number=number,
        attempt=1,
        servers=0,
        workers=number,
        placement={},
        state="gone" if begun else "superseded",
        reason={"code": "grown"},
        wanted_at=now,
        starting_at=starting,
        gone_at=starting and starting + timedelta(seconds=50),
    )


def test_the_newest_sizes_of_the_newest_jobs_are_told(driver, busy):
    sizes = cluster_view(driver.engine.ctx, "local", ["dag"])["sizes"]
    assert len(sizes) == MOST_SIZES
    assert len({size["name"] for size in sizes}) <= MOST_JOBS
    assert {size["state"] for size in sizes} == {"gone"}
    assert [size["starting_at"] for size in sizes] == sorted(size["starting_at"] for size in sizes)
    assert sizes[-1]["workers"] == PER_JOB - 1


def test_a_reader_of_other_dags_is_told_no_size(driver, busy):
    assert cluster_view(driver.engine.ctx, "local", ["other"])["sizes"] == []


def test_a_long_history_is_told_from_its_end_and_with_a_cursor_from_there(driver, make_job):
    made = driver.submit(make_job())
    with driver.engine.store.transaction() as tx:
        row = tx.job(made.job_id)
        for step in range(30):
            tx.record(row, "checkpoint", 1, step=step)

    def told(after):
        found = views.job_detail(driver.engine.ctx, made.job_id, points=4, events_after=after, events=10)["events"]
        return [event["cause"].get("step") for event in found], found[0]["id"]

    newest, first = told(0)
    assert newest == list(range(20, 30))
    assert told(first - 11)[0] == list(range(10, 20))


def test_a_replica_is_told_with_its_node_and_its_last_lines(driver, make_job):
    made = driver.submit(make_job(STEPS=4000, PAUSE=0.02))
    driver.to_step(made.job_id, 5)
    found = views.job_detail(driver.engine.ctx, made.job_id, points=4, events_after=0, events=0)
    (replica,) = found["replicas"]
    (node,) = found["generations"][-1]["placement"]
    assert (replica["node"], replica["generation"], replica["ended"]) == (node, 1, False)
    assert "step" in replica["tail"]
