"""What a person does to a task whose job is in any state, and what becomes of its pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes import client

from tests.cluster.others import full_nodes
from tests.conftest import until


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    """The official client."""
    return client.CoreV1Api(api)


@pytest.fixture
def pods(airflow: Any, core: client.CoreV1Api, space: str) -> Callable[[str], dict[str, str]]:
    """Return the uids of the pods of a DAG's jobs that have not ended, by name."""

    def look(dag_id: str) -> dict[str, str]:
        names = tuple(f"{report.name}-" for report in airflow.engine.jobs() if report.dag_id == dag_id)
        found = core.list_namespaced_pod(space, label_selector="app.kubernetes.io/managed-by=optimus").items
        mine = [pod for pod in found if pod.metadata.name.startswith(names)]
        return {pod.metadata.name: pod.metadata.uid for pod in mine if pod.status.phase in ("Pending", "Running")}

    return look


def job(airflow: Any, dag_id: str) -> Any:
    """Return the newest job of a DAG, None if there is none."""
    found = [report for report in airflow.engine.jobs() if report.dag_id == dag_id]
    return max(found, key=lambda report: report.id, default=None)


def await_phase(airflow: Any, run_id: str, dag_id: str, *phases: str) -> Any:
    """Wait until the job of a run is in one of ``phases``."""

    def there() -> Any:
        found = job(airflow, dag_id)
        return found if found is not None and found.run_id == run_id and found.phase in phases else None

    return until(there, 60, 0.1)


@contextmanager
def in_state(state: str, airflow: Any, core: client.CoreV1Api, space: str) -> Iterator[str]:
    """Bring the DAG that is named after a state into it; yields the run's id."""
    with full_nodes(core, space) if state == "queued" else _nothing():
        run_id = airflow.trigger(state)
        await_phase(airflow, run_id, state, {"queued": "queued", "starting": "starting"}.get(state, "running"))
        until(lambda: airflow.task(state, run_id, "train")["state"] == "deferred", 60, 0.3)
        seen = job(airflow, state).stepped_at
        until(lambda: (job(airflow, state).stepped_at or "") > (seen or ""), 30, 0.1)  # the triggerer has taken it over
        if state in ("resizing", "stopping"):
            until(lambda: (job(airflow, state).step or 0) >= 3, 60, 0.1)
        if state == "resizing":
            known = job(airflow, state)
            airflow.engine.pin(known.name, "ann", workers=3 - known.workers)
            await_phase(airflow, run_id, state, "resizing")
        elif state == "stopping":
            airflow.mark(state, run_id, "train", "failed")
            await_phase(airflow, run_id, state, "stopping")
        yield run_id


@contextmanager
def _nothing() -> Iterator[None]:
    yield


STATES = ["queued", "starting", "running", "resizing", "stopping"]


def test_a_task_trains_on_pods_to_its_end(airflow, pods):
    run_id = airflow.trigger("short")
    assert airflow.await_task("short", run_id, "train", "success", "failed")["state"] == "success"
    outcome = airflow.xcom("short", run_id, "train")
    assert (outcome["state"], outcome["steps"]) == ("succeeded", 20)
    until(lambda: pods("short") == {})


def test_a_task_that_airflow_retries_goes_on_from_its_checkpoint(airflow, pods):
    run_id = airflow.trigger("retried")
    assert airflow.await_task("retried", run_id, "train", "success", "failed")["state"] == "success"
    assert airflow.task("retried", run_id, "train")["try_number"] == 2
    report = job(airflow, "retried")
    assert (report.state, report.attempt, report.step) == ("succeeded", 2, 20)
    firsts = [g["first_step"] for g in airflow.engine.history(report.id)["generations"] if g["starting_at"]]
    assert firsts == [1, 11], "it began anew"
    until(lambda: pods("retried") == {})


@pytest.mark.parametrize("state", [state for state in STATES if state != "stopping"])
def test_marked_failed_its_pods_are_gone_and_its_job_has_ended(airflow, core, space, pods, state):
    with in_state(state, airflow, core, space) as run_id:
        airflow.mark(state, run_id, "train", "failed")
        await_phase(airflow, run_id, state, "stopped")
        assert pods(state) == {}
        assert airflow.task(state, run_id, "train")["state"] == "failed"


@pytest.mark.parametrize("state", STATES)
def test_cleared_it_runs_anew_once_and_no_old_pod_is_left(airflow, core, space, pods, state):
    with in_state(state, airflow, core, space) as run_id:
        before, attempt = pods(state), job(airflow, state).attempt
        airflow.clear(state, run_id, "train")
        until(lambda: job(airflow, state).attempt == attempt + 1, 90, 0.2)
        until(lambda: not set(pods(state).values()) & set(before.values()), 60, 0.2)
    if state == "starting":
        await_phase(airflow, run_id, state, "starting")
    else:
        report = await_phase(airflow, run_id, state, "running")
        until(lambda: len(pods(state)) == job(airflow, state).workers > 0, 60, 0.2)
        until(lambda: (job(airflow, state).step or 0) > (report.step or 0), 60, 0.2)
    assert airflow.task(state, run_id, "train")["try_number"] == 2
    numbers = {name.rpartition("-g")[2] for name in pods(state)}
    assert len(numbers) == 1, "pods of two generations at once"
    airflow.mark(state, run_id, "train", "failed")
    await_phase(airflow, run_id, state, "stopped")
    assert pods(state) == {}
