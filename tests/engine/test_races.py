"""Several at once: drivers, rounds, owners; one of whom is always late."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.exc import OperationalError

from optimus_core.engine import reconcile as driving
from optimus_core.engine import rounds, submit
from optimus_core.engine.context import Context, clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.engine.identity import Identity
from optimus_core.engine.reconcile import reconcile
from optimus_core.engine.submit import Action
from optimus_core.job import Steps


class Between:
    """A cluster that lets something happen right after (or before) one call of a method."""

    def __init__(self, cluster, method, act, *, before=False):
        self._cluster, self._method, self._act, self._before = cluster, method, act, before

    def __getattr__(self, name):
        real = getattr(self._cluster, name)
        if name != self._method or self._act is None:
            return real

        def call(*arguments, **more):
            act, self._act = self._act, None
            if act is not None and self._before:
                act()
            answer = real(*arguments, **more)
            if act is not None and not self._before:
                act()
            return answer

        return call


@pytest.fixture
def late(driver):
    """Makes a driver that is interrupted once, for as long as ``act`` takes."""

    def make(method, act, **more):
        between = Between(driver.cluster, method, act, **more)
        return Context(driver.ctx.store, driver.ctx.settings, clusters_from({"local": between}))

    return make


def test_a_clear_during_a_resize_makes_one_new_attempt_and_the_old_kill_does_nothing(driver, make_job):
    job = make_job(workers=(1, 3), STEPS=10_000)
    old = driver.submit(job)
    driver.engine.pin("digits", "ann", workers=1)
    driver.to_step(old.job_id, 6)
    driver.engine.pin("digits", "ann", workers=3)
    driver.drive(old.job_id, to=lambda: driver.report(old.job_id).phase == "resizing")
    new = driver.submit(job, 2)
    assert new.action is Action.RESUMED
    assert driver.engine.request_stop(old.job_id, token=old.token, by="the old trigger") is False
    report = driver.to_size(new.job_id, 3)
    assert (report.attempt, report.state) == (2, "running")
    assert {r.generation for r in driver.alive()} == {driver.generations(old.job_id)[-1]["number"]}
    first = driver.drive(new.job_id, to=lambda: driver.generations(old.job_id)[-1]["first_step"])
    assert first > 6


def test_a_re_attach_during_a_resize_only_changes_the_token(driver, make_job):
    job = make_job(workers=(1, 3), STEPS=10_000)
    old = driver.submit(job)
    driver.engine.pin("digits", "ann", workers=1)
    driver.to_step(old.job_id, 2)
    driver.engine.pin("digits", "ann", workers=3)
    driver.drive(old.job_id, to=lambda: driver.report(old.job_id).phase == "resizing")
    new = driver.submit(job)
    assert new.action is Action.REATTACHED
    assert driver.engine.request_stop(old.job_id, token=old.token, by="the old trigger") is False
    report = driver.to_size(new.job_id, 3)
    assert report.attempt == 1


def test_a_retry_while_the_old_generation_terminates_waits_for_its_end(driver, make_job, script):
    slow = """
        import time, optimus_train
        step = 0
        while not optimus_train.stop_requested():
            time.sleep(0.05)
            step += 1
            optimus_train.report(step, 1.0)
        time.sleep(1)
    """
    job = make_job(workers=(2, 2), command=script(slow, "slow.py"))
    old = driver.submit(job)
    driver.to_step(old.job_id, 1)
    (first,) = {r.generation for r in driver.alive()}
    driver.submit(job, 2)
    seen = []
    driver.drive(
        old.job_id,
        to=lambda: (
            seen.append((driver.report(old.job_id).state, {r.generation for r in driver.alive()})),
            seen[-1][1] not in (set(), {first}),
        )[1],
    )
    assert all(len(generations) <= 1 for _, generations in seen)
    assert {state for state, generations in seen if generations == {first}} <= {"queued"}
    assert driver.report(old.job_id).attempt == 2


def test_what_an_old_attempt_prints_counts_no_more(driver, make_job):
    job = make_job(STEPS=10_000)
    made = driver.submit(job)
    driver.to_step(made.job_id, 6)
    driver.submit(job, 2, fresh=True)
    driver.drive(made.job_id, to=lambda: driver.generations(made.job_id)[0]["state"] == "gone")
    assert driver.report(made.job_id).step is None
    driver.to_step(made.job_id, 1)
    assert driver.generations(made.job_id)[-1]["first_step"] == 1  # a new lineage reads no old checkpoint


def test_a_driver_with_an_old_list_does_not_take_what_another_started_for_lost(driver, make_job, late):
    made = driver.submit(make_job(STEPS=10_000))
    stale = late("list", lambda: driver.drive(made.job_id, to=lambda: driver.report(made.job_id).phase == "running"))
    assert reconcile(stale, made.job_id).phase == "overtaken"
    assert driver.events(made.job_id, "failed") == []
    assert len(driver.alive()) == 1
    assert not driver.alive()[0].terminating


def test_a_driver_that_looked_before_a_resize_does_not_delete_the_new_size(driver, make_job, late):
    made = driver.submit(make_job(workers=(1, 2), STEPS=10_000))
    driver.engine.pin("digits", "ann", workers=1)
    driver.to_size(made.job_id, 1)
    driver.engine.pin("digits", "ann", workers=2)
    stale = late("list", lambda: driver.to_size(made.job_id, 2), before=True)
    reconcile(stale, made.job_id)
    driver.engine.step(made.job_id)
    assert [r.terminating for r in driver.alive()] == [False, False]
    assert driver.events(made.job_id, "failed") == []


def test_a_stale_stop_does_not_give_up_what_a_new_attempt_wants(driver, make_job, monkeypatch):
    job = make_job(STEPS=3)
    made = driver.submit(job)
    driver.engine.request_stop(made.job_id, by="ann")
    real = driving._stop

    def stop_late(view):
        monkeypatch.setattr(driving, "_stop", real)
        driver.submit(job, 2)
        return real(view)

    monkeypatch.setattr(driving, "_stop", stop_late)
    reconcile(driver.ctx, made.job_id)
    assert driver.generations(made.job_id)[-1]["state"] == "wanted"
    report = driver.to_end(made.job_id)
    assert (report.state, report.attempt) == ("succeeded", 2)


def test_a_job_that_ends_between_plan_and_write_gets_nothing(driver, make_job, monkeypatch):
    made = driver.submit(make_job(STEPS=10_000))
    driver.to_step(made.job_id, 1)
    real = rounds.plan

    def plan_while_it_ends(snapshot):
        driver.engine.request_stop(made.job_id, by="ann")
        while not reconcile(driver.ctx, made.job_id).final:
            pass
        return real(snapshot)

    monkeypatch.setattr(rounds, "plan", plan_while_it_ends)
    before = len(driver.generations(made.job_id))
    report = driver.engine.round()
    assert report.changes == []
    assert len(driver.generations(made.job_id)) == before
    assert driver.report(made.job_id).state == "stopped"


def test_a_job_that_ends_between_plan_and_step_needs_no_step(driver, make_job):
    made = driver.submit(make_job(workers=(1, 3), STEPS=10_000))
    driver.engine.pin("digits", "ann", workers=1)
    driver.to_size(made.job_id, 1)
    driver.engine.pin("digits", "ann", workers=3)
    driver.engine.request_stop(made.job_id, by="ann")
    assert driver.to_end(made.job_id).state == "stopped"
    assert reconcile(driver.ctx, made.job_id).final
    assert driver.generations(made.job_id)[-1]["state"] == "superseded"
    assert driver.alive() == []


def test_a_plan_for_an_earlier_attempt_is_not_written(driver, make_job, monkeypatch):
    made = driver.submit(make_job(workers=(4, 4)))
    real = rounds.take

    def take_and_clear(*arguments):
        monkeypatch.setattr(rounds, "take", real)
        snapshot = real(*arguments)
        submit.submit(driver.ctx, make_job(workers=(1, 1)), Identity.of_name("default", "digits"), 2)
        return snapshot

    monkeypatch.setattr(rounds, "take", take_and_clear)
    report = driver.engine.round()
    assert report.plans == 2  # the new attempt was planned by a plan of its own
    sizes = [(g["attempt"], g["workers"]) for g in driver.generations(made.job_id)]
    assert sizes == [(1, 4), (2, 1)]


def test_of_two_rounds_at_once_one_plans(driver, make_job, monkeypatch):
    driver.submit(make_job())
    second = Engine(driver.engine.settings, clusters_from({"local": driver.cluster}))
    real, answers = rounds.plan, []

    def plan_while_another_tries(snapshot):
        monkeypatch.setattr(rounds, "plan", real)
        answers.append(second.round())
        return real(snapshot)

    monkeypatch.setattr(rounds, "plan", plan_while_another_tries)
    assert driver.engine.round() is not None
    assert answers == [None]


def test_what_arrives_during_a_round_is_planned_by_its_holder(driver, make_job, monkeypatch):
    first = driver.submit(make_job("first"))
    real = rounds.plan
    late = []

    def plan_while_another_arrives(snapshot):
        monkeypatch.setattr(rounds, "plan", real)
        late.append(driver.submit(make_job("second")))
        return real(snapshot)

    monkeypatch.setattr(rounds, "plan", plan_while_another_arrives)
    assert driver.engine.round().plans == 2
    assert [driver.report(i).state for i in (first.job_id, late[0].job_id)] == ["running", "running"]


def test_many_drivers_at_once_do_no_harm(driver, make_job):
    made = driver.submit(make_job(STEPS=25))
    engines = [Engine(driver.engine.settings, clusters_from({"local": driver.cluster})) for _ in range(4)]

    def drive(engine):
        while not engine.step(made.job_id).final:
            pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(drive, engines))
    report = driver.report(made.job_id)
    assert (report.state, report.step, report.attempt) == ("succeeded", 25, 1)
    assert len(driver.generations(made.job_id)) == 1
    with driver.ctx.store.transaction() as tx:
        assert tx.series(made.job_id, "loss").points == 25


def test_many_submissions_of_one_job_at_once_make_one(driver, make_job):
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: driver.submit(make_job()), range(6)))
    assert len({each.job_id for each in made}) == 1
    assert sorted(each.action for each in made) == [Action.CREATED] + [Action.REATTACHED] * 5
    with driver.ctx.store.transaction() as tx:
        owner = tx.peek_job(made[0].job_id).token
    assert [each.token for each in made].count(owner) == 1


def test_a_stop_that_the_store_did_not_take_is_no_stop_and_can_be_asked_again(driver, make_job, settings):
    made = driver.submit(make_job(STEPS=10_000))
    driver.to_step(made.job_id, 1)
    elsewhere = settings.home.with_name("elsewhere")
    settings.home.rename(elsewhere)
    try:
        with pytest.raises(OperationalError):
            driver.engine.request_stop(made.job_id, token=made.token, by="the trigger")
        with pytest.raises(OperationalError):
            driver.engine.step(made.job_id)
        assert len(driver.alive()) == 1
    finally:
        elsewhere.rename(settings.home)
    assert driver.report(made.job_id).state == "running"
    assert driver.engine.request_stop(made.job_id, token=made.token, by="the trigger")
    assert driver.to_end(made.job_id).state == "stopped"


def test_a_step_that_meets_a_busy_store_is_taken_later(driver, make_job, settings, monkeypatch):
    made = driver.submit(make_job(STEPS=3))
    monkeypatch.setattr("optimus_core.store.database._BUSY_SECONDS", 0)
    other = Engine(settings, clusters_from({"local": driver.cluster}))
    lock = sqlite3.connect(settings.home / "optimus.db", isolation_level=None)
    lock.execute("begin immediate")
    with pytest.raises(OperationalError):
        other.step(made.job_id)
    lock.execute("rollback")
    lock.close()
    assert driver.to_end(made.job_id).state == "succeeded"


def test_a_criterion_met_and_a_stop_at_once_end_in_one_final_state(driver, make_job):
    made = driver.submit(make_job(STEPS=10_000, stop=Steps(4)))
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "draining"))
    assert driver.report(made.job_id).phase == "stopping"
    driver.engine.request_stop(made.job_id, by="ann")
    report = driver.to_end(made.job_id)
    assert report.state in ("succeeded", "stopped")
    assert [e["kind"] for e in driver.events(made.job_id)].count(report.state) == 1
    assert driver.alive() == []
