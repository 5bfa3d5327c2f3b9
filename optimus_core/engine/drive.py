"""Driving a job to its end, in the process that has asked it to stop."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimus_core.engine.engine import Engine

log = logging.getLogger(__name__)

_MARGIN = 60.0
"""Seconds beyond a job's own grace until we no longer wait for its end."""


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
