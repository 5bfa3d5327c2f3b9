"""The regular beat: what the rebalance DAG's tasks do, and the DAG itself.

Arrivals, ends and failures cause rounds by themselves; this one comes every ten minutes, whatever happens, and shows
in Airflow's grid who was resized and why. It also drives jobs whose own driver is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from optimus_core.engine.engine import Engine
    from optimus_core.engine.report import JobReport

TaskStates = Callable[[str, str, str, int], list[str | None]]

log = logging.getLogger(__name__)

DAG_ID = "optimus_rebalance"
MOST_NAMED = 200
"""So many changed jobs get a task instance of their own; the rest share one."""


LIVE = ("queued", "running", "paused", "stopping")
_ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")


def observe(engine: Engine, task_states: TaskStates | None = None) -> dict[str, Any]:
    """Return which clusters have live jobs; take a step with those jobs that nobody drives any more.

    Args:
        engine: the engine.
        task_states: asks Airflow; a job without a driver whose task has ended, or is gone, is stopped.
    """
    reports = engine.jobs(live=True)
    stale = [report for report in reports if _is_stale(engine, report)]
    orphans = [report for report in stale if task_states is not None and _is_orphan(engine, report, task_states)]
    for report in orphans:
        engine.request_stop(report.id, by="Optimus, since its task is gone")
    clusters = sorted({report.cluster for report in reports} | {engine.settings.cluster})
    for cluster in clusters:
        for name, step in engine.upkeep(cluster).items():
            log.warning('Job "%s" has had no driver: one step with it (%s)', name, step.phase)
    states: dict[str, int] = {}
    for report in reports:
        states[report.phase] = states.get(report.phase, 0) + 1
    return {"clusters": clusters, "jobs": states, "without_driver": [report.title for report in stale]}


def _is_orphan(engine: Engine, report: JobReport, task_states: TaskStates) -> bool:
    """Say whether Airflow knows that the job's task has ended or is gone; in doubt it has not."""
    with engine.store.transaction() as tx:
        row = tx.peek_job(report.id)
    if row is None or row.task_id is None or row.deployment != engine.settings.deployment:
        return False
    map_index = -1 if row.map_index is None else row.map_index
    try:
        states = task_states(str(row.dag_id), str(row.run_id), row.task_id, map_index)
    except Exception:
        log.warning('Airflow does not say how the task of job "%s" is', report.title, exc_info=True)
        return False
    return all(state in _ENDED for state in states)


def _ask_airflow(dag_id: str, run_id: str, task_id: str, map_index: int) -> list[str | None]:
    """Return the state of a task instance, nothing if there is none. Works inside a task only."""
    from airflow.sdk import get_current_context

    ti: Any = get_current_context()["ti"]
    found = ti.get_task_states(dag_id=dag_id, task_ids=[task_id], run_ids=[run_id], map_index=map_index)
    return list(found.get(run_id, {}).values())


def _is_stale(engine: Engine, report: JobReport) -> bool:
    seen = datetime.fromisoformat(report.stepped_at or report.created_at)
    return datetime.now(UTC) - seen > timedelta(seconds=engine.settings.heartbeat_stale_seconds)


def refit(engine: Engine, clusters: list[str]) -> list[dict[str, Any]]:
    """Bring the estimates up to date; return what is predicted of each live job."""
    for cluster in clusters:
        engine.peek(cluster)
    return [
        {
            "job": report.title,
            "cluster": report.cluster,
            "step": report.step,
            "loss": report.loss,
            "remaining_steps": report.remaining_steps,
            "predicted_seconds": report.predicted_seconds,
        }
        for report in engine.jobs(live=True)
    ]


def plan(engine: Engine, clusters: list[str]) -> list[list[dict[str, Any]]]:
    """Plan each cluster; return the changes, in groups of which each gets a task instance.

    With them come the changes of the rounds that events have caused since the last beat, so that all can be seen.
    """
    changes = {change["job_id"]: change for change in _recent(engine)}
    for cluster in clusters:
        done = engine.round(cluster)
        if done is None:
            log.info("Cluster %s is being planned by somebody else, or can't be asked", cluster)
            continue
        for c in done.changes:
            changes[c.job_id] = _change(c.job_id, c.title, c.generation, c.reason)
    return grouped([changes[job_id] for job_id in sorted(changes)])


