"""What a run came to: the numbers that XCom, the CLI and the page show of an ended job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from optimus_core.store import GenerationRow, JobRow


def result_of(job: JobRow, generations: Sequence[GenerationRow]) -> dict[str, Any]:
    """Return the outcome of a job, JSON-safe, each number with its unit in its name."""
    ran = [g for g in generations if g.starting_at is not None and g.attempt == job.attempt]
    return {
        "job": job.name,
        "state": job.state,
        "attempt": job.attempt,
        "final_loss": job.loss,
        "steps": job.step,
        "epochs": job.epoch,
        "wall_seconds": _seconds(job.started_at, job.ended_at),
        "waited_seconds": _seconds(job.queued_at, job.started_at),
        "replica_seconds": round(sum((g.servers + g.workers) * _life(g, job.ended_at) for g in ran), 3),
        "resizes": sum((g.cause or {}).get("code") == "resize" for g in ran),
        "sizes": [{"servers": g.servers, "workers": g.workers, "seconds": _life(g, job.ended_at)} for g in ran],
        "checkpoint": job.checkpoint_path,
        "checkpoint_step": job.checkpoint_step,
        "cause": job.cause,
    }


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return round((end - start).total_seconds(), 3) if start is not None and end is not None else None


def _life(generation: GenerationRow, end: datetime | None) -> float:
    return _seconds(generation.starting_at, generation.gone_at or end) or 0.0
