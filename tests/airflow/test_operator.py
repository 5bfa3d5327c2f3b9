from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from optimus_airflow import settings
from optimus_airflow.driving import event_of
from optimus_airflow.operators import OptimusTrainingOperator, ParameterServer, Replicas
from optimus_airflow.triggers import OptimusJobTrigger

from optimus_core.engine.drive import drive_to_end
from optimus_core.errors import SpecificationError

LONG = [sys.executable, "-c", "import time; time.sleep(60)"]
SHORT = [sys.executable, "-c", "print('done')"]
BROKEN = [sys.executable, "-c", "raise SystemExit('no such data')"]
ONE = Replicas(cpu="500m", memory="64Mi")


def make(command=SHORT, **more):
    more = {
        "strategy": ParameterServer(),
        "workers": ONE,
        "servers": ONE,
        "grace_seconds": 1,
        "failure_retries": 0,
    } | more
    return OptimusTrainingOperator(task_id=more.pop("task_id", "train"), command=command, **more)


def defer(operator, context) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(context)
    return caught.value


def kwargs_of(deferred: TaskDeferred) -> dict:
    return deferred.trigger.serialize()[1]


def until(condition, seconds=15):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def step_until(engine, job_id, phase, seconds=15):
    until(lambda: engine.step(job_id) and engine.job_by_id(job_id).phase == phase, seconds)


def test_defers_to_a_trigger_that_owns_the_job(engine, context):
    deferred = defer(make(LONG, execution_timeout=timedelta(hours=2)), context())
    report = engine.jobs()[0]
    assert deferred.method_name == "execute_complete"
    assert deferred.timeout == timedelta(hours=2)
    path, kwargs = deferred.trigger.serialize()
    assert path == "optimus_airflow.triggers.OptimusJobTrigger"
    assert (kwargs["job_id"], kwargs["attempt"], kwargs["ends_task"]) == (report.id, 1, True)
    assert OptimusJobTrigger(**kwargs).serialize() == (path, kwargs)


def test_what_is_left_of_the_timeout_counts_from_the_start_of_the_try(engine, context):
    given = context()
    given["ti"].start_date = datetime.now(UTC) - timedelta(minutes=50)
    deferred = defer(make(LONG, execution_timeout=timedelta(hours=1)), given)
    assert timedelta(minutes=9) < deferred.timeout <= timedelta(minutes=10)


def test_a_worker_ends_the_task_where_assets_are_updated(engine, context):
    from airflow.sdk import Asset

    assert not kwargs_of(defer(make(LONG, outlets=[Asset("s3://model")]), context()))["ends_task"]


def test_at_least_one_retry_by_default():
    assert make().retries == 1
    with DAG("d", default_args={"retries": 4}):
        assert make().retries == 4
        assert make(task_id="other", retries=0).retries == 0


def test_fields_are_rendered():
    operator = make(["python", "{{ ds }}.py"], env={"RUN": "{{ ds }}"}, image="i:{{ ds }}", workload="w-{{ ds }}")
    operator.render_template_fields({"ds": "2026-01-01"})
    assert operator.command == ["python", "2026-01-01.py"]
    assert operator.env == {"RUN": "2026-01-01"}
    assert (operator.image, operator.workload) == ("i:2026-01-01", "w-2026-01-01")


def test_is_mapped(engine, context):
    with DAG("digits") as dag:
        mapped = OptimusTrainingOperator.partial(
            task_id="train", strategy=ParameterServer(), workers=ONE, servers=ONE, grace_seconds=1
        ).expand(command=[LONG, SHORT])
    assert dag.get_task("train") is mapped
    assert mapped.retries == 1
    operator = mapped.unmap({"command": LONG})
    assert operator.command == LONG
    defer(operator, context(map_index=0))
    defer(mapped.unmap({"command": SHORT}), context(map_index=1))
    assert [report.title for report in engine.jobs()] == ["digits.train[0]", "digits.train[1]"]


def test_starts_in_the_folder_of_the_dag():
    with DAG("d") as dag:
        operator = make()
    dag.fileloc = "/srv/dags/train.py"
    assert operator.training_job().working_dir == "/srv/dags"
    assert make(working_dir="/srv/x").training_job().working_dir == "/srv/x"


def test_what_can_not_be_is_refused_while_the_dag_is_read():
    with pytest.raises(SpecificationError, match=r"workers.min is 4, more than workers.max, which is 2"):
        make(workers=Replicas(cpu=1, memory="1Gi", min=4, max=2))


def test_an_impossible_job_is_refused_at_once_with_the_numbers(engine, context):
    with pytest.raises(AirflowFailException, match=r'workers.cpu is "64".*"4"'):
        make(workers=Replicas(cpu=64, memory="1Gi")).execute(context())
    assert engine.jobs() == []


def test_the_same_try_takes_a_running_job_up_again(engine, context):
    first = kwargs_of(defer(make(LONG), context()))
    step_until(engine, first["job_id"], "running")
    second = kwargs_of(defer(make(LONG), context()))
    assert second["job_id"] == first["job_id"]
    assert second["token"] != first["token"]
    assert len(engine.history(first["job_id"])["generations"]) == 1


def test_the_same_try_never_trains_again(engine, context):
    job_id = kwargs_of(defer(make(), context()))["job_id"]
    assert drive_to_end(engine, job_id, 20)
    result = make().execute(context())
    assert result["state"] == "succeeded"
    assert {"final_loss", "steps", "epochs", "wall_seconds", "replica_seconds", "resizes", "checkpoint"} <= set(result)
    assert len(engine.history(job_id)["generations"]) == 1