def _recent(engine: Engine) -> list[dict[str, Any]]:
    """Return the newest change of each live job that has been changed within one interval."""
    interval = timedelta(seconds=engine.settings.interval_seconds)
    with engine.store.transaction() as tx:
        newest = [(row, max(tx.generations(row.id), key=_number, default=None)) for row in tx.jobs(states=LIVE)]
        return [
            _change(row.id, row.title, generation.number, generation.reason)
            for row, generation in newest
            if generation is not None and generation.state != "superseded" and tx.now - generation.wanted_at < interval
        ]


def _number(generation: Any) -> int:
    return generation.number


def _change(job_id: int, title: str, generation: int, reason: dict[str, Any]) -> dict[str, Any]:
    return {"job_id": job_id, "job": title, "generation": generation, "why": _sentence(reason)}


def _sentence(reason: dict[str, Any]) -> str:
    from optimus_core.reasons import render

    return render(reason["code"], reason.get("numbers"))


def grouped(changes: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the changes one by one, those beyond the first 200 together."""
    groups = [[change] for change in changes[:MOST_NAMED]]
    return groups + ([changes[MOST_NAMED:]] if len(changes) > MOST_NAMED else [])


def name_of(group: list[dict[str, Any]]) -> str:
    """Return what a group's task instance is called."""
    return group[0]["job"] if len(group) == 1 else f"{len(group)} others"


def resize(engine: Engine, change: dict[str, Any]) -> dict[str, Any]:
    """Take one step with a changed job; ``outcome`` is issued, already, superseded or ended."""
    before, pauses = _state(engine, change), engine.job_by_id(change["job_id"]).phase == "pausing"
    if before in ("wanted", None) or pauses:
        engine.step(change["job_id"])
    report, after = engine.job_by_id(change["job_id"]), _state(engine, change)
    if report.final:
        outcome = "ended"
    elif before == "superseded" or after == "superseded":
        outcome = "superseded"
    elif before != "wanted" and not pauses:
        outcome = "already"
    else:
        outcome = "issued"
    return {**change, "outcome": outcome, "phase": report.phase, "reason": report.reason}


def _state(engine: Engine, change: dict[str, Any]) -> str | None:
    generations = engine.history(change["job_id"])["generations"]
    state = next((g["state"] for g in generations if g["number"] == change["generation"]), None)
    return "superseded" if state is None else state


def build() -> DAG:
    """Return the rebalance DAG."""
    from airflow.sdk import DAG, get_current_context, task
    from airflow.sdk.exceptions import AirflowSkipException

    from optimus_airflow import settings

    with DAG(
        DAG_ID,
        description="Optimus: observe, refit, plan, resize, report",
        schedule=timedelta(seconds=settings.load().interval_seconds),
        start_date=datetime(2025, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        dagrun_timeout=timedelta(minutes=30),
        default_args={"retries": 1, "retry_delay": timedelta(seconds=10)},
        tags=["optimus"],
        doc_md=__doc__,
    ) as dag:

        @task(task_id="observe")
        def observe_() -> dict[str, Any]:
            return observe(settings.engine(), _ask_airflow)

        @task(task_id="refit")
        def refit_(seen: dict[str, Any]) -> list[dict[str, Any]]:
            return refit(settings.engine(), seen["clusters"])

        @task(task_id="plan")
        def plan_(seen: dict[str, Any], _estimates: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
            return plan(settings.engine(), seen["clusters"])

        @task(task_id="resize", map_index_template="{{ job }}", max_active_tis_per_dagrun=4)
        def resize_(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
            get_current_context()["job"] = name_of(group)  # type: ignore[typeddict-unknown-key]
            done = [resize(settings.engine(), change) for change in group]
            for each in done:
                log.info("%s: %s. %s", each["job"], each["outcome"], each["why"])
            if all(each["outcome"] == "ended" for each in done):
                raise AirflowSkipException("; ".join(f"{each['job']} has ended: {each['reason']}" for each in done))
            return done

        @task(task_id="report", trigger_rule="all_done")
        def report_(groups: Any) -> dict[str, Any]:
            done = [each for group in groups or [] for each in group or []]
            for each in done:
                log.info("%s: %s. %s", each["job"], each["outcome"], each["why"])
            outcomes = [each["outcome"] for each in done]
            return {"changes": done, "counts": {outcome: outcomes.count(outcome) for outcome in set(outcomes)}}

        seen = observe_()
        report_(resize_.expand(group=plan_(seen, refit_(seen))))
    return dag
