"""What the page shows of jobs: bounded plain data out of the store."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

from optimus_core.engine import charts
from optimus_core.engine.context import Context
from optimus_core.engine.downsample import downsample
from optimus_core.engine.replicas import replicas_of
from optimus_core.engine.report import JobReport, event_dict, generation_dict, job_report, report_of
from optimus_core.store import JobRow, Transaction
from optimus_core.store.views import Wanted, events_page, generations_of, jobs_page, present_generations
from optimus_core.telemetry.series import BoundedSeries

MOST_GENERATIONS = 500
MOST_SERIES = 50
MOST_SPEEDS = 200
_TOLD = ("predicted_seconds", "seconds_saved_by_one_worker", "seconds_saved_by_one_server", "remaining", "young")
"""What of an estimate people read; the models themselves are drawn."""


def list_jobs(ctx: Context, dags: Collection[str], wanted: Wanted, *, before: int | None, limit: int) -> dict[str, Any]:
    """Return a page of jobs, newest first; ``next`` is what to give as ``before`` for the page after it."""
    with ctx.store.transaction() as tx:
        rows, total = jobs_page(tx, dags, wanted, before=before, limit=limit)
        present = present_generations(tx, [row.id for row in rows])
        return {
            "jobs": [quiet(report_of(row, present.get(row.id, []), tx.now)) for row in rows],
            "total": total,
            "next": rows[-1].id if len(rows) == limit else None,
        }


def quiet(report: JobReport) -> dict[str, Any]:
    """Return a report whose times are whole minutes where they move by themselves: an idle page is told nothing new."""
    late, stepped = report.late_seconds, report.stepped_at
    moment = datetime.fromisoformat(stepped).replace(second=0, microsecond=0) if stepped is not None else None
    return report.to_dict() | {
        "late_seconds": math.ceil(late / 60) * 60.0 if late is not None else None,
        "stepped_at": moment.isoformat() if moment is not None else None,
    }


def job_detail(ctx: Context, job_id: int, *, points: int, events_after: int, events: int) -> dict[str, Any]:
    """Return all that a job's view shows: its report, sizes, history, series, speeds and replicas."""
    with ctx.store.transaction() as tx:
        row = tx.peek_job(job_id)
        if row is None:
            return {}
        generations = generations_of(tx, [job_id], MOST_GENERATIONS)
        return {
            "job": quiet(job_report(tx, row)),
            "estimate": {name: (row.estimate or {}).get(name) for name in _TOLD},
            "charts": charts.of_job(tx, row),
            "generations": [generation_dict(g) for g in generations],
            "events": [{"id": e.id} | event_dict(e) for e in events_page(tx, job_id, after=events_after, limit=events)],
            "series": _series(tx, job_id, points),
            "speeds": _speeds(tx, row),
            "replicas": replicas_of(tx, row, generations),
        }


def _series(tx: Transaction, job_id: int, points: int) -> list[dict[str, Any]]:
    found = []
    for row in tx.all_series(job_id)[:MOST_SERIES]:
        kept = BoundedSeries.from_state(row.state).points()
        pairs = [(float(p.step), p.value) for p in kept if p.step is not None]
        found.append({"name": row.name, "seen": row.points, "points": downsample(pairs, points)})
    return found


def _speeds(tx: Transaction, row: JobRow) -> list[dict[str, Any]]:
    """Return the mean speed seen at each size."""
    seen: dict[tuple[int, int], list[float]] = defaultdict(list)
    for sample in tx.speeds(row.workload, row.specification_hash, MOST_SPEEDS):
        speed = sample.steps / sample.seconds if sample.seconds > 0 else math.inf
        if math.isfinite(speed):
            seen[sample.servers, sample.workers].append(speed)
    return [
        {"servers": servers, "workers": workers, "steps_per_second": sum(all_) / len(all_), "samples": len(all_)}
        for (servers, workers), all_ in sorted(seen.items())
    ]
