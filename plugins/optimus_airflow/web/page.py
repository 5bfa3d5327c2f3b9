"""The page behind a task's link: one job as it stands, without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimus_core.engine.report import JobReport

HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"}
_STYLE = (
    "body{font:15px system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0}"
)


def job_page(report: JobReport, history: dict[str, Any]) -> str:
    """Return the page of a job as HTML; every text of it is escaped."""
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
