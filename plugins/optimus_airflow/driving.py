"""Driving jobs from Airflow's processes: what trigger and operator share."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimus_core.engine.engine import Engine
    from optimus_core.engine.report import JobReport

log = logging.getLogger(__name__)

_MARGIN = 60.0
"""Seconds beyond a job's own grace until we no longer wait for its end."""
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


def drive_to_end(engine: Engine, job_id: int, seconds: float | None = None) -> bool:
    """Step a job that was asked to stop until it has ended; return whether it has."""
    if seconds is None:
        seconds = grace_of(engine, job_id) + _MARGIN
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            step = engine.step(job_id)
        except Exception:
            log.exception("A step with job %s failed; it is tried again", job_id)
            time.sleep(2)
            continue
        if step.final:
            return True
        time.sleep(max(step.look_again, 0.05))
    return False


def grace_of(engine: Engine, job_id: int) -> float:
    """Return how long a job may take to stop."""
    with engine.store.transaction() as tx:
        row = tx.peek_job(job_id)
    return float((row.specification if row is not None else {}).get("grace_seconds", 30))


def drive_to_end_aside(engine: Engine, job_id: int) -> threading.Thread:
    """Do :func:`drive_to_end` in a thread that keeps no process alive; who dies here is made up for by others."""
    thread = threading.Thread(target=drive_to_end, args=(engine, job_id), name=f"optimus-stop-{job_id}", daemon=True)
    thread.start()
    return thread
