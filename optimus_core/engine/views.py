"""What the page shows: bounded plain data out of the store, and the cluster's nodes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from optimus_core.engine import charts
from optimus_core.engine.context import Context
from optimus_core.engine.downsample import downsample
from optimus_core.engine.launch import demand_by_node
from optimus_core.engine.report import event_dict, generation_dict, job_report, report_of
from optimus_core.engine.snapshot import take
from optimus_core.errors import ClusterUnavailable, OptimusError
from optimus_core.reasons import render
from optimus_core.scheduling.plan import plan
from optimus_core.scheduling.types import Decision, JobView, Snapshot
from optimus_core.store import ACTIVE, JobRow, Transaction
from optimus_core.store.views import Wanted, events_page, generations_of, jobs_page, present_generations
from optimus_core.telemetry.series import BoundedSeries

MOST_GENERATIONS = 500
MOST_NODES = 500
MOST_SERIES = 50
MOST_SPEEDS = 200
MOST_OUTPUTS = 50
MOST_TAIL = 4000
"""Characters of a replica's last output."""
_TOLD = ("predicted_seconds", "seconds_saved_by_one_worker", "seconds_saved_by_one_server", "remaining", "young")
"""What of an estimate people read; the models themselves are drawn."""
OTHERS = "jobs of other DAGs"
"""Who holds what a reader may not see by name."""


def list_jobs(ctx: Context, dags: Collection[str], wanted: Wanted, *, before: int | None, limit: int) -> dict[str, Any]:
    """Return a page of jobs, newest first; ``next`` is what to give as ``before`` for the page after it."""
    with ctx.store.transaction() as tx:
        rows, total = jobs_page(tx, dags, wanted, before=before, limit=limit)
        present = present_generations(tx, [row.id for row in rows])
        return {
            "jobs": [report_of(row, present.get(row.id, []), tx.now).to_dict() for row in rows],
            "total": total,
            "next": rows[-1].id if len(rows) == limit else None,
        }


def job_detail(ctx: Context, job_id: int, *, points: int, events_after: int, events: int) -> dict[str, Any]:
    """Return all that a job's view shows: its report, sizes, history, series, speeds and replicas."""
    with ctx.store.transaction() as tx:
        row = tx.peek_job(job_id)
        if row is None:
            return {}
        return {
            "job": job_report(tx, row).to_dict(),
            "estimate": {name: (row.estimate or {}).get(name) for name in _TOLD},
            "charts": charts.of_job(tx, row),
            "generations": [generation_dict(g) for g in generations_of(tx, [job_id], MOST_GENERATIONS)],
            "events": [{"id": e.id} | event_dict(e) for e in events_page(tx, job_id, after=events_after, limit=events)],
            "series": _series(tx, job_id, points),
            "speeds": _speeds(tx, row),
            "replicas": [
                {"replica": o.replica, "generation": o.generation, "ended": o.ended, "tail": o.tail[-MOST_TAIL:]}
                for o in tx.outputs(job_id)[-MOST_OUTPUTS:]
            ],
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


def cluster_view(ctx: Context, name: str, dags: Collection[str]) -> dict[str, Any]:
    """Return the nodes with who holds what, and the sizes over time of the jobs that a reader of ``dags`` may see.

    If the cluster can't be asked, ``error`` says why and there are no nodes; the rest is the store's.
    """
    with ctx.store.transaction() as tx:
        holding = tx.holding(name)
        live, _ = jobs_page(tx, dags, Wanted(cluster=name), before=None, limit=100)
        titles = {row.id: row.title for row in live}
        sizes = [{"job": titles[g.job_id]} | generation_dict(g) for g in generations_of(tx, titles, MOST_GENERATIONS)]
        rounds = [{"time": r.time.isoformat(), "changes": r.changes} for r in tx.rounds(name, 20)]
    held: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for row, generation in holding:
        if generation.state not in ACTIVE:
            continue
        for node, amount in _demands(row, generation).items():
            who = row.title if row.dag_id in dags else OTHERS
            before = held[node].get(who, {})
            held[node][who] = {k: before.get(k, 0) + amount.get(k, 0) for k in {*before, *amount}}
    nodes, error = _nodes(ctx, name)
    for described in nodes:
        described["jobs"] = held.get(described["name"], {})
    return {"cluster": name, "error": error, "nodes": nodes, "sizes": sizes, "rounds": rounds}


def _demands(row: JobRow, generation: Any) -> dict[str, dict[str, int]]:
    try:
        return {node: dict(amount) for node, amount in demand_by_node(row, generation).items()}
    except (OptimusError, ArithmeticError, LookupError, TypeError, ValueError):
        return {}  # a job that can't be understood hides no other


def _nodes(ctx: Context, name: str) -> tuple[list[dict[str, Any]], str | None]:
    try:
        found = ctx.cluster(name).nodes()[:MOST_NODES]
    except ClusterUnavailable as error:
        return [], str(error)
    return [
        {"name": n.name, "ready": n.ready, "allocatable": dict(n.allocatable), "others": dict(n.others)} for n in found
    ], None


def what_if(ctx: Context, name: str, dags: Collection[str], change: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each readable job's size under the present plan and under that of a changed cluster; changes nothing.

    Args:
        ctx: the engine's context.
        name: the cluster.
        dags: whose jobs may be seen.
        change: ``without_node``, ``without_job``, ``add_like_node`` (names) and ``priority`` (job name -> number).

    Raises:
        ClusterUnavailable: the cluster can't be asked now.
    """
    with ctx.store.transaction() as tx:
        rows, _ = jobs_page(tx, dags, Wanted(cluster=name), before=None, limit=1000)
        titles = {row.name: row.title for row in rows}
    snapshot = take(ctx, name, refit=False)
    present, then = _by_job(snapshot), _by_job(_changed(snapshot, change, titles))
    return [
        {"name": job, "title": titles[job], "now": _decision(present[job]), "then": _decision(then.get(job))}
        for job in sorted(present)
        if job in titles
    ]


def _by_job(snapshot: Snapshot) -> dict[str, Decision]:
    return {decision.job: decision for decision in plan(snapshot).decisions}


def _decision(decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    reason = (decision.waits_for or decision.reason).model_dump(mode="json")
    return {
        "servers": decision.size.servers,
        "workers": decision.size.workers,
        "predicted_seconds": decision.predicted_seconds,
        "why": render(reason["code"], reason.get("numbers")),
    }


def _changed(snapshot: Snapshot, change: dict[str, Any], titles: Collection[str]) -> Snapshot:
    nodes = [n for n in snapshot.nodes if n.name != change.get("without_node")]
    nodes += [
        n.model_copy(update={"name": f"{n.name}+1", "others": {}})
        for n in snapshot.nodes
        if n.name == change.get("add_like_node")
    ]
    withdrawn = change.get("without_job") if change.get("without_job") in titles else None
    priorities: dict[str, int] = {k: v for k, v in (change.get("priority") or {}).items() if k in titles}
    jobs = [_with_priority(j, priorities) for j in snapshot.jobs if j.name != withdrawn]
    return snapshot.model_copy(update={"nodes": nodes, "jobs": jobs})


def _with_priority(job: JobView, priorities: dict[str, int]) -> JobView:
    return job.model_copy(update={"priority": priorities[job.name]}) if job.name in priorities else job
