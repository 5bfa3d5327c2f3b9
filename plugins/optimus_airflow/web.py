"""The page behind a task's link: one job as it stands, for those who may read its DAG.

A plain page without scripts. Nothing is open: each route asks Airflow for the user, and for his right to the DAG.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

    from optimus_core.engine.report import JobReport

PREFIX = "/optimus"
_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"}
_STYLE = (
    "body{font:15px system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0}"
)


def make_app() -> FastAPI:
    """Return the application; imported and made only in the API server."""
    from airflow.api_fastapi.core_api.security import GetUserDep
    from fastapi import FastAPI, HTTPException
    from fastapi.responses import HTMLResponse

    app = FastAPI(title="Optimus", docs_url=None, redoc_url=None, openapi_url=None)

    def job_page(name: str, user: GetUserDep) -> HTMLResponse:
        found = _readable(name, user)
        if found is None:  # absent and not to be read look alike
            raise HTTPException(404, "There is no such job, or you may not read its DAG.")
        return HTMLResponse(_page(*found), headers=_HEADERS)

    # the annotations are text in this module, and what they name is local to this function
    job_page.__annotations__ = {"name": str, "user": GetUserDep, "return": HTMLResponse}
    app.get("/jobs/{name}", response_class=HTMLResponse)(job_page)
    return app


def _readable(name: str, user: Any) -> tuple[JobReport, dict[str, Any]] | None:
    """Return a job and its history if it exists and ``user`` may read its DAG."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails

    from optimus_airflow import settings
    from optimus_core.errors import UnknownJob

    engine = settings.engine()
    try:
        report = engine.job(name)
    except UnknownJob:
        return None
    if report.dag_id is None or not get_auth_manager().is_authorized_dag(
        method="GET", user=user, details=DagDetails(id=report.dag_id)
    ):
        return None
    return report, engine.history(report.id)


def _page(report: JobReport, history: dict[str, Any]) -> str:
    facts = [
        ("state", report.phase),
        ("why", report.reason),
        ("parameter servers", report.servers),
        ("workers", report.workers),
        ("step", report.step),
        ("loss", report.loss),
        ("predicted to take, seconds", report.predicted_seconds),
        ("checkpoint at step", report.checkpoint_step),
        ("attempt", report.attempt),
    ]
    sizes = [
        (g["number"], g["state"], g["servers"], g["workers"], g["wanted_at"], g["why"]) for g in history["generations"]
    ]
    events = [(e["time"], e["kind"], e["text"]) for e in history["events"]][-200:]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(report.title)} - Optimus</title>"
        f"<style>{_STYLE}</style><h1>{escape(report.title)}</h1>"
        + _table((), facts)
        + "<h2>Sizes over time</h2>"
        + _table(("generation", "state", "servers", "workers", "wanted at (UTC)", "why"), sizes)
        + "<h2>History</h2>"
        + _table(("time (UTC)", "event", ""), events)
    )


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = ("".join(f"<td>{escape('-' if cell is None else str(cell))}</td>" for cell in row) for row in rows)
    return f"<table><tr>{titles}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
