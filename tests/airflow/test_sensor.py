from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, TaskDeferred
from optimus_airflow import operators, sensors
from optimus_airflow.sensors import Converged, Epochs, Finished, Loss, OptimusJobSensor, Progress, Steps
from optimus_airflow.triggers import OptimusWaitTrigger
from optimus_airflow.until import Verdict, condition, from_data

import optimus_core
from optimus_core.engine.drive import drive_to_end
from optimus_core.engine.identity import Identity
from optimus_core.errors import SpecificationError
from optimus_core.job import AllReduce, Replicas, TrainingJob
from optimus_core.telemetry import Point

AT_REST = [8.0, 4.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]


def job(state="running", step=None, remaining=None, losses=(), epoch=None):
    points = [Point(number, "loss", value, number, number - 1) for number, value in enumerate(losses, 1)]
    return SimpleNamespace(
        state=state,
        step=step,
        epoch=epoch,
        remaining_steps=remaining,
        loss=losses[-1] if losses else None,
        losses=points,
        steps_per_epoch=1,
        final=state in ("succeeded", "failed", "stopped"),
    )


@pytest.mark.parametrize(
    ("until", "report", "verdict"),
    [
        (Finished(), job(), "wait"),
        (Finished(), job("succeeded"), "met"),
        (Finished(), job("failed"), "never"),
        (Finished(), job("stopped"), "never"),
        (Converged(0.01), job(losses=[8.0, 4.0, 2.0, 1.0, 0.5]), "wait"),
        (Converged(0.01, 3), job(losses=AT_REST), "met"),
        (Converged(0.01, 4), job(losses=AT_REST), "wait"),
        (Converged(0.01, 3), job("succeeded", losses=AT_REST), "met"),
        (Converged(0.01, 4), job("succeeded", losses=AT_REST), "never"),
        (Loss(below=0.1), job(), "wait"),
        (Loss(below=0.1), job(losses=[0.1, 0.1, 0.1]), "wait"),
        (Loss(below=0.1), job(losses=[0.3, 0.2, 0.09]), "wait"),
        (Loss(below=0.1), job(losses=[0.09, 0.2, 0.09]), "met"),
        (Loss(below=0.1), job("succeeded", losses=[0.09]), "met"),
        (Loss(below=0.1), job("succeeded", losses=[0.2]), "never"),
        (Loss(below=0.1), job("failed", losses=[0.01] * 3), "never"),
        (Steps(5), job(step=4), "wait"),
        (Steps(5), job(step=5), "met"),
        (Epochs(2), job(epoch=2.0), "met"),
        (Epochs(2), job("succeeded", epoch=1.0), "never"),
        (Progress(0.5), job(step=10), "wait"),
        (Progress(0.5), job(step=10, remaining=11), "wait"),
        (Progress(0.5), job(step=10, remaining=10), "met"),
        (Progress(0.5), job(step=0, remaining=0), "wait"),
        (Progress(0.5), job("succeeded"), "met"),
        (Progress(0.5), job("failed", step=10, remaining=1), "never"),
    ],
)
def test_verdicts(until, report, verdict):
    until = condition(until)
    assert until.judge(report) is Verdict(verdict)
    assert from_data(json.loads(json.dumps(until.to_data()))) == until
    assert until.describe()


@pytest.mark.parametrize("name", ["Converged", "Epochs", "Loss", "Steps"])
def test_a_criterion_is_the_same_class_wherever_it_is_imported_from(name):
    assert getattr(sensors, name) is getattr(operators, name) is getattr(optimus_core, name)


def test_a_criterion_that_can_not_be_met_is_refused_at_once():
    with pytest.raises(SpecificationError, match=r"^until\.loss\.below"):
        OptimusJobSensor(task_id="wait", job="a", until=Loss(below="low"))


@pytest.mark.parametrize("part", [0, -1, 1.5, True])
def test_progress_is_a_part(part):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        Progress(part)


def test_one_job_and_a_known_condition():
    with pytest.raises(ValueError, match="either job_task_id or job"):
        OptimusJobSensor(task_id="wait")
    with pytest.raises(ValueError, match="either job_task_id or job"):
        OptimusJobSensor(task_id="wait", job="a", job_task_id="b")
    with pytest.raises(ValueError, match=r"write Finished\(\)"):
        OptimusJobSensor(task_id="wait", job="a", until="finished")


def submit(engine, code, map_index=-1):
    training = TrainingJob(
        name="train",
        command=[sys.executable, "-c", code],
        strategy=AllReduce(),
        workers=Replicas(cpu="500m", memory="64Mi"),
        retries=0,
        grace_seconds=1,
    )
    return engine.submit(training, Identity.of_task("default", "digits", "run1", "train", map_index)).job_id


async def test_waits_for_a_job_that_is_not_there_yet(engine, context):
    sensor = OptimusJobSensor(task_id="wait", job_task_id="train", poke_interval=0.2, timeout=100)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context(task_id="wait", map_index=3))
    assert deferred.value.timeout.total_seconds() == 100
    path, kwargs = deferred.value.trigger.serialize()
    assert path == "optimus_airflow.triggers.OptimusWaitTrigger"
    assert kwargs["job"] == {"dag_id": "digits", "run_id": "run1", "task_id": "train", "map_index": 3}
    waiting = asyncio.ensure_future(anext(OptimusWaitTrigger(**kwargs).run()))
    await asyncio.sleep(0.5)
    job_id = await asyncio.to_thread(submit, engine, "", 3)
    assert await asyncio.to_thread(drive_to_end, engine, job_id, 20)
    event = await asyncio.wait_for(waiting, 10)
    assert sensor.execute_complete(context(), event.payload)["state"] == "succeeded"


def test_fails_when_the_job_fails(engine, context):
    assert drive_to_end(engine, submit(engine, "raise SystemExit(3)"), 20)
    sensor = OptimusJobSensor(task_id="wait", job="digits.train")
    with pytest.raises(AirflowException, match=r"has failed; the sensor waits until it has finished\. The script"):
        sensor.execute(context())


def test_in_a_worker(engine, context):
    sensor = OptimusJobSensor(task_id="wait", job_task_id="train", deferrable=False)
    assert sensor.poke(context()) is False
    assert drive_to_end(engine, submit(engine, ""), 20)
    assert sensor.poke(context()) is True


REPORTS = """
import optimus_train
for step, loss in enumerate([8, 4, 2, 2, 2, 2, 2, 2], 1):
    optimus_train.report(step, loss, epoch=step - 1)
"""


@pytest.mark.parametrize(("until", "met"), [(Converged(0.01, 3), True), (Converged(0.01, 4), False), (Steps(6), True)])
def test_a_criterion_is_judged_by_what_the_job_has_printed(engine, context, until, met):
    assert drive_to_end(engine, submit(engine, REPORTS), 20)
    sensor = OptimusJobSensor(task_id="wait", job="digits.train", until=until)
    if met:
        assert sensor.execute(context())["loss"] == 2
    else:
        with pytest.raises(AirflowException, match=r"has succeeded; the sensor waits until it has converged"):
            sensor.execute(context())