def test_a_later_try_of_a_running_job_is_a_new_attempt_once_the_old_is_gone(engine, context):
    first = kwargs_of(defer(make(LONG), context()))
    step_until(engine, first["job_id"], "running")
    second = kwargs_of(defer(make(LONG), context(try_number=2)))
    assert (second["job_id"], second["attempt"]) == (first["job_id"], 2)
    step_until(engine, first["job_id"], "running")
    old, *_, new = engine.history(first["job_id"])["generations"]
    assert old["gone_at"] <= new["starting_at"]
    assert (old["attempt"], new["attempt"]) == (1, 2)


def test_a_later_try_of_a_finished_job_trains_again(engine, context):
    job_id = kwargs_of(defer(make(), context()))["job_id"]
    assert drive_to_end(engine, job_id, 20)
    assert kwargs_of(defer(make(LONG), context(try_number=2)))["attempt"] == 2


@pytest.mark.parametrize(("fresh", "action"), [(True, "restarted"), (False, "resumed")])
def test_fresh_starts_from_scratch(engine, context, fresh, action):
    job_id = kwargs_of(defer(make(LONG), context()))["job_id"]
    defer(make(LONG, fresh=fresh), context(try_number=2))
    assert [e["cause"]["action"] for e in engine.history(job_id)["events"] if e["kind"] == "queued"][-1] == action


def test_a_failure_tells_the_reason_and_the_last_lines(engine, context):
    job_id = kwargs_of(defer(make(BROKEN), context()))["job_id"]
    assert drive_to_end(engine, job_id, 20)
    event = event_of(engine, engine.job_by_id(job_id))
    with pytest.raises(AirflowException, match=r"has failed\. The script failed(.|\n)*no such data") as caught:
        make(BROKEN).execute_complete(context(), event)
    assert not isinstance(caught.value, AirflowFailException)
    with pytest.raises(AirflowException, match="The script failed"):
        make(BROKEN).execute(context())


def test_a_job_that_a_person_stopped_is_not_tried_again(engine, context):
    job_id = kwargs_of(defer(make(LONG), context()))["job_id"]
    engine.stop("digits.train", "ann")
    assert drive_to_end(engine, job_id, 20)
    with pytest.raises(AirflowFailException, match="Stopped as asked by ann"):
        make(LONG).execute(context())


def test_a_bare_word_as_event_is_looked_up(engine, context):
    job_id = kwargs_of(defer(make(), context()))["job_id"]
    assert drive_to_end(engine, job_id, 20)
    assert make().execute_complete(context(), "success")["state"] == "succeeded"


def test_the_end_of_the_time_stops_the_job(engine, context):
    operator = make(LONG, execution_timeout=timedelta(seconds=5))
    job_id = kwargs_of(defer(operator, context()))["job_id"]
    step_until(engine, job_id, "running")
    with pytest.raises(AirflowException, match="0:00:05, and was stopped"):
        operator.resume_execution("__fail__", {"error": "Trigger timeout"}, context())
    assert engine.job_by_id(job_id).state == "stopped"


def test_a_crash_of_the_trigger_is_survived_a_few_times(engine, context):
    operator, given = make(LONG), context()
    job_id = kwargs_of(defer(operator, given))["job_id"]
    for _ in range(5):
        with pytest.raises(TaskDeferred):
            operator.resume_execution("__fail__", {"error": "Trigger failure"}, given)
    assert engine.job_by_id(job_id).state != "stopped"
    with pytest.raises(Exception, match="Trigger failure"):
        operator.resume_execution("__fail__", {"error": "Trigger failure"}, given)
    assert engine.job_by_id(job_id).state == "stopped"


def test_without_deferring_it_drives_the_job_itself(engine, context):
    assert make(deferrable=False).execute(context())["state"] == "succeeded"


def test_without_deferring_a_kill_stops_the_job(engine, context):
    import threading

    operator = make(LONG, deferrable=False)
    threading.Timer(1.5, operator.on_kill).start()
    with pytest.raises(AirflowFailException, match="Stopped as asked by Airflow"):
        operator.execute(context())
    assert engine.jobs()[0].state == "stopped"


def test_sqlite_is_refused_where_tasks_run_on_several_machines(home, context, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor,CeleryExecutor")
    with pytest.raises(AirflowFailException, match=r"CeleryExecutor.*PostgreSQL"):
        make().execute(context())
    monkeypatch.delenv("AIRFLOW__CORE__EXECUTOR")


def test_links_to_its_job(home, context):
    from optimus_airflow.links import OptimusJobLink

    ti = context()["ti"]
    link = OptimusJobLink().get_link(make(), ti_key=ti)
    assert "/optimus/jobs/" in link
    defer(make(LONG), context())
    assert link.endswith(settings.engine().jobs()[0].name)


def test_the_plugin_imports_nothing_heavy():
    import subprocess

    code = "import sys, optimus_airflow.plugin; print(sorted(sys.modules))"
    plugins = Path(__file__).parents[2] / "plugins"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=plugins)
    assert "optimus_airflow.plugin" in done.stdout
    for heavy in ("scipy", "kubernetes", "optimus_core.engine"):
        assert f"'{heavy}'" not in done.stdout
