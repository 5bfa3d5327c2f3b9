"""Replicas that a job of the same name left behind, whose row is gone: they are stopped, and nothing of them counts."""

import dataclasses
from datetime import timedelta

import pytest

from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.errors import NameTaken
from tests.conftest import Driver, until

DEAF = """
    import signal, time, optimus_train
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for step in range(900, 100_000):
        optimus_train.report(step, 9.0)
        time.sleep(0.05)
"""
POLITE = """
    import time, optimus_train
    for step in range(900, 100_000):
        optimus_train.report(step, 9.0)
        time.sleep(0.05)
        if optimus_train.stop_requested():
            break
"""


def lose_the_store(driver):
    """An engine on the same cluster, whose store is empty."""
    url = f"sqlite:///{driver.ctx.settings.home / 'another.db'}"
    settings = dataclasses.replace(driver.ctx.settings, database_url=url)
    return Driver(Engine(settings, clusters_from({"local": driver.cluster})), driver.cluster)


def lose_the_row(driver):
    """The same store, from which the job was deleted while it ran."""
    with driver.ctx.store.transaction() as tx:
        for row in tx.jobs():
            row.state, row.ended_at = "stopped", tx.now
        tx.session.flush()
        tx.delete_ended_before(tx.now + timedelta(seconds=1))
    return driver


def go_on(driver):
    """The stranger runs."""


def end(driver):
    """The stranger has ended; its record is there."""
    driver.cluster.delete(driver.alive(), grace_seconds=0)
    until(lambda: not driver.alive())


@pytest.mark.parametrize(
    ("code", "happens", "workers"),
    [
        pytest.param(POLITE, go_on, 1, id="that stops when asked"),
        pytest.param(DEAF, go_on, 1, id="that has to be killed"),
        pytest.param(POLITE, go_on, 3, id="of a later generation"),
        pytest.param(POLITE, end, 1, id="that has ended"),
    ],
)
@pytest.mark.parametrize("lose", [lose_the_store, lose_the_row])
def test_a_job_waits_for_its_namesakes_end_and_takes_nothing_of_it(
    driver, make_job, script, lose, code, happens, workers
):
    old = driver.submit(make_job(command=script(code, "old.py"), workers=(1, 3), grace_seconds=1))
    for count in sorted({1, workers}):
        driver.engine.pin("digits", "ann", workers=count)
        driver.to_size(old.job_id, count)
    driver.to_step(old.job_id, 902)
    left = {replica.uid for replica in driver.alive()}
    later = lose(driver)
    happens(later)

    new = later.submit(make_job(workers=(2, 2), STEPS=8))
    assert new.name == old.name

    def look():
        uids, report = {r.uid for r in later.alive()}, later.report(new.job_id)
        assert not (uids & left and uids - left), "both at once"
        assert (report.step or 0) <= 8
        assert report.loss is None or report.loss <= 1
        return report.final and report

    report = later.drive(new.job_id, to=look)
    assert (report.state, report.step) == ("succeeded", 8)
    assert later.events(new.job_id, "failed") == []
    assert later.cluster.list() == []


def test_what_a_job_waits_for_is_said(driver, make_job, script):
    old = driver.submit(make_job(command=script(DEAF, "old.py"), grace_seconds=2))
    driver.to_step(old.job_id, 901)
    later = lose_the_store(driver)
    new = later.submit(make_job(STEPS=100_000))
    later.drive(new.job_id, to=lambda: later.report(new.job_id).reason_code == "waits_for_namesake")
    assert later.report(new.job_id).reason == (
        f"Waits until what is left of an earlier job of its name has ended: replica {old.name}-worker-0-g1."
    )
    assert later.to_step(new.job_id, 1).reason_code != "waits_for_namesake"
    later.engine.stop("digits", "ann")
    later.to_end(new.job_id)


def test_a_job_whose_name_waits_for_its_namesake_can_be_stopped(driver, make_job, script):
    old = driver.submit(make_job(command=script(DEAF, "old.py"), grace_seconds=30))
    driver.to_step(old.job_id, 901)
    later = lose_the_store(driver)
    new = later.submit(make_job())
    later.engine.step(new.job_id)
    later.engine.stop("digits", "ann")
    assert later.to_end(new.job_id).state == "stopped"


def test_a_name_that_stays_in_use_fails_the_start_once_its_time_is_over(driver, make_job, monkeypatch):
    def taken(*_):
        raise NameTaken("digits-worker-0 is of somebody else")

    monkeypatch.setattr(driver.cluster, "create", taken)
    made = driver.submit(make_job(start_timeout=0.4, retries=0))
    driver.drive(made.job_id, to=lambda: driver.report(made.job_id).reason_code == "waits_for_namesake")
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "start_timeout")
    assert "digits-worker-0 is of somebody else" in report.reason


def test_what_replicas_of_a_job_that_the_store_does_not_know_hold_is_not_planned_with(driver, make_job, script):
    made = driver.submit(make_job(workers=(1, 8), STEPS=100_000))
    driver.engine.pin("digits", "ann", workers=3)
    driver.to_size(made.job_id, 3)
    with driver.ctx.store.transaction() as tx:
        tx.session.delete(tx.job(made.job_id))
    held = [replica.node for replica in driver.alive()]
    free = driver.engine.peek()[1].free
    assert {node: amounts["cpu"] for node, amounts in free.items()} == {n: 4000 - 1000 * held.count(n) for n in "ab"}
