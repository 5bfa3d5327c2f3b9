"""Who may see and do what: Airflow's own answers, by DAG."""

from typing import Any, Literal, NamedTuple

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from fastapi import HTTPException

from optimus_airflow import settings
from optimus_core import checks
from optimus_core.engine.engine import Engine
from optimus_core.errors import OptimusError
from optimus_core.store import views

ABSENT = "There is no such job, or you may not read its DAG."


class Found(NamedTuple):
    """Which job is meant, and whose it is."""

    id: int
    name: str
    dag_id: str | None


def opened() -> Engine:
    """Return the engine; a store that can't be used is told in words, not as a fault of Airflow."""
    try:
        return settings.engine()
    except OptimusError as error:
        raise HTTPException(503, str(error)) from error


def readable_dags(user: Any) -> set[str]:
    """Return the DAGs that ``user`` may read."""
    return get_auth_manager().get_authorized_dag_ids(user=user, method="GET")


def may(user: Any, method: Literal["GET", "PUT"], dag_id: str | None) -> bool:
    """Say whether ``user`` may read (``GET``) or edit (``PUT``) a DAG; a job of no DAG is nobody's here."""
    return dag_id is not None and get_auth_manager().is_authorized_dag(
        method=method, user=user, details=DagDetails(id=dag_id)
    )


def readable_job(name: str, user: Any) -> Found:
    """Return the newest job of this name or title; absent and not to be read look alike.

    Raises:
        HTTPException: 404 in both cases.
    """
    with opened().store.transaction() as tx:
        row = views.named(tx, name) if checks.passable(name) == name else None  # no store holds other texts
    if row is None or not may(user, "GET", row[2]):
        raise HTTPException(404, ABSENT)
    return Found(*row)


def editable_job(name: str, user: Any) -> Found:
    """Return a job that ``user`` may act on.

    Raises:
        HTTPException: 404 if he may not read it, 403 if he may not edit its DAG.
    """
    found = readable_job(name, user)
    if not may(user, "PUT", found.dag_id):
        raise HTTPException(403, f"You may read the DAG {found.dag_id}, but not edit it.")
    return found
