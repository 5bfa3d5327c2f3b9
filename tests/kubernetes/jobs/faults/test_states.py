"""What is done to a task while its job is in any state: killed, cleared or retried, it ends or runs anew, once."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.cluster.others import full_nodes
from tests.cluster.testbed import PYTHON_IMAGE
from tests.conftest import until

SLEEP = {"name": "late", "image": PYTHON_IMAGE, "command": ["sleep", "600"]}


@pytest.fixture
def in_state(driver, make_job, core, namespace):
    """Brings a job into a state; returns it, its first submission, and what makes room for it."""
    with ExitStack() as stack:

        def bring(state):
            room = stack.enter_context(ExitStack())
            more = {"cpu": "2"} if state == "queued" else {}
            if state == "starting":
                more["pod"] = {"spec": {"initContainers": [SLEEP]}}
            if state == "queued":
                room.enter_context(full_nodes(core, "default"))
            job = make_job(workers=(1, 2 if state == "resizing" else 1), STEPS=100_000, SAVE_EVERY=5, **more)
            made = driver.submit(job)
            if state == "resizing":
                driver.engine.pin(str(made.job_id), "ann", workers=1)
            if state in ("running", "resizing", "stopping"):
                driver.to_step(made.job_id, 8)
            if state == "resizing":
                driver.engine.pin(str(made.job_id), "ann", workers=2)
            if state == "stopping":
                driver.engine.request_stop(made.job_id, token=made.token, by="the trigger")
            driver.drive(made.job_id, to=lambda: driver.report(made.job_id).phase == state)
            return job, made, room

        yield bring


def kill(driver, job, made):
    """The task is marked as failed: its trigger's last act."""
    driver.engine.request_stop(made.job_id, token=made.token, by="the trigger")


def retry(driver, job, made):
    """The task's process was lost: another try begins while the job lives."""
    driver.submit(job, 2)


def clear(driver, job, made):
    """The trigger stops it, and the next try begins at once."""
    kill(driver, job, made)
    retry(driver, job, made)


STATES = ["queued", "starting", "running", "resizing", "stopping"]


@pytest.mark.parametrize("state", STATES)
def test_killed_it_stops_and_leaves_nothing(driver, in_state, aftermath, state):
    job, made, room = in_state(state)
    kill(driver, job, made)
    room.close()
    report = driver.to_end(made.job_id)
    assert (report.state, report.attempt) == ("stopped", 1)
    assert (report.result["checkpoint_step"] or 0) >= (report.step or 0)
    aftermath(made.job_id)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("verb", [pytest.param(clear, id="cleared"), pytest.param(retry, id="retried")])
def test_cleared_or_retried_it_runs_anew_once_from_its_checkpoint(driver, in_state, pods, aftermath, state, verb):
    job, made, room = in_state(state)
    old = {pod.metadata.uid for pod in pods()}
    verb(driver, job, made)
    room.close()
    if state == "starting":
        driver.drive(made.job_id, to=lambda: driver.report(made.job_id).phase == "starting" and driver.alive())
        driver.drive(made.job_id, to=lambda: not old & {pod.metadata.uid for pod in pods()})
    else:
        first = driver.drive(made.job_id, to=lambda: _newest_of(driver, made.job_id, 2)["first_step"], seconds=90)
        assert first > (5 if state != "queued" else 0), "it began anew"
    assert driver.report(made.job_id).attempt == 2
    assert len({replica.generation for replica in driver.alive()}) == 1
    assert driver.events(made.job_id, "failed") == []
    aftermath(made.job_id)


def _newest_of(driver, job_id, attempt):
    of_attempt = [each for each in driver.generations(job_id) if each["attempt"] == attempt]
    return of_attempt[-1] if of_attempt else {"first_step": None}


@pytest.mark.parametrize("state", STATES)
def test_its_namespace_deleted_it_ends_in_a_true_state_and_nothing_is_left(
    driver, in_state, core, namespace, pods, state
):
    _, made, room = in_state(state)
    core.delete_namespace(namespace)
    room.close()
    report = driver.to_end(made.job_id)
    assert report.state == ("stopped" if state == "stopping" else "failed")
    if report.state == "failed":
        assert namespace in report.reason
    until(lambda: pods() == [], 60)
    assert driver.alive() == []
