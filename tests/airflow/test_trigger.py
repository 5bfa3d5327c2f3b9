from __future__ import annotations

import asyncio
import sys
import time

import pytest
from airflow.triggers.base import TaskSuccessEvent
from optimus_airflow import settings
from optimus_airflow.triggers import OptimusJobTrigger

from optimus_core.engine.identity import Identity
from optimus_core.job import AllReduce, Replicas, TrainingJob

SLEEPS = "import time; time.sleep({})"


def submit(engine, seconds=0.0, try_number=1, **more):
    command = [sys.executable, "-c", SLEEPS.format(seconds)]
    workers = Replicas(cpu="500m", memory="64Mi")
    job = TrainingJob(
        name="train", command=command, strategy=AllReduce(), workers=workers, grace_seconds=1, retries=0, **more
    )
    done = engine.submit(job, Identity.of_task("default", "digits", "run1", "train"), try_number)
    return OptimusJobTrigger(done.job_id, done.token, engine.job_by_id(done.job_id).attempt)


async def first(trigger):
    return await anext(trigger.run())


async def test_drives_to_the_end_and_tells_all(engine):
    trigger = submit(engine)
    event = (await asyncio.wait_for(first(trigger), 20)).payload
    assert (event["state"], event["result"]["state"], event["result"]["resizes"]) == ("succeeded", "succeeded", 0)


async def test_gives_no_event_before_its_time(engine):
    trigger = submit(engine)
    await asyncio.wait_for(first(trigger), 20)
    again, began = OptimusJobTrigger(**trigger.serialize()[1]), time.monotonic()
    await asyncio.wait_for(first(again), 20)
    assert time.monotonic() - began >= settings.load().first_event_seconds == 1.5


@pytest.mark.parametrize(("push", "xcoms"), [(True, {"return_value"}), (False, set())])
async def test_ends_the_task_itself_where_it_may(engine, push, xcoms):
    trigger = submit(engine)
    trigger.ends_task, trigger.push = True, push
    event = await asyncio.wait_for(first(trigger), 20)
    assert isinstance(event, TaskSuccessEvent)
    assert set(event.xcoms or {}) == xcoms


async def test_a_failure_goes_through_the_worker_so_that_airflow_retries(engine):
    trigger = submit(engine)
    trigger.ends_task = True
    engine.request_stop(trigger.job_id, by="ann")
    event = await asyncio.wait_for(first(trigger), 20)
    assert not isinstance(event, TaskSuccessEvent)
    assert event.payload["state"] == "stopped"


async def test_errors_of_a_step_are_waited_out(engine, monkeypatch):
    trigger, failures, step = submit(engine), [], engine.step

    def flaky(job_id):
        if not failures:
            failures.append(job_id)
            raise RuntimeError("the database is down")
        return step(job_id)

    monkeypatch.setattr(engine, "step", flaky)
    event = await asyncio.wait_for(first(trigger), 20)
    assert failures
    assert event.payload["state"] == "succeeded"


async def test_a_kill_stops_the_job_to_the_end(engine):
    trigger = submit(engine, 60)
    running = asyncio.ensure_future(first(trigger))
    while engine.job_by_id(trigger.job_id).phase != "running":
        await asyncio.sleep(0.1)
    running.cancel()
    await trigger.cleanup()
    assert engine.job_by_id(trigger.job_id).state == "running"
    await trigger.on_kill()
    end = time.monotonic() + 10
    while not engine.job_by_id(trigger.job_id).final:
        assert time.monotonic() < end
        await asyncio.sleep(0.1)
    assert engine.job_by_id(trigger.job_id).state == "stopped"


async def test_a_kill_that_comes_late_does_nothing(engine):
    old = submit(engine, 60)
    submit(engine, 60, try_number=2)
    await old.on_kill()
    assert engine.job_by_id(old.job_id).state in ("queued", "running")


async def test_a_trigger_of_an_older_attempt_says_nothing(engine):
    old = submit(engine, 60)
    submit(engine, 0, try_number=2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(first(old), 5)
    assert engine.job_by_id(old.job_id).state == "succeeded"


async def test_a_job_that_is_deleted_fails_its_task(engine):
    event = await asyncio.wait_for(first(OptimusJobTrigger(99, "token", 1, ends_task=True)), 20)
    assert event.payload["state"] == "failed"
    assert "there is no job with id 99" in event.payload["reason"]
