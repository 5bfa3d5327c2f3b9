"""Stops jobs whose task is gone: nobody drives them, and Airflow says that their task has ended or is no more.

A triggerer that is down harms nothing: its tasks are still deferred, so their jobs go on. Where Airflow can't be
asked, everything goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimus_core.engine.engine import Engine
    from optimus_core.engine.report import JobReport

log = logging.getLogger(__name__)

States = dict[str, dict[str, Any]]
"""Run id -> task id (``task_index`` of a mapped one) -> state, as Airflow gives them; None: about to be scheduled."""
_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def reap(
    engine: Engine, forsaken: list[JobReport], ask: Callable[[JobReport], States | None] | None = None
) -> list[JobReport]:
    """Stop those of ``forsaken`` whose task has ended or is absent; return them.

    Args:
        engine: the engine.
        forsaken: live jobs that nobody has driven for a while.
        ask: returns the states of the job's task; None where Airflow can't be asked.
    """
    ask = ask or ask_airflow
    reaped = []
    for report in forsaken:
        if report.dag_id is None:
            continue  # not Airflow's
        states = ask(report)
        if states is not None and is_over(report, states) and engine.request_stop(report.id, by="the reaper"):
            log.warning('Job "%s" is stopped: nobody drives it and its task is over', report.title)
            reaped.append(report)
    return reaped


def is_over(report: JobReport, states: States) -> bool:
    """Say whether the job's task has ended or is absent."""
    key = report.task_id if report.map_index in (None, -1) else f"{report.task_id}_{report.map_index}"
    tasks = states.get(str(report.run_id), {})
    return key not in tasks or str(tasks[key]) in _ENDED


def ask_airflow(report: JobReport) -> States | None:
    """Return the states of the job's task; works within a running task."""
    from airflow.sdk import get_current_context

    try:
        return get_current_context()["ti"].get_task_states(
            dag_id=str(report.dag_id), task_ids=[str(report.task_id)], run_ids=[str(report.run_id)]
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing is known
        log.warning('Airflow can\'t be asked about the task of job "%s" (%s); it goes on', report.title, error)
        return None
