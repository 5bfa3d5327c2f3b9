"""What would be if: the present plan beside that of a changed cluster, by the same ``plan``; nothing is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from optimus_core.engine.context import Context
from optimus_core.engine.snapshot import take
from optimus_core.reasons import render
from optimus_core.scheduling.plan import plan
from optimus_core.scheduling.starts import with_starts
from optimus_core.scheduling.types import Decision, JobView, Snapshot
from optimus_core.store import LIVE, JobRow
from optimus_core.store.views import Wanted, jobs_page

MOST_JOBS = 1000


@dataclass(frozen=True)
class Change:
    """What would be different; jobs and nodes by name."""

    without_node: str | None = None
    add_like_node: str | None = None
    without_job: str | None = None
    priority: Mapping[str, int] | None = None
    deadline: Mapping[str, datetime] | None = None
    """UTC-aware."""


def what_if(ctx: Context, name: str, dags: Collection[str], change: Change) -> list[dict[str, Any]]:
    """Return each readable job's size under the present plan and under that of a changed cluster.

    Raises:
        ClusterUnavailable: the cluster can't be asked now.
    """
    with ctx.store.transaction() as tx:
        rows, _ = jobs_page(tx, dags, Wanted(cluster=name, states=LIVE), before=None, limit=MOST_JOBS)
        jobs = {row.name: row for row in rows}
    snapshot = take(ctx, name, refit=False)
    present, then = _by_job(snapshot), _by_job(_changed(snapshot, change, jobs))
    deadlines = change.deadline or {}
    return [
        {
            "name": job,
            "title": jobs[job].title,
            "now": _told(snapshot, decision, jobs[job].deadline),
            "then": _told(snapshot, then.get(job), deadlines.get(job, jobs[job].deadline)),
        }
        for job, decision in sorted(present.items())
        if job in jobs
    ]


def _by_job(snapshot: Snapshot) -> dict[str, Decision]:
    return {decision.job: decision for decision in with_starts(snapshot, plan(snapshot)).decisions}


def _told(snapshot: Snapshot, decision: Decision | None, deadline: datetime | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    reason = (decision.waits_for or decision.reason).model_dump(mode="json")
    return {
        "servers": decision.size.servers,
        "workers": decision.size.workers,
        "predicted_seconds": decision.predicted_seconds,
        "late_seconds": _late_seconds(snapshot.time, decision.predicted_seconds, deadline),
        "why": render(reason["code"], reason.get("numbers")),
    }


def _late_seconds(now: float, predicted: float | None, deadline: datetime | None) -> float | None:
    """Return how long after its deadline a job ends; None if in time, unknown, or without one."""
    if deadline is None:
        return None
    late = now + (predicted or 0.0) - deadline.timestamp()
    return late if late > 0 else None


def _changed(snapshot: Snapshot, change: Change, readable: Mapping[str, JobRow]) -> Snapshot:
    nodes = [node for node in snapshot.nodes if node.name != change.without_node]
    nodes += [
        node.model_copy(update={"name": f"{node.name}+1", "others": {}})
        for node in snapshot.nodes
        if node.name == change.add_like_node
    ]
    withdrawn = change.without_job if change.without_job in readable else None
    jobs = [_as_changed(job, change) if job.name in readable else job for job in snapshot.jobs if job.name != withdrawn]
    return snapshot.model_copy(update={"nodes": nodes, "jobs": jobs})


def _as_changed(job: JobView, change: Change) -> JobView:
    priorities, deadlines = change.priority or {}, change.deadline or {}
    changed: dict[str, Any] = {}
    if job.name in priorities:
        changed["priority"] = priorities[job.name]
    if job.name in deadlines:
        changed["deadline"] = deadlines[job.name].timestamp()
    return job.model_copy(update=changed)
