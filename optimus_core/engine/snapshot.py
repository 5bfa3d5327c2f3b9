"""The snapshot of a cluster: everything that a plan may know, of one moment."""

from __future__ import annotations

import json
import logging
import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, cast

from optimus_core.at_once import at_once
from optimus_core.cluster.base import NodeInfo, Replica, Role
from optimus_core.engine.columns import Columns
from optimus_core.engine.context import Context
from optimus_core.engine.estimate import estimate, estimate_if_new, work_kind
from optimus_core.engine.launch import demand_of, is_stranger, job_of, needs_of
from optimus_core.engine.ledger import observed
from optimus_core.engine.pausing import is_away, paused_seconds
from optimus_core.engine.slow import REPLACE, finding_of, slow_nodes
from optimus_core.frameworks import roles
from optimus_core.job import TrainingJob
from optimus_core.pools import DeclaredPool
from optimus_core.reasons import ReasonCode
from optimus_core.resources import Resources
from optimus_core.scheduling.types import (
    NOTHING,
    Draining,
    JobView,
    Node,
    PlanSettings,
    Pool,
    Size,
    Snapshot,
)
from optimus_core.store import ACTIVE, LIVE, GenerationRow, JobRow, News, Transaction, is_of_the_store, news
from optimus_core.telemetry.text import storable

_log = logging.getLogger(__name__)

PLANNED = ("queued", "running", "paused")
"""States of a job that a plan gives something to."""
_DID_NOT_START = ("start_timeout", "refused", "refused_for_now")
"""Causes after which a size is barred for a while."""
_PREDICTED = (
    "predicted_seconds", "predicted_steps", "predictions", "seconds_saved_by_one_worker", "seconds_saved_by_one_server"
)  # fmt: skip
"""What a round writes into a job's estimate."""
UNPLANNABLE = ReasonCode.CAN_NOT_BE_PLANNED.value
"""Reason of a job that is left out of plans, since something of it can't be understood."""
_LONG_BACK_OFF = 60.0
"""Seconds: a shorter back-off keeps its room, since the others could not use it in time."""


def take(ctx: Context, name: str, *, refit: bool = True) -> Snapshot:
    """Return the snapshot of cluster ``name``; with ``refit`` the estimates are made anew and stored.

    Raises:
        ClusterUnavailable: the cluster can't be asked now.
    """
    cluster = ctx.cluster(name)
    nodes, replicas = at_once(cluster.nodes, cluster.list)
    columns, of_job = Columns(nodes), _by_job(replicas)
    with ctx.store.transaction() as tx:
        jobs, all_generations = tx.jobs(cluster=name, states=LIVE), tx.generations_by_job(name, LIVE)
        seen = news(tx, name)
        views, draining, unplanned = [], [], []
        for row in jobs:
            generations = all_generations.get(row.id, [])
            draining += _draining(row, generations, of_job.get(row.name, []))
            if row.state in PLANNED and not _occupied_by_an_earlier_attempt(row, generations):
                view = _view_or_reason(ctx, tx, row, generations, seen, refit, columns)
                if view is not None:
                    views.append(view)
                else:
                    unplanned.append(row.name)
        unplanned += of_job.keys() - {row.name for row in jobs}  # of another store, or come late: they hold room
        return Snapshot(
            time=tx.now.timestamp(),
            cluster=name,
            settings=plan_settings(ctx),
            nodes=columns.offer(node_view(node) for node in _without_room_of(unplanned, nodes, replicas)),
            jobs=views,
            draining=draining,
            pools=[pool_view(pool) for pool in ctx.pools(name).pools],
        )


def pool_view(pool: DeclaredPool) -> Pool:
    """Return a declared pool as a plan sees it."""
    return Pool(
        name=pool.name,
        guaranteed=dict(pool.guaranteed.of),
        guaranteed_share=pool.guaranteed.share or 0.0,
        ceiling=dict(pool.ceiling.of),
        ceiling_share=pool.ceiling.share,
    )


