"""What is late, of an older generation or an older round, changes nothing, on each kind of database."""

from __future__ import annotations

import dataclasses
import json

import pytest

from optimus_core.cluster.base import Output, OutputLine, Phase
from optimus_core.engine import collect, endings, pausing, places, rounds
from optimus_core.engine import reconcile as driving
from optimus_core.engine.launch import checkpoint_folder, replica_specs
from optimus_core.store import migrate
from optimus_core.store.database import open_database
from tests.conftest import until


@pytest.fixture
def settings(settings, database_url):
    """On each kind of database."""
    migrate.upgrade(open_database(database_url))
    return dataclasses.replace(settings, database_url=database_url)


@pytest.fixture
def succeeded(driver, make_job):
    """A job in its second generation, and what a step saw of it while the first ran."""
    made = driver.submit(make_job(workers=(1, 2), STEPS=100_000, SAVE_EVERY=5))
    driver.engine.pin("digits", "ann", workers=1)
    driver.to_step(made.job_id, 6)
    view = driving._look(driver.ctx, made.job_id)
    driver.engine.pin("digits", "ann", workers=2)
    driver.to_size(made.job_id, 2)
    driver.drive(made.job_id, to=lambda: driver.generations(made.job_id)[-1]["first_step"])
    return view


def story(driver, job_id):
    """All that the store tells of a job, but when somebody last looked at it."""
    report = dataclasses.replace(driver.report(job_id), stepped_at=None)
    with driver.ctx.store.transaction() as tx:
        series = [(row.name, row.points, row.state) for row in tx.all_series(job_id)]
        speeds = [tx.count_speeds(job_id, row.number) for row in tx.generations(job_id)]
    return report, driver.engine.history(job_id), series, speeds


LATE = {
    "drain": lambda ctx, view, old: endings.drain(ctx, view.job, old, "resize", to=9),
    "fail": lambda ctx, view, old: endings.fail_as(ctx, view.job, old, "lost", {}),
    "roll back": lambda ctx, view, old: endings.roll_back(ctx, view.job, old, "refused_for_now", {}),
    "succeed": lambda ctx, view, old: endings.succeed(ctx, view.job, old),
    "settle": lambda ctx, view, old: endings.settle(ctx, view.job, old),
    "supersede": lambda ctx, view, old: endings.supersede(ctx, view.job, old, {"code": "refused", "numbers": {}}),
    "hold": lambda ctx, view, old: endings.note_held(ctx, view.job, old, "held by a gate"),
    "wait": lambda ctx, view, old: endings.note_waiting(ctx, view.job, {"code": "waits_for_namesake", "numbers": {}}),
    "give up": lambda ctx, view, old: places.give_up(ctx, view.job, old, {}),
    "finish": lambda ctx, view, old: endings.finish(ctx, view.job, NoCluster()),
    "pause": lambda ctx, view, old: pausing.drain(ctx, view.job, old),
    "start": lambda ctx, view, old: driving._start(view, old),
    "run": lambda ctx, view, old: driving._await_start(view, old, view.of(old.number)),
}


class NoCluster:
    """Has nothing to forget."""

    def forget(self, job, before=None):
        """Do nothing."""


def test_no_act_on_a_generation_whose_successor_has_started_is_written(driver, succeeded):
    (old,) = succeeded.active("running")
    before = story(driver, succeeded.job.id)
    for name, act in LATE.items():
        act(driver.ctx, succeeded, old)
        assert story(driver, succeeded.job.id) == before, name
    assert len(driver.alive()) == 2


def test_no_act_of_an_attempt_whose_successor_has_started_is_written(driver, make_job):
    job = make_job(workers=(1, 1), STEPS=100_000, SAVE_EVERY=5)
    made = driver.submit(job)
    driver.to_step(made.job_id, 6)
    view = driving._look(driver.ctx, made.job_id)
    driver.submit(job, 2)
    driver.drive(made.job_id, to=lambda: [g for g in driver.generations(made.job_id)[1:] if g["first_step"]])
    (old,) = view.active("running")
    before = story(driver, made.job_id)
    for name, act in LATE.items():
        act(driver.ctx, view, old)
        assert story(driver, made.job_id) == before, name


