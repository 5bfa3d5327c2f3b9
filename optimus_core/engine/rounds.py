"""The round: snapshot -> refit -> plan -> one transaction that writes the wanted generations with their reasons.

One at a time, under a lease; its holder repeats while there is an unplanned revision. Safety rests on the lease's
epoch: what an older holder decided is not written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from optimus_core.engine import pausing, places
from optimus_core.engine.charts import note_prediction
from optimus_core.engine.context import Context
from optimus_core.engine.snapshot import PLANNED, present_of, take
from optimus_core.models import Estimate
from optimus_core.scheduling.plan import plan
from optimus_core.scheduling.starts import with_starts
from optimus_core.scheduling.types import Decision, Plan, Size, Snapshot
from optimus_core.store import GenerationRow, JobRow, RoundRow, Transaction
from optimus_core.store.database import this_host

_MOST_REPEATS = 5
"""A round ends after so many plans, whatever arrives meanwhile; the next one goes on."""


@dataclass(frozen=True)
class Change:
    """A job whose wanted generation a round has changed."""

    job_id: int
    name: str
    title: str
    generation: int
    reason: dict[str, Any]
    before: Size
    """The size that it had; (0, 0): it starts."""
    after: Size


@dataclass
class RoundReport:
    """What a round did."""

    cluster: str
    plans: int = 0
    changes: list[Change] = field(default_factory=list)


def round_(
    ctx: Context, cluster: str, *, sleep: Callable[[float], None] = time.sleep, delay: float = 0.0
) -> RoundReport | None:
    """Plan until nothing is unplanned; None if somebody else holds the lease (he will see what is new).

    Args:
        ctx: the engine's context.
        cluster: whose jobs are planned.
        sleep: waits; a test gives its own.
        delay: seconds to wait before each repetition, so that a burst of arrivals is one plan.

    Raises:
        ClusterUnavailable: the cluster can't be asked now; nothing was written.
    """
    holder = f"{this_host()}:{os.getpid()}:{uuid4().hex[:8]}"
    with ctx.store.transaction() as tx:
        epoch = tx.take_lease(cluster, holder, ctx.settings.lease_seconds)
    if epoch is None:
        return None
    report = RoundReport(cluster)
    try:
        for _ in range(_MOST_REPEATS):
            unplanned = _plan_once(ctx, cluster, epoch, report)
            if not unplanned:
                break
            sleep(delay)
    finally:
        with ctx.store.transaction() as tx:
            tx.give_back_lease(cluster, epoch)
    return report


def _plan_once(ctx: Context, cluster: str, epoch: int, report: RoundReport) -> bool:
    """Plan and write once; return whether something came meanwhile."""
    with ctx.store.transaction() as tx:
        revision = tx.cluster(cluster).revision
    attempts = _attempts(ctx, cluster)  # first: a later attempt than the snapshot's must not pass for the same
    snapshot = take(ctx, cluster)
    decided = with_starts(snapshot, plan(snapshot))
    with ctx.store.transaction() as tx:
        if not tx.holds_lease(cluster, epoch):
            return False
        changes = _write_all(tx, cluster, decided, attempts)
        row = tx.cluster(cluster)
        row.planned_revision, row.planned_at = revision, tx.now
        _record(tx, decided, epoch, revision, changes)
        report.plans += 1
        report.changes += changes
        return row.revision > revision


def _attempts(ctx: Context, cluster: str) -> dict[str, int]:
    with ctx.store.transaction() as tx:
        return tx.attempts(cluster, PLANNED)


def _record(tx: Transaction, decided: Plan, epoch: int, revision: int, changes: Sequence[Change]) -> None:
    if not changes:
        return  # the beat alone is no news
    tx.add(
        RoundRow(
            cluster=decided.cluster,
            time=tx.now,
            epoch=epoch,
            revision=revision,
            changes=len(changes),
            plan=decided.to_dict(),
        )
    )


def _write_all(tx: Transaction, cluster: str, decided: Plan, attempts: dict[str, int]) -> list[Change]:
    """Write the decisions about jobs that still are what the plan saw; return what changed."""
    rows = tx.lock_jobs(cluster, PLANNED)
    generations = tx.generations_by_job(cluster, PLANNED)
    seen = [(d, row) for d in decided.decisions if (row := rows.get(d.job)) and row.attempt == attempts.get(row.name)]
    changes = [_write(tx, row, generations.get(row.id, []), decision) for decision, row in seen]
    return [change for change in changes if change is not None]


def _write(tx: Transaction, row: JobRow, generations: Sequence[GenerationRow], decision: Decision) -> Change | None:
    """Write one decision about a job; return it if something changed."""
    if not _was_just_refused(row):
        row.reason = _reason(decision)
    _note_prediction(row, decision, tx.now)
    present = present_of(row, generations)
    wanted = next((g for g in generations if g.state == "wanted" and g.number == row.wanted), None)
    if wanted is not None and _is_as_decided(wanted, decision):
        return None
    if present is not None and _is_as_decided(present, decision):
        if row.state == "paused" and present.state != "wanted":
            pausing.take_back(tx, row, present)
        _withdraw(tx, row, wanted, present, generations)
        return None
    if not decision.size:
        _withdraw(tx, row, wanted, present, generations)
        if present is None or not pausing.may_be_paused(row, present):
            return None
        pausing.ask_for(tx, row, present, _reason(decision))
        return Change(row.id, row.name, row.title, present.number, row.reason or {}, decision.present, decision.size)
    return _want(tx, row, generations, wanted, decision)


def _was_just_refused(row: JobRow) -> bool:
    """Say whether people must still be told that the cluster had no place for the job: it will be tried again."""
    return row.not_before is not None and (row.reason or {}).get("code") == "refused_for_now"


def _reason(decision: Decision) -> dict[str, Any]:
    return (decision.waits_for or decision.reason).model_dump(mode="json")


def _note_prediction(row: JobRow, decision: Decision, now: datetime) -> None:
    """Keep what is predicted; the first prediction that can be relied on is what the job's end is compared with."""
    known, seconds = row.estimate or {}, decision.predicted_seconds
    is_new = (known.get("first") or {}).get("attempt") != row.attempt
    if is_new and seconds is not None and decision.present and not known.get("young"):
        known = known | {"first": {"seconds": seconds, "at": now.isoformat(), "attempt": row.attempt}}
    row.estimate = known | {
        "predicted_seconds": seconds,
        "predicted_steps": decision.remaining.value,
        "predictions": note_prediction(known.get("predictions") or [], now, seconds, _left(decision)),
        "seconds_saved_by_one_worker": decision.seconds_saved_by_one_worker,
        "seconds_saved_by_one_server": decision.seconds_saved_by_one_server,
    }