def _view_or_reason(
    ctx: Context,
    tx: Transaction,
    row: JobRow,
    generations: Sequence[GenerationRow],
    seen: News,
    refit: bool,
    columns: Columns,
) -> JobView | None:
    """Return a job as a plan sees it; None, with the reason in its row, if it can't be: the others are planned."""
    try:
        if refit or row.estimate is None:
            _refit(ctx, tx, row, seen)
        return columns.ask(job_view(ctx, tx, row, generations, seen), needs_of(job_of(row)))
    except Exception as error:
        if is_of_the_store(error):
            raise
        _log.exception("job %s can't be planned", row.name)
        row.reason = {"code": UNPLANNABLE, "numbers": {"error": storable(f"{type(error).__name__}: {error}")[:500]}}
        return None


def _refit(ctx: Context, tx: Transaction, row: JobRow, seen: News) -> None:
    """Make a job's estimate anew if there is news; one that no database keeps is taken back."""
    made = estimate_if_new(ctx, tx, row, seen) | _kept(row.estimate or {})
    if made != row.estimate:
        with tx.savepoint():
            json.dumps(made, allow_nan=False)  # no database keeps what is not finite
            row.estimate = made


def _without_room_of(jobs: Collection[str], nodes: Sequence[NodeInfo], replicas: Sequence[Replica]) -> list[NodeInfo]:
    """Return the nodes as if the replicas of jobs that the plan does not see were those of others."""
    if not jobs:
        return list(nodes)
    seen = observed(replica for replica in replicas if replica.job in jobs)
    return [
        replace(node, others=sum((held.get(node.name, Resources()) for held in seen.values()), node.others))
        for node in nodes
    ]


def plan_settings(ctx: Context) -> PlanSettings:
    """Return what of the settings a plan depends on."""
    settings = ctx.settings
    return PlanSettings(
        pausing=cast(Literal["auto", "never"], settings.pausing),
        max_paused=settings.max_paused,
        young_factor=settings.young_factor,
        default_restart_cost=settings.restart_cost_seconds,
        min_gain=settings.min_gain_ratio,
    )


def node_view(node: NodeInfo) -> Node:
    """Return a node as a plan sees it."""
    return Node(
        name=node.name,
        allocatable=dict(node.allocatable.clamped()),
        others=dict(node.others.clamped()),
        labels=dict(node.labels),
        ready=node.ready,
    )


def _occupied_by_an_earlier_attempt(row: JobRow, generations: Sequence[GenerationRow]) -> bool:
    return any(g.state in ACTIVE and g.attempt != row.attempt for g in generations)


def present_of(row: JobRow, generations: Sequence[GenerationRow]) -> GenerationRow | None:
    """Return the generation whose size a job has: the one that runs or starts, or that a resize is on its way to."""
    started = [g for g in generations if g.state in ("starting", "running")]
    if started:
        return started[-1]
    resizing = any(g.state == "draining" and (g.cause or {}).get("code") == "resize" for g in generations)
    wanted = [g for g in generations if g.state == "wanted" and g.number == row.wanted]
    return wanted[0] if resizing and wanted else None


def _by_job(replicas: Sequence[Replica]) -> dict[str, list[Replica]]:
    found: dict[str, list[Replica]] = defaultdict(list)
    for replica in replicas:
        found[replica.job].append(replica)
    return found


def _draining(row: JobRow, generations: Sequence[GenerationRow], replicas: Sequence[Replica]) -> list[Draining]:
    """Return what of a job's ``replicas`` still holds room beside its present generation."""
    present = present_of(row, generations)
    number = present.number if present is not None and row.state != "stopping" else None
    others = [r for r in replicas if r.generation != number or is_stranger(r, row)]
    seen = observed(others).get(row.name, {})
    return [Draining(job=row.name, node=node, resources=dict(held)) for node, held in sorted(seen.items())]