def test_an_attempt_that_is_to_stop_is_not_ended_by_who_looked_at_the_one_before(driver, make_job):
    job = make_job()
    made = driver.submit(job)
    driver.engine.request_stop(made.job_id, by="ann")
    view = driving._look(driver.ctx, made.job_id)
    driver.submit(job, 2)
    driver.engine.request_stop(made.job_id, by="ann")
    assert driving._stop(view).phase == "overtaken"
    assert not endings.finish(driver.ctx, view.job, NoCluster())
    assert driver.report(made.job_id).state == "stopping"
    assert driver.to_end(made.job_id).state == "stopped"


def test_a_place_is_not_given_up_for_a_job_that_was_stopped_meanwhile(driver, make_job):
    made = driver.submit(make_job())
    view = driving._look(driver.ctx, made.job_id)
    driver.engine.request_stop(made.job_id, by="ann")
    before = story(driver, made.job_id)
    for name in ("give up", "wait"):
        LATE[name](driver.ctx, view, view.wanted)
        assert story(driver, made.job_id) == before, name


def test_what_a_generation_prints_after_its_successor_has_started_is_kept_and_counts_for_nothing(driver, succeeded):
    job_id = succeeded.job.id
    folder = checkpoint_folder(driver.ctx, succeeded.job, collect._checkpoint_place(succeeded.job, driver.cluster))
    (old,) = succeeded.active("running")
    path = f"{folder}/g{old.number:06}/step-000000009000"
    told = [{"optimus": "report", "step": 9000, "loss": 0.0}, {"optimus": "checkpoint", "step": 9000, "path": path}]
    lines = tuple(OutputLine(2e9, json.dumps(each).encode()) for each in told)
    late = dataclasses.replace(succeeded.of(old.number)[0], uid="come back", phase=Phase.RUNNING)

    class ComeBack:
        checkpoint_place = driver.cluster.checkpoint_place

        def output(self, replica, cursor, limit_bytes=0):
            return Output(lines if cursor is None else (), "1", ended=False)

    before = story(driver, job_id)
    collect.collect(driver.ctx, succeeded.job, [late], ComeBack())
    assert story(driver, job_id) == before
    assert "9000" in next(each["tail"] for each in driver.engine.outputs(job_id) if each["uid"] == "come back")


def test_what_the_holder_of_an_older_lease_decides_is_not_written(driver, make_job, monkeypatch):
    with driver.ctx.store.transaction() as tx:
        tx.cluster("local")
    real = rounds.plan

    def plan_too_slowly(snapshot):
        with driver.ctx.store.transaction() as tx:
            tx.cluster("local").lease_expires = tx.now
        with driver.ctx.store.transaction() as tx:
            assert tx.take_lease("local", "another", 60) is not None
        return real(snapshot)

    monkeypatch.setattr(rounds, "plan", plan_too_slowly)
    made = driver.submit(make_job())
    assert driver.generations(made.job_id) == []
    assert driver.report(made.job_id).state == "queued"


@pytest.mark.parametrize("seen", [pytest.param(True, id="alive"), pytest.param(False, id="ended")])
def test_replicas_that_are_made_after_their_job_has_ended_are_gone_after_two_beats(driver, make_job, seen):
    made = driver.submit(make_job(STEPS=100_000 if seen else 1))
    view = driving._look(driver.ctx, made.job_id)
    specs = replica_specs(driver.ctx, view.job, view.generations[-1], driver.cluster)
    driver.engine.request_stop(made.job_id, by="ann")
    driver.to_end(made.job_id)
    driver.cluster.create(f"{view.job.name}-g1", specs)
    until(lambda: seen or not driver.alive())
    assert driver.cluster.list() != []
    driver.engine.upkeep()
    until(lambda: not driver.alive())
    driver.engine.upkeep()
    assert driver.cluster.list() == []