def _left(decision: Decision) -> Estimate:
    return Estimate(decision.remaining.value, decision.remaining.low, decision.remaining.high)


def _is_as_decided(generation: GenerationRow, decision: Decision) -> bool:
    placed = {node: size.model_dump() for node, size in decision.placement.items()}
    same = (generation.servers, generation.workers) == (decision.size.servers, decision.size.workers)
    return same and generation.placement == placed


def _withdraw(
    tx: Transaction,
    row: JobRow,
    wanted: GenerationRow | None,
    present: GenerationRow | None,
    generations: Sequence[GenerationRow],
) -> None:
    if wanted is not None and wanted is not present:
        places.withdraw(tx, row, wanted, generations)


def _want(
    tx: Transaction,
    row: JobRow,
    generations: Sequence[GenerationRow],
    wanted: GenerationRow | None,
    decision: Decision,
) -> Change:
    if wanted is not None:
        wanted.state, wanted.gone_at = "superseded", tx.now
    number = max((g.number for g in generations), default=0) + 1
    reason = decision.reason.model_dump(mode="json")
    generation = GenerationRow(
        job_id=row.id,
        number=number,
        attempt=row.attempt,
        servers=decision.size.servers,
        workers=decision.size.workers,
        placement={node: size.model_dump() for node, size in decision.placement.items()},
        state="wanted",
        reason=reason,
        wanted_at=tx.now,
    )
    tx.add(generation)
    row.wanted, row.state = number, "running"
    tx.record(row, "wanted", number, servers=generation.servers, workers=generation.workers, **reason)
    return Change(row.id, row.name, row.title, number, reason, decision.present, decision.size)


def peek(ctx: Context, cluster: str) -> tuple[Snapshot, Plan]:
    """Return what a round would see and decide now; changes nothing but the stored estimates."""
    snapshot = take(ctx, cluster)
    return snapshot, with_starts(snapshot, plan(snapshot))