def job_view(ctx: Context, tx: Transaction, row: JobRow, generations: Sequence[GenerationRow], seen: News) -> JobView:
    """Return a job as a plan sees it, with the estimate that its row has."""
    job, present, fit = job_of(row), present_of(row, generations), row.estimate or {}
    known = seen.workloads.get(row.workload)
    sizes = _size_limits(job)
    return JobView(
        name=row.name,
        workload=row.workload,
        state="running" if present is not None else "paused" if is_away(row, generations) else "queued",
        arrived=row.queued_at.timestamp(),
        priority=row.priority,
        deadline=row.deadline.timestamp() if row.deadline is not None else None,
        pool=row.pool,
        strategy=_kind(job),
        worker_demand=dict(demand_of(row, job, Role.WORKER)),
        server_demand=dict(demand_of(row, job, Role.SERVER)) if job.servers is not None else {},
        scheduler_demand=dict(demand_of(row, job, Role.SCHEDULER)) if _has_scheduler(job) else {},
        **sizes,
        batch_per=job.batch_per,
        size=Size(servers=present.servers, workers=present.workers) if present is not None else NOTHING,
        placement=_placement(present),
        pinned=Size(**row.pin) if row.pin else None,
        barred=_barred(ctx, tx, job, generations),
        colocate=job.colocate,
        resizable=job.resumable,
        remaining=fit["remaining"],
        speed=fit["speed"],
        work_per_step=work_kind(job),
        young=fit["young"],
        restart_cost=known.restart_seconds if known is not None else None,
        not_before=_long_back_off(tx, row),
        has_checkpoint=row.checkpoint_step is not None,
        paused_seconds=paused_seconds(row, generations, tx.now),
        avoid=slow_nodes(row, generations),
        straggler=finding_of(present) if ctx.settings.stragglers == REPLACE else {},
        seconds_at_size=_seconds_at_size(tx, present),
        specification=job.public_dict(),
    )


def ended_view(ctx: Context, tx: Transaction, row: JobRow) -> JobView:
    """Return an ended job as a plan sees one that waits, with all that its run taught: what a replay begins with."""
    known = tx.peek_workload(row.workload)
    row.estimate = (row.estimate or {}) | estimate(ctx, tx, row).to_dict()
    return job_view(ctx, tx, row, [], News({}, {}, {} if known is None else {row.workload: known}))


def _kind(job: TrainingJob) -> Literal["ps_sync", "ps_async", "allreduce"]:
    return cast(Literal["ps_sync", "ps_async", "allreduce"], job.strategy.kind)


def _size_limits(job: TrainingJob) -> dict[str, Any]:
    servers = job.servers
    return {
        "min_workers": job.workers.min,
        "max_workers": job.workers.max,
        "min_servers": servers.min if servers is not None else 0,
        "max_servers": servers.max if servers is not None else 0,
    }


def _has_scheduler(job: TrainingJob) -> bool:
    servers = job.servers.min if job.servers is not None else 0
    return any(role is Role.SCHEDULER for role, _ in roles(job.framework, servers, job.workers.min))


def _placement(generation: GenerationRow | None) -> dict[str, Size]:
    placement = generation.placement if generation is not None else {}
    return {node: Size(**size) for node, size in placement.items()}


def _barred(ctx: Context, tx: Transaction, job: TrainingJob, generations: Sequence[GenerationRow]) -> list[Size]:
    """Sizes that were tried and did not start are not tried again for a while, as long as others are left."""
    since = tx.now - timedelta(seconds=ctx.settings.barred_seconds)
    failed = {
        (g.servers, g.workers)
        for g in generations
        if (g.cause or {}).get("code") in _DID_NOT_START and g.gone_at is not None and g.gone_at > since
    }
    sizes = math.prod(each.max - each.min + 1 for each in (job.workers, job.servers) if each is not None)
    if len(failed) >= sizes:
        return []  # its retries and their waits bound what is tried again and again
    return [Size(servers=servers, workers=workers) for servers, workers in sorted(failed)]


def _long_back_off(tx: Transaction, row: JobRow) -> float | None:
    if row.not_before is None or (row.not_before - tx.now).total_seconds() < _LONG_BACK_OFF:
        return None
    return row.not_before.timestamp()


def _seconds_at_size(tx: Transaction, present: GenerationRow | None) -> float | None:
    if present is None or present.starting_at is None:
        return None
    return max(0.0, (tx.now - present.starting_at).total_seconds())


def _kept(estimate: dict[str, Any]) -> dict[str, Any]:
    """Return what of an estimate a new fit leaves as it is: what the last plans predicted."""
    return {name: estimate.get(name) for name in ("first", *_PREDICTED)}
