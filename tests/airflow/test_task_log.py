"""The log of a task gets what its job's replicas write, no more than people can read."""

import asyncio
import logging
import sys

import pytest
from optimus_airflow import task_log
from optimus_airflow.task_log import TaskLog, shown
from optimus_airflow.triggers import OptimusJobTrigger

from optimus_core.engine.identity import Identity
from optimus_core.engine.untold import Untold
from optimus_core.job import AllReduce, Replicas, TrainingJob


@pytest.mark.parametrize(
    ("outputs", "most", "expected"),
    [
        pytest.param([], 10, [], id="nothing"),
        pytest.param([Untold("w-0", ("a", "b"), False)], 10, ["[w-0] a", "[w-0] b"], id="all of it"),
        pytest.param(
            [Untold("w-0", ("a", "b", "c"), False)],
            2,
            ["[w-0] ... 2 lines left out: `optimus logs` and the page show the last", "[w-0] c"],
            id="the newest",
        ),
        pytest.param(
            [Untold("w-0", ("a",), True)],
            2,
            ["[w-0] ... many lines left out: `optimus logs` and the page show the last", "[w-0] a"],
            id="more than is kept",
        ),
        pytest.param(
            [Untold("w-0", ("a", "b"), False), Untold("w-1", ("c", "d"), False)],
            4,
            ["[w-0] a", "[w-0] b", "[w-1] c", "[w-1] d"],
            id="of two",
        ),
    ],
)
def test_lines_come_after_their_replica_s_name(outputs, most, expected):
    assert shown(outputs, most) == expected


class Chatty:
    """An engine whose job writes 1,000 lines between any two looks."""

    def untold(self, job_id):
        return [Untold("w-0", tuple(map(str, range(1000))), False)]


def test_a_job_that_writes_without_end_can_t_flood_the_log(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    now = 1000.0
    monkeypatch.setattr(task_log.time, "monotonic", lambda: now)
    log = TaskLog(logging.getLogger("task"))
    for _ in range(600):
        log.tell(Chatty(), 1)
        now += 1.0
    assert len(caplog.messages) < task_log.MOST_LINES + 600 * (task_log.LINES_A_SECOND + 0.3)
    assert len(caplog.messages) > 600 * task_log.LINES_A_SECOND


def test_a_store_that_is_busy_costs_no_line(caplog):
    class Busy:
        def untold(self, job_id):
            raise RuntimeError("database is locked")

    caplog.set_level(logging.INFO)
    TaskLog(logging.getLogger("task")).tell(Busy(), 1)
    assert caplog.messages == []
    TaskLog(logging.getLogger("task")).tell(Busy(), 1, last=True)
    assert caplog.messages == ["Output can't be read"]


async def test_lines_reach_the_task_s_log_while_the_job_runs_and_none_comes_twice(engine, monkeypatch, caplog):
    monkeypatch.setattr(task_log, "_SECONDS", 0.1)
    caplog.set_level(logging.INFO)
    code = "import time\nfor n in range(30): print(f'line {n}.', flush=True); time.sleep(0.1)"
    job = TrainingJob(
        name="train", command=[sys.executable, "-c", code], strategy=AllReduce(), resumable=False,
        workers=Replicas(cpu="500m", memory="64Mi"), grace_seconds=1, retries=0,
    )  # fmt: skip
    done = engine.submit(job, Identity.of_task("default", "digits", "run1", "train"), 1)
    trigger = OptimusJobTrigger(done.job_id, done.token, engine.job_by_id(done.job_id).attempt)
    trigger._log_of_task = TaskLog(logging.getLogger("task"))
    run = asyncio.create_task(anext(trigger.run()))

    def told():
        return [text.rpartition("] ")[2] for text in caplog.messages if "] line " in text]

    while not told() and not run.done():
        await asyncio.sleep(0.05)
    assert not run.done(), "they came at the end only"
    await asyncio.wait_for(run, 30)
    assert told() == [f"line {n}." for n in range(30)]
