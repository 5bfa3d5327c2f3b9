"""Output that can't be read, or objects that can't be removed, keep no job from its end and lose none for good."""

import pytest

from optimus_core.engine import reconcile
from optimus_core.errors import ClusterUnavailable
from optimus_core.telemetry import BoundedSeries


@pytest.fixture
def unreadable(driver, monkeypatch):
    """Make the output of the replicas that ``chosen`` says unreadable until ``monkeypatch`` undoes it."""
    real = driver.cluster.output

    def make(chosen=lambda replica: True):
        def output(replica, *arguments, **more):
            if chosen(replica):
                raise ClusterUnavailable(f"the log of {replica.name} can't be had")
            return real(replica, *arguments, **more)

        monkeypatch.setattr(driver.cluster, "output", output)

    return make


def steps_of(driver, job_id):
    with driver.ctx.store.transaction() as tx:
        return [point.step for point in BoundedSeries.from_state(tx.series(job_id, "loss").state).points()]


def test_the_end_of_a_job_waits_for_output_that_can_be_read_again_and_loses_nothing(
    driver, make_job, unreadable, monkeypatch
):
    made = driver.submit(make_job(STEPS=100))
    driver.to_step(made.job_id, 1)
    unreadable()
    driver.drive(made.job_id, to=lambda: driver.engine.step(made.job_id).phase == "reading output")
    report = driver.report(made.job_id)
    assert (report.state, report.reason_code) == ("stopping", "cluster_unavailable")
    assert "can't be had" in report.reason
    monkeypatch.undo()
    report = driver.to_end(made.job_id)
    assert (report.state, report.step) == ("succeeded", 100)
    assert steps_of(driver, made.job_id) == list(range(1, 101))
    assert driver.events(made.job_id, "output_missed") == []


def test_output_that_stays_unreadable_is_told_of_and_the_job_ends(driver, make_job, unreadable, monkeypatch):
    monkeypatch.setattr(reconcile, "_OUTPUT_SECONDS", 0.3)
    made = driver.submit(make_job(STEPS=10_000, workers=(2, 2)))
    driver.to_step(made.job_id, 1)
    unreadable()
    driver.engine.stop("digits", "ann")
    assert driver.to_end(made.job_id).state == "stopped"
    assert len(driver.events(made.job_id, "output_missed")) == 2
    assert driver.cluster.list() == []


def test_a_replica_that_is_lost_with_its_output_is_replaced(driver, make_job, unreadable):
    made = driver.submit(make_job(STEPS=10_000, workers=(2, 2)))
    driver.to_step(made.job_id, 1)
    unreadable(lambda replica: replica.generation == 1)
    (worker,) = [replica for replica in driver.alive() if replica.index == 1]
    driver.cluster.delete([worker], grace_seconds=0)
    driver.drive(made.job_id, to=lambda: len(driver.generations(made.job_id)) == 2)
    before = driver.report(made.job_id).step or 0
    driver.to_step(made.job_id, before + 3)
    driver.engine.stop("digits", "ann")
    driver.drive(made.job_id, to=lambda: driver.alive() == [])


def test_a_job_that_seems_silent_since_it_cant_be_read_does_not_hang(driver, make_job, unreadable):
    made = driver.submit(make_job(STEPS=10_000))
    driver.to_step(made.job_id, 3)
    unreadable()
    object.__setattr__(driver.engine.settings, "hung_min_seconds", 0.0)
    object.__setattr__(driver.engine.settings, "hung_factor", 1.0)
    for _ in range(5):
        driver.engine.step(made.job_id)
    assert driver.events(made.job_id, "failed") == []


def test_a_job_has_not_ended_before_its_objects_are_removed(driver, make_job, monkeypatch):
    made = driver.submit(make_job(STEPS=100))

    def unavailable(*_, **__):
        raise ClusterUnavailable("the network is gone")

    driver.to_step(made.job_id, 1)
    monkeypatch.setattr(driver.cluster, "forget", unavailable)
    driver.drive(made.job_id, to=lambda: driver.report(made.job_id).reason_code == "cluster_unavailable")
    for _ in range(3):
        assert driver.engine.step(made.job_id).phase == "unknown"
    assert driver.report(made.job_id).state == "stopping"
    monkeypatch.undo()
    assert driver.to_end(made.job_id).state == "succeeded"
    assert driver.cluster.list() == []
