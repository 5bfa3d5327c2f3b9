"""What a person does to a task, and what is left of its processes."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

import psutil
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("airflow")]


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.3)


def mark(airflow: Any, dag_id: str) -> str:
    """What stands last on the command line of a DAG's replicas: no other Airflow of this machine has it."""
    return f"OPTIMUS_E2E_MARK:{airflow.home}:{dag_id}"


def processes(airflow: Any, dag_id: str) -> set[int]:
    """The replicas of a DAG's job, by the mark on their command line."""
    found = set()
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        cmdline = process.info["cmdline"] or []
        if cmdline and cmdline[-1] == mark(airflow, dag_id) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.add(process.info["pid"])
    return found


def starts(airflow: Any, dag_id: str) -> int:
    return airflow.notes.read_text().split().count(mark(airflow, dag_id))


def run_until_training(airflow: Any, dag_id: str, replicas: int, state: str = "deferred") -> str:
    before = starts(airflow, dag_id)
    run_id = airflow.trigger(dag_id)
    wait_for(lambda: len(processes(airflow, dag_id)) == replicas == starts(airflow, dag_id) - before, 60, "it trains")
    airflow.await_task(dag_id, run_id, "train", state)
    return run_id


def test_a_deferred_task_ends_with_its_outcome(airflow):
    before = starts(airflow, "short")
    run_id = airflow.trigger("short")
    assert airflow.await_task("short", run_id, "train", "success", "failed", "up_for_retry")["state"] == "success"
    outcome = airflow.xcom("short", run_id, "train")
    assert outcome["state"] == "succeeded"
    assert 2 < outcome["replica_seconds"] < 15
    assert starts(airflow, "short") == before + 1
    assert processes(airflow, "short") == set()
    links = airflow.call("GET", f"/dags/short/dagRuns/{run_id}/taskInstances/train/links")["extra_links"]
    page = airflow.client.get(links["Optimus job"])
    assert page.status_code == 200
    assert "short.train" in page.text


def test_marked_failed_its_processes_are_gone_within_seconds(airflow):
    run_id = run_until_training(airflow, "long", 2)
    airflow.mark("long", run_id, "train", "failed")
    wait_for(lambda: not processes(airflow, "long"), 30, "the processes are gone")
    time.sleep(5)
    assert processes(airflow, "long") == set()
    assert airflow.task("long", run_id, "train")["state"] == "failed"


def test_the_end_of_its_time_ends_task_and_job(airflow):
    run_id = run_until_training(airflow, "timed", 1)
    airflow.await_task("timed", run_id, "train", "failed", seconds=60)
    assert processes(airflow, "timed") == set()


def test_in_a_worker_a_kill_ends_the_job_too(airflow):
    run_id = run_until_training(airflow, "in_worker", 1, state="running")
    airflow.mark("in_worker", run_id, "train", "failed")
    wait_for(lambda: not processes(airflow, "in_worker"), 20, "the processes are gone")


def test_the_rebalance_dag_shows_who_was_changed_and_why(airflow):
    run_id = run_until_training(airflow, "again", 1)
    beat = airflow.trigger("optimus_rebalance")
    airflow.await_task("optimus_rebalance", beat, "report", "success", "failed", seconds=60)
    instances = airflow.call("GET", f"/dags/optimus_rebalance/dagRuns/{beat}/taskInstances")["task_instances"]
    named = {i["rendered_map_index"]: i["state"] for i in instances if i["task_id"] == "resize"}
    assert named["again.train"] == "success"
    (change,) = [c for c in airflow.xcom("optimus_rebalance", beat, "report")["changes"] if c["job"] == "again.train"]
    assert change["outcome"] == "already"
    assert change["why"].startswith("Starts")
    airflow.mark("again", run_id, "train", "failed")
    wait_for(lambda: not processes(airflow, "again"), 15, "the processes are gone")


def test_cleared_it_runs_anew_once_and_the_old_is_gone(airflow):
    before = starts(airflow, "again")
    run_id = run_until_training(airflow, "again", 1)
    old = processes(airflow, "again")
    airflow.clear("again", run_id, "train")
    wait_for(
        lambda: processes(airflow, "again") and not processes(airflow, "again") & old,
        40,
        "only a new one is there",
    )
    time.sleep(8)  # the old trigger's kill comes after the new try, and must not hit it
    assert len(processes(airflow, "again")) == 1
    assert starts(airflow, "again") == before + 2
    assert airflow.task("again", run_id, "train")["state"] == "deferred"
    airflow.mark("again", run_id, "train", "failed")
    wait_for(lambda: not processes(airflow, "again"), 15, "the processes are gone")


def rounds_lease(airflow: Any) -> psutil.Process | None:
    """The task process that is in the middle of a round now."""
    with closing(sqlite3.connect(airflow.home / "optimus" / "optimus.db", timeout=30)) as store:
        (holder,) = store.execute("select lease_holder from optimus_clusters").fetchone()
    try:
        process = psutil.Process(int(holder.split(":")[1])) if holder else None
        return process if process and process.cmdline()[0].startswith("airflow worker") else None
    except psutil.NoSuchProcess:
        return None


def kill_in_a_round(airflow: Any) -> str:
    """Start the rebalance DAG until one of its tasks can be killed while it holds the lease; return the run."""
    for _ in range(5):
        beat = airflow.trigger("optimus_rebalance")
        while airflow.task("optimus_rebalance", beat, "plan")["state"] not in ("success", "failed", "up_for_retry"):
            end = time.monotonic() + 1
            while time.monotonic() < end:
                if (process := rounds_lease(airflow)) is not None:
                    process.kill()
                    return beat
        airflow.await_task("optimus_rebalance", beat, "report", "success", "failed", seconds=60)
    raise AssertionError("no round was caught in its middle")


def test_a_death_of_a_rebalance_task_in_its_middle_harms_no_job(airflow):
    run_id = run_until_training(airflow, "survives", 1)
    before = processes(airflow, "survives")
    beat = kill_in_a_round(airflow)
    late = airflow.trigger("short")
    assert airflow.await_task("short", late, "train", "success", "failed", seconds=150)["state"] == "success"
    assert airflow.await_task("optimus_rebalance", beat, "report", "success", "failed")["state"] == "success"
    plan = airflow.task("optimus_rebalance", beat, "plan")
    assert (plan["state"], plan["try_number"]) == ("success", 2)
    assert processes(airflow, "survives") <= before
    assert airflow.await_task("survives", run_id, "train", "success", "failed", seconds=180)["state"] == "success"
    assert airflow.xcom("survives", run_id, "train")["resizes"] == 0


def test_a_death_of_triggerer_and_scheduler_does_not_touch_a_job(airflow):
    started = starts(airflow, "survives")
    run_id = run_until_training(airflow, "survives", 1)
    before = processes(airflow, "survives")
    for part in ("triggerer", "scheduler"):
        airflow.kill_part(part)
    time.sleep(5)
    assert processes(airflow, "survives") == before
    for part in ("scheduler", "triggerer"):
        airflow.start_part(part)
    assert airflow.await_task("survives", run_id, "train", "success", "failed", seconds=180)["state"] == "success"
    assert starts(airflow, "survives") == started + 1
    assert airflow.xcom("survives", run_id, "train")["resizes"] == 0
