from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from optimus_airflow import rebalance

from optimus_core.engine.identity import Identity
from optimus_core.job import AllReduce, Replicas, TrainingJob

ROOT = Path(__file__).parents[2]


def submit(engine, name="train"):
    job = TrainingJob(
        name=name,
        command=[sys.executable, "-c", "import time; time.sleep(60)"],
        strategy=AllReduce(),
        workers=Replicas(cpu="500m", memory="64Mi"),
        grace_seconds=1,
    )
    return engine.submit(job, Identity.of_task("default", "digits", "run1", name)).job_id


def change_of(engine, job_id):
    generation = engine.history(job_id)["generations"][-1]
    return {"job_id": job_id, "job": "digits.train", "generation": generation["number"], "why": generation["why"]}


def test_a_step_is_issued_once(engine):
    change = change_of(engine, submit(engine))
    assert rebalance.resize(engine, change)["outcome"] == "issued"
    assert rebalance.resize(engine, change)["outcome"] == "already"


def test_a_job_that_has_ended_needs_none(engine):
    job_id = submit(engine)
    change = change_of(engine, job_id)
    engine.request_stop(job_id, by="ann")
    while not engine.step(job_id).final:
        pass
    assert rebalance.resize(engine, change)["outcome"] == "ended"


def test_an_older_wish_is_superseded(engine):
    job_id = submit(engine)
    change = change_of(engine, job_id) | {"generation": 99}
    assert rebalance.resize(engine, change)["outcome"] == "superseded"


def test_the_beat(engine):
    job_id = submit(engine)
    seen = rebalance.observe(engine)
    assert seen["clusters"] == ["local"]
    assert seen["without_driver"] == []
    assert [row["job"] for row in rebalance.refit(engine, seen["clusters"])] == ["digits.train"]
    engine.step(job_id)
    ((change,),) = rebalance.plan(engine, seen["clusters"])
    assert change["job"] == "digits.train"
    assert change["why"].startswith("Starts")
    assert rebalance.resize(engine, change)["outcome"] == "already"


def test_what_was_changed_long_ago_is_no_news(home, monkeypatch):
    from optimus_airflow import settings

    monkeypatch.setenv("AIRFLOW__OPTIMUS__INTERVAL_SECONDS", "0.01")
    engine = settings.engine()
    engine.step(submit(engine))
    assert rebalance.plan(engine, ["local"]) == []


def test_jobs_without_driver_are_driven(home, monkeypatch):
    from optimus_airflow import settings

    monkeypatch.setenv("AIRFLOW__OPTIMUS__HEARTBEAT_STALE_SECONDS", "0.01")
    engine = settings.engine()
    job_id = submit(engine)
    time.sleep(0.1)
    assert rebalance.observe(engine)["without_driver"] == ["digits.train"]
    assert engine.job_by_id(job_id).phase in ("starting", "running")


@pytest.mark.parametrize(
    ("states", "phase"),
    [(["failed"], "stopping"), ([], "stopping"), (["deferred"], "running"), ([None], "running"), (None, "running")],
)
def test_a_job_whose_task_is_gone_is_stopped(engine, monkeypatch, states, phase):
    job_id = submit(engine)
    monkeypatch.setattr(rebalance, "_is_stale", lambda *_: True)

    def ask(*task):
        assert task == ("digits", "run1", "train", -1)
        if states is None:
            raise RuntimeError("Airflow can't be reached")
        return states

    rebalance.observe(engine, ask)
    state = engine.job_by_id(job_id).state
    assert state in ((phase, "stopped") if phase == "stopping" else (phase,))


def test_at_most_200_have_a_name_of_their_own():
    groups = rebalance.grouped([{"job": f"j{n}"} for n in range(205)])
    assert len(groups) == 201
    assert rebalance.name_of(groups[0]) == "j0"
    assert rebalance.name_of(groups[-1]) == "5 others"
    assert rebalance.grouped([]) == []


@pytest.fixture
def dags(home):
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(ROOT / "dags"))
    assert bag.import_errors == {}
    return bag.dags


def test_all_dags_load(dags):
    assert {"optimus_rebalance", "optimus_examples"} <= set(dags)


def test_never_twice_at_once_no_catch_up_every_ten_minutes(dags):
    dag = dags["optimus_rebalance"]
    assert (dag.max_active_runs, dag.catchup, dag.is_paused_upon_creation) == (1, False, False)
    assert dag.schedule == timedelta(minutes=10)
    assert list(dag.task_dict) == ["observe", "refit", "plan", "resize", "report"]


def test_the_examples_are_found(dags):
    folder = Path(dags["optimus_examples"].get_task("train_digits").working_dir)
    assert (folder / "train_ps.py").is_file()
