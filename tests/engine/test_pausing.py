"""Pauses on real processes: saved, stopped, resumed, and never where it was promised not to."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from optimus_core.choices import Steps
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.engine.pausing import is_away, paused_seconds
from optimus_core.engine.reconcile import reconcile
from optimus_core.store import GenerationRow, JobRow
from tests.conftest import Driver

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WHOLE = {"workers": (8, 8), "STEPS": 10_000, "workload": "digits"}


@pytest.fixture
def settings(settings):
    return dataclasses.replace(settings, pausing="auto", max_paused=600, speed_window_seconds=0.3)


def with_speed(driver, job_id):
    """Step a job until a plan could pause it: its speed is known, and a checkpoint of it."""

    def known():
        row = driver.engine.job_by_id(job_id)
        with driver.engine.store.transaction() as tx:
            stored = tx.peek_job(job_id)
            samples = tx.speeds(stored.workload, stored.specification_hash)
        return bool(samples) and row.checkpoint_step

    return driver.drive(job_id, to=known)


def long_and_short(driver, make_job):
    long = driver.submit(make_job("long", stop=Steps(5_000), **WHOLE)).job_id
    with_speed(driver, long)
    return long, driver.submit(make_job("short", stop=Steps(40), **WHOLE)).job_id


def test_a_long_job_makes_room_for_a_short_one_and_goes_on_from_its_checkpoint(driver, make_job):
    long, short = long_and_short(driver, make_job)
    report = driver.to_state(long, "paused")
    assert report.reason_code == "paused"
    assert "1 job that has less left to do" in report.reason
    assert "at the latest" in report.reason
    driver.drive(long, to=lambda: driver.events(long, "paused"))
    (paused,) = driver.events(long, "paused")
    report = driver.report(long)
    assert (report.phase, report.workers) == ("paused", 0)
    assert paused["cause"]["step"] == report.checkpoint_step == report.step
    assert driver.drive(long, short, to=lambda: driver.report(short).state == "succeeded")
    driver.to_size(long, 8)
    driver.to_step(long, report.step + 3)
    first, last = (g for g in driver.generations(long) if g["state"] in ("gone", "running"))
    assert last["first_step"] == paused["cause"]["step"] + 1
    assert first["ended_by"].startswith("Paused with its checkpoint")


def test_never_keeps_everyone_running(driver, make_job):
    quiet = dataclasses.replace(driver.engine.settings, pausing="never")
    driver = Driver(Engine(quiet, clusters_from({"local": driver.cluster})), driver.cluster)
    long, short = long_and_short(driver, make_job)
    driver.to_step(long, driver.report(long).step + 5)
    driver.engine.step(short)
    assert (driver.report(long).state, driver.report(short).state) == ("running", "queued")
    assert driver.report(short).reason_code == "waits_for_room"


def test_a_pinned_job_is_never_paused(driver, make_job):
    long = driver.submit(make_job("long", stop=Steps(5_000), **WHOLE)).job_id
    with_speed(driver, long)
    driver.engine.pin("long", "ann", workers=8)
    driver.submit(make_job("short", stop=Steps(40), **WHOLE))
    driver.engine.round()
    assert driver.report(long).state == "running"


def test_a_job_without_a_confirmed_checkpoint_is_never_paused(driver, make_job):
    long = driver.submit(make_job("long", stop=Steps(5_000), SAVE_EVERY=0, **WHOLE)).job_id
    with driver.engine.store.transaction() as tx:
        stored = tx.peek_job(long)

    def measured():
        with driver.engine.store.transaction() as tx:
            return tx.speeds(stored.workload, stored.specification_hash)

    driver.drive(long, to=measured)
    driver.submit(make_job("short", stop=Steps(40), **WHOLE))
    driver.engine.round()
    assert (driver.report(long).state, driver.report(long).checkpoint_step) == ("running", None)


def test_whoever_was_paused_long_enough_gets_its_minimum_again(engine, cluster, make_job):
    engine.settings = dataclasses.replace(engine.settings, max_paused=4)
    engine.ctx = dataclasses.replace(engine.ctx, settings=engine.settings)
    driver = Driver(engine, cluster)
    long = driver.submit(make_job("long", stop=Steps(9_000), **WHOLE)).job_id
    with_speed(driver, long)
    short = driver.submit(make_job("short", stop=Steps(2_000), **WHOLE)).job_id
    driver.drive(long, short, to=lambda: driver.events(long, "paused"))
    driver.drive(long, short, to=lambda: driver.report(long).phase == "running")
    with engine.store.transaction() as tx:
        row, generations = tx.peek_job(long), tx.generations(long)
        pause, *_ = [g for g in generations if (g.cause or {}).get("code") == "paused"]
        back = next(g for g in generations if g.number > pause.number and g.running_at is not None)
        assert (
            paused_seconds(row, generations, back.running_at) == (back.running_at - pause.draining_at).total_seconds()
        )
    assert driver.report(short).state == "paused"
    for job_id in (long, short):
        engine.request_stop(job_id, by="ann")
    driver.drive(long, short, to=lambda: driver.report(long).final and driver.report(short).final)


@pytest.mark.parametrize("when", [pytest.param("pausing", id="while-it-stops"), pytest.param("paused", id="paused")])
def test_stopping_a_paused_job_leaves_nothing(driver, make_job, when):
    long, short = long_and_short(driver, make_job)
    assert driver.report(long).phase == "pausing"
    if when == "paused":
        driver.drive(long, to=lambda: driver.report(long).phase == "paused")
    driver.engine.request_stop(long, by="ann")
    assert driver.to_end(long).state == "stopped"
    assert not [r for r in driver.alive() if r.job == driver.report(long).name]
    driver.drive(short, to=lambda: driver.report(short).workers == 8)


def test_a_cleared_paused_job_goes_on_as_a_new_attempt_that_was_never_paused(driver, make_job):
    long, short = long_and_short(driver, make_job)
    driver.drive(long, to=lambda: driver.report(long).phase == "paused")
    saved = driver.report(long).checkpoint_step
    driver.submit(make_job("long", stop=Steps(5_000), **WHOLE), try_number=2)
    with driver.engine.store.transaction() as tx:
        row, generations = tx.peek_job(long), tx.generations(long)
        assert not is_away(row, generations)
        assert paused_seconds(row, generations, tx.now) == 0
    driver.drive(long, short, to=lambda: driver.report(short).final)
    driver.to_step(long, saved + 2)
    assert driver.generations(long)[-1]["first_step"] == saved + 1


def test_replicas_killed_while_pausing_leave_the_older_checkpoint_and_the_truth(driver, make_job):
    long, short = long_and_short(driver, make_job)
    driver.cluster.delete(driver.cluster.list(driver.report(long).name), grace_seconds=0)
    driver.drive(long, to=lambda: driver.events(long, "paused") or driver.report(long).state == "queued")
    report = driver.report(long)
    if report.state == "paused":
        numbers = driver.events(long, "paused")[0]["cause"]
        assert numbers["step"] + numbers.get("lost_steps", 0) == report.step
    driver.drive(long, short, to=lambda: driver.report(short).final)
    driver.to_step(long, report.checkpoint_step + 1)


def test_a_pause_that_is_no_longer_wanted_before_it_began_stops_nothing(driver, make_job):
    long, short = long_and_short(driver, make_job)
    assert driver.report(long).phase == "pausing"
    before = {r.uid for r in driver.alive() if r.job == driver.report(long).name}
    driver.engine.request_stop(short, by="ann")
    driver.to_end(short)
    driver.engine.round()
    assert driver.report(long).state == "running"
    reconcile(driver.ctx, long)
    assert {r.uid for r in driver.alive() if r.job == driver.report(long).name} == before


def generation(number, running=None, draining=None, pause=False):
    at = {"running_at": running, "draining_at": draining}
    return GenerationRow(
        number=number,
        attempt=1,
        cause={"code": "paused", "numbers": {}} if pause else None,
        **{name: None if value is None else NOW + timedelta(seconds=value) for name, value in at.items()},
    )


@pytest.mark.parametrize(
    ("generations", "seconds"),
    [
        pytest.param([generation(1, 0)], 0, id="it-never-was"),
        pytest.param([generation(1, 0, 10, True)], 90, id="it-still-is"),
        pytest.param([generation(1, 0, 10, True), generation(2, 40)], 0, id="it-has-run-as-long-since"),
        pytest.param([generation(1, 0, 10, True), generation(2, 90)], 80, id="it-has-come-back-just-now"),
        pytest.param(
            [generation(1, 0, 10, True), generation(2, 40, 50, True), generation(3, 60)], 0, id="forty-and-run-forty"
        ),
        pytest.param([generation(1, 0, 10, True), generation(2, 40, 50, True)], 80, id="two-pauses-add-up"),
        pytest.param(
            [generation(1, 0, 10, True), generation(2, None, 50, True)], 90, id="a-start-that-never-ran-ends-no-pause"
        ),
    ],
)
def test_pauses_add_up_until_the_job_has_run_as_long(generations, seconds):
    row = JobRow(attempt=1)
    assert paused_seconds(row, generations, NOW + timedelta(seconds=100)) == seconds
