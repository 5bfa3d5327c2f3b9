"""Every step can die anywhere and be taken again: the result is the same."""

import os
from contextlib import contextmanager
from functools import partial

import pytest

from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.store import Store


def in_a_child(act):
    """Run ``act`` in a child process and return its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Deadly:
    """A cluster that ends the process at a call of one of its methods."""

    def __init__(self, cluster, method, when):
        self._cluster, self._method, self._when = cluster, method, when

    def __getattr__(self, name):
        real = getattr(self._cluster, name)
        if name != self._method:
            return real

        def call(*arguments, **more):
            if self._when == "before":
                os._exit(9)
            answer = real(*arguments, **more)
            if name != "delete" or arguments[0]:
                os._exit(9)
            return answer

        return call


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", ["endpoints", "create", "delete", "forget", "output", "check"])
def test_a_driver_that_dies_at_a_call_of_the_cluster_is_replaced_by_another(driver, make_job, method, when):
    made = driver.submit(make_job(workers=(1, 2), STEPS=60))
    driver.engine.pin("digits", "ann", workers=1)
    deadly = Engine(driver.engine.settings, clusters_from({"local": Deadly(driver.cluster, method, when)}))

    def drive():
        while not deadly.step(made.job_id).final:
            pass

    if method in ("delete", "check"):  # they come with a resize
        driver.to_step(made.job_id, 2)
        driver.engine.pin("digits", "ann", workers=2)
    assert in_a_child(drive) == 9
    report = driver.to_end(made.job_id)
    assert (report.state, report.step, report.attempt) == ("succeeded", 60, 1)
    assert driver.events(made.job_id, "failed") == []
    assert driver.alive() == []


def test_a_driver_that_dies_after_any_transaction_is_replaced_by_another(driver, make_job):
    made = driver.submit(make_job(workers=(1, 2), STEPS=150))
    deaths = 0
    real = Store.transaction

    def drive(limit):
        done = 0

        @contextmanager
        def deadly(store):
            nonlocal done
            with real(store) as tx:
                yield tx
            done += 1
            if done == limit:
                os._exit(9)

        Store.transaction = deadly
        while not driver.engine.step(made.job_id).final:
            pass

    resized = False
    for turn in range(400):
        code = in_a_child(partial(drive, 1 + turn % 8))
        deaths += code == 9
        report = driver.report(made.job_id)
        if not resized and (report.step or 0) >= 3:
            driver.engine.pin("digits", "ann", workers=2 if report.workers == 1 else 1)
            resized = True
        if report.final:
            break
    assert (report.state, report.step, report.attempt) == ("succeeded", 150, 1)
    assert deaths > 10
    assert driver.events(made.job_id, "failed") == []
    assert len([g for g in driver.generations(made.job_id) if g["state"] == "gone"]) == 2
    with driver.ctx.store.transaction() as tx:
        assert tx.series(made.job_id, "loss").points >= 25
    assert driver.alive() == []


def test_a_round_that_dies_is_taken_over_when_its_lease_has_expired(driver, make_job):
    object.__setattr__(driver.engine.settings, "lease_seconds", 0.3)
    from optimus_core.engine import rounds

    def submit_and_die():
        rounds.plan = lambda _: os._exit(9)
        driver.submit(make_job(STEPS=2))

    assert in_a_child(submit_and_die) == 9
    (report,) = driver.engine.jobs()
    assert report.state == "queued"
    assert driver.to_end(report.id).state == "succeeded"


def test_a_submission_that_dies_before_its_round_is_planned_by_who_comes_next(driver, make_job):
    def submit_and_die():
        driver.engine.round = lambda *_: os._exit(9)
        driver.submit(make_job(STEPS=2))

    assert in_a_child(submit_and_die) == 9
    again = driver.submit(make_job(STEPS=2))
    assert again.action == "reattached"
    assert driver.to_end(again.job_id).state == "succeeded"
