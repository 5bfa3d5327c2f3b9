"""Starting the rebalance DAG from the page: only for those who may start it in Airflow, and kept in the audit table."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from fastapi import HTTPException

from optimus_airflow.rebalance import DAG_ID
from optimus_airflow.web.access import opened
from optimus_core.errors import OptimusError

_UNDER_WAY = ("queued", "running")


def may_start(user: Any) -> bool:
    """Say whether Airflow lets ``user`` start a run of the rebalance DAG."""
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=DagDetails(id=DAG_ID), user=user
    )


def start(user: Any) -> str:
    """Start a run, or return that which is under way already; return its run id.

    Raises:
        HTTPException: 403, Airflow does not let ``user`` start it.
        OptimusError: the DAG is not there, or is paused.
    """
    if not may_start(user):
        raise HTTPException(403, f"You may not start runs of the DAG {DAG_ID}.")
    engine = opened()
    run_id = _under_way() or _trigger(user)
    engine.note_rebalance(user.get_name(), run_id)
    return run_id


def _under_way() -> str | None:
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.get(DagModel, DAG_ID)
        if found is None or found.is_stale:
            raise OptimusError(f"Airflow knows no DAG {DAG_ID}. Put dags/{DAG_ID}.py into its DAGs folder.")
        if found.is_paused:
            raise OptimusError(f"The DAG {DAG_ID} is paused. Unpause it: airflow dags unpause {DAG_ID}")
        runs = select(DagRun.run_id).where(DagRun.dag_id == DAG_ID, DagRun.state.in_(_UNDER_WAY))
        return session.scalar(runs.order_by(DagRun.run_after.desc()).limit(1))


def _trigger(user: Any) -> str:
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.utils.types import DagRunTriggeredByType

    run = trigger_dag(DAG_ID, triggered_by=DagRunTriggeredByType.UI, triggering_user_name=user.get_name())
    if run is None:
        raise OptimusError(f"Airflow started no run of {DAG_ID}. Look into the log of its API server.")
    return str(run.run_id)
