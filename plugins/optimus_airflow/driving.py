"""Driving jobs from Airflow's processes: what trigger and operator share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from optimus_core.engine.drive import drive_to_end

if TYPE_CHECKING:
    from optimus_core.engine.engine import Engine
    from optimus_core.engine.report import JobReport

_TAIL_LINES = 20
_TAIL_CHARS = 4000


def event_of(engine: Engine, report: JobReport) -> dict[str, Any]:
    """Return all that a task needs to know of an ended job, as JSON holds it."""
    return {
        "job_id": report.id,
        "job": report.name,
        "title": report.title,
        "state": report.state,
        "reason": report.reason,
        "reason_code": report.reason_code,
        "result": report.result or {},
        "tail": "" if report.state == "succeeded" else tail_of(engine, report),
    }


def tail_of(engine: Engine, report: JobReport) -> str:
    """Return the last lines of the replica that a failure names, else of the first that wrote something."""
    cause = (report.result or {}).get("cause") or {}
    named = str((cause.get("numbers") or {}).get("replica", ""))
    outputs = [o for o in engine.outputs(report.id) if o["tail"]]
    newest = max((o["generation"] for o in outputs), default=0)
    ranked = sorted(
        outputs, key=lambda o: (o["replica"] != named, o["generation"] != newest, "worker-0" not in o["replica"])
    )
    if not ranked:
        return ""
    text = ranked[0]["tail"]
    text = text if isinstance(text, str) else "\n".join(text)
    return "\n".join(text.splitlines()[-_TAIL_LINES:])[-_TAIL_CHARS:]


def drive_to_end_aside(engine: Engine, job_id: int) -> threading.Thread:
    """Do :func:`drive_to_end` in a thread that keeps no process alive; who dies here is made up for by others."""
    thread = threading.Thread(target=drive_to_end, args=(engine, job_id), name=f"optimus-stop-{job_id}", daemon=True)
    thread.start()
    return thread
