"""Engines that die, stall or meet others in the middle of a step: the next finishes it, the late one harms nothing."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from optimus_core.cluster.kubernetes.status import GENERATION
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from tests.conftest import until

LONG = {"STEPS": 100_000, "SAVE_EVERY": 5}


@pytest.fixture
def one_of_two(driver, make_job):
    """A job that may have two workers, and is to have one."""
    made = driver.submit(make_job(workers=(1, 2), **LONG))
    driver.engine.pin(str(made.job_id), "ann", workers=1)
    return made.job_id


def resizes(driver, job_id, workers, before=None):
    """Drive the job to another size; it goes on from where it was, or from after step ``before``, once."""
    before = driver.report(job_id).step if before is None else before
    driver.to_size(job_id, workers)
    assert driver.drive(job_id, to=lambda: driver.generations(job_id)[-1]["first_step"]) > before
    assert driver.events(job_id, "failed") == []
    assert {r.generation for r in driver.alive()} == {driver.generations(job_id)[-1]["number"]}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", r"/configmaps$", id="its objects are made"),
        pytest.param("POST", r"/pods$", id="its pods are made"),
    ],
)
def test_an_engine_that_is_killed_while_it_starts_a_job_is_replaced_by_the_next(
    driver, make_job, engine_process, aftermath, method, path
):
    made = driver.submit(make_job(workers=(2, 2), **LONG))
    doomed = engine_process()
    doomed.dies_at(method, path)
    doomed.drive(made.job_id)
    assert doomed.wait() == -signal.SIGKILL
    driver.to_step(made.job_id, 3)
    assert len(driver.generations(made.job_id)) == 1
    assert len(driver.alive()) == 2
    aftermath(made.job_id)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("PATCH", r"/pods/", id="the old pods are stopped"),
        pytest.param("POST", r"/pods$", id="the new pods are made"),
        pytest.param("DELETE", r"/configmaps/", id="what is left of the old is removed"),
    ],
)
def test_an_engine_that_is_killed_while_it_resizes_a_job_is_replaced_by_the_next(
    driver, one_of_two, engine_process, aftermath, method, path
):
    step = driver.to_step(one_of_two, 8).step
    driver.engine.pin(str(one_of_two), "ann", workers=2)
    doomed = engine_process()
    doomed.dies_at(method, path)
    doomed.drive(one_of_two)
    assert doomed.wait() == -signal.SIGKILL
    resizes(driver, one_of_two, 2, before=step)
    aftermath(one_of_two)


def late_pods(pods, number):
    return [pod for pod in pods() if pod.metadata.labels.get(GENERATION) == str(number)]


ALL_ANEW, DEAD_OWNER = r"/configmaps$", r"/services$"
"""Where it stalls: it makes the owner of its pods afterwards, or knows one that is gone by then."""
STALLS = [pytest.param(ALL_ANEW, id="with an owner"), pytest.param(DEAD_OWNER, id="of a dead owner")]


@pytest.fixture
def stalled(driver, one_of_two, engine_process):
    """Returns an engine that has stopped in the middle of starting ``one_of_two``, and the number of the generation."""

    def make(path):
        process = engine_process()
        rule = process.stalls_at("POST", path)
        process.drive(one_of_two)
        until(lambda: rule.hits, 60)
        return process, driver.generations(one_of_two)[-1]["number"]

    return make


@pytest.mark.parametrize("path", STALLS)
def test_pods_that_a_stalled_engine_makes_after_a_resize_save_nothing_and_are_gone_soon(
    driver, one_of_two, stalled, pods, core, namespace, aftermath, path
):
    process, number = stalled(path)
    driver.to_step(one_of_two, 8)
    driver.engine.pin(str(one_of_two), "ann", workers=2)
    resizes(driver, one_of_two, 2)
    driver.drive(one_of_two, to=lambda: late_pods(pods, number) == [])
    before, saved = driver.report(one_of_two), driver.generations(one_of_two)

    process.finish_step()
    assert [each.status for each in process.proxy.seen("POST", r"/pods$")] == [201]
    if path == ALL_ANEW:  # nobody looks for a while
        (pod,) = until(lambda: [p for p in late_pods(pods, number) if p.status.phase == "Failed"], 30)
        log = core.read_namespaced_pod_log(pod.metadata.name, namespace)
        assert f"generation {number} of this job is over" in log
    else:
        until(lambda: late_pods(pods, number) == [], 30)
    driver.to_step(one_of_two, before.step + 5)
    assert [g["number"] for g in driver.generations(one_of_two)] == [g["number"] for g in saved]
    assert driver.events(one_of_two, "failed") == []
    assert driver.report(one_of_two).checkpoint_step >= before.checkpoint_step
    driver.engine.pin(str(one_of_two), "ann", workers=1)
    resizes(driver, one_of_two, 1)
    aftermath(one_of_two)


@pytest.mark.parametrize("path", STALLS)
def test_pods_that_a_stalled_engine_makes_after_the_jobs_end_are_gone_after_two_rounds(
    driver, one_of_two, stalled, aftermath, path
):
    process, _ = stalled(path)
    driver.to_step(one_of_two, 8)
    driver.engine.request_stop(one_of_two, by="ann")
    driver.to_end(one_of_two)
    process.finish_step()
    assert [each.status for each in process.proxy.seen("POST", r"/pods$")] == [201]
    aftermath(one_of_two)


def test_several_engines_and_rounds_at_once_resize_a_job_and_harm_nothing(
    driver, one_of_two, engine_process, settings, aftermath
):
    for _ in range(2):
        engine_process().drive(one_of_two)
    others = [Engine(settings, clusters_from({"kube": driver.cluster})) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        driver.to_step(one_of_two, 8)
        for workers in (2, 1):
            list(pool.map(lambda each, n=workers: each.pin(str(one_of_two), "ann", workers=n), others))
            list(pool.map(lambda each: each.round(), others))
            resizes(driver, one_of_two, workers)
    assert [g["workers"] for g in driver.generations(one_of_two) if g["starting_at"]] == [1, 2, 1]
    aftermath(one_of_two)
