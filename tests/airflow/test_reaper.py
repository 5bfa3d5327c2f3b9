"""The reaper stops a job only if its task is surely over."""

from types import SimpleNamespace

import pytest

from optimus_airflow.reaper import reap

STATES = [
    pytest.param({"r": {"train": "deferred"}}, False, id="deferred, as when the triggerer is down"),
    pytest.param({"r": {"train": "up_for_retry"}}, False, id="up for retry"),
    pytest.param({"r": {"train": "queued"}}, False, id="queued"),
    pytest.param({"r": {"train": None}}, False, id="cleared, about to be scheduled"),
    pytest.param({"r": {"train": "failed"}}, True, id="failed"),
    pytest.param({"r": {"train": "success"}}, True, id="success"),
    pytest.param({"r": {}}, True, id="task absent"),
    pytest.param({}, True, id="run absent"),
    pytest.param(None, False, id="Airflow can't be asked"),
]


class Engine:
    """Notes which jobs it is asked to stop."""

    def __init__(self):
        self.stopped = []

    def request_stop(self, job_id, by):
        self.stopped.append(job_id)
        return True


def job(**changes):
    known = {"id": 7, "title": "d.train", "dag_id": "d", "run_id": "r", "task_id": "train", "map_index": -1}
    return SimpleNamespace(**known | changes)


@pytest.mark.parametrize(("states", "stopped"), STATES)
def test_a_job_without_driver_is_stopped_if_its_task_is_over(states, stopped):
    engine = Engine()
    reap(engine, [job()], ask=lambda _: states)
    assert engine.stopped == ([7] if stopped else [])


def test_a_mapped_task_is_found_by_its_index():
    engine = Engine()
    states = {"r": {"train_0": "failed", "train_1": "deferred"}}
    reap(engine, [job(map_index=0), job(id=8, map_index=1)], ask=lambda _: states)
    assert engine.stopped == [7]


def test_a_job_that_is_not_airflows_is_left_alone():
    engine = Engine()
    reap(engine, [job(dag_id=None)], ask=lambda _: {})
    assert engine.stopped == []
