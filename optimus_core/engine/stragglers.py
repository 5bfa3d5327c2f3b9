"""Stragglers of a running job: measured in turn, found by the pure functions, replaced where that pays.

A worker other than rank 0 is read now and then (:func:`watch`), for the sake of its speed alone. Who is found is kept
as the cause of the running generation and told once in the history, as ``straggler``. If a replacement pays, the next
round places the job at the same size off the slow node (:mod:`optimus_core.scheduling.slow_nodes`), and the job goes on
there from its checkpoint; ``straggler_replaced`` tells what its speed was before and is since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from optimus_core.cluster.base import Cluster, Phase, Replica, Role
from optimus_core.engine import collect
from optimus_core.engine.context import Context
from optimus_core.engine.launch import job_of
from optimus_core.engine.slow import FOUND, MOVED, REPLACE
from optimus_core.reasons import ReasonCode
from optimus_core.scheduling.stragglers import FEWEST_WORKERS, Straggler, expected_gain, slow_by_speed
from optimus_core.store import GenerationRow, JobRow, Transaction

REPLACED = ReasonCode.STRAGGLER_REPLACED.value
"""Event, and cause of a running generation, that tell what a replacement has brought."""
RECOVERED = ReasonCode.STRAGGLER_RECOVERED.value
MOST_REPLACEMENTS = 3
"""Of one attempt: a job whose workers are slow wherever they are is not moved for ever."""
_HELPED = 1.1
"""Speed after a replacement, as part of that before: below this it has not helped, and is not tried again."""
_SAMPLES = 3
"""Speed samples of a generation from which its speed is known."""


def watch(ctx: Context, job: JobRow, generation: GenerationRow, replicas: Sequence[Replica], cluster: Cluster) -> None:
    """Read one worker if it is somebody's turn, and see what the workers' speeds tell."""
    workers = [r for r in replicas if r.role is Role.WORKER and r.phase is Phase.RUNNING]
    if ctx.settings.stragglers == "off" or len(workers) < FEWEST_WORKERS:
        return
    if (replica := _next(ctx, job, generation, workers)) is None:
        return
    collect.read_once(ctx, job, replica, cluster, leads=False)
    with ctx.store.transaction() as tx:
        owner, row = tx.job(job.id), tx.generation(job.id, generation.number)
        if owner is None or row is None or (owner.state, row.state) != ("running", "running"):
            return
        if _outcome_is_told(tx, owner, row):
            _look(ctx, tx, owner, row, workers)


def _next(ctx: Context, job: JobRow, generation: GenerationRow, workers: Sequence[Replica]) -> Replica | None:
    """Return the worker that was not read for longest, if that is a window ago; rank 0 is read by each step."""
    with ctx.store.transaction() as tx:
        known = tx.readers(job.id, generation.number)
        last = {r.name: known.get(r.name, {}).get("read_at", 0.0) for r in workers if r.index != 0}
        chosen = min((r for r in workers if r.index != 0), key=lambda r: (last[r.name], r.index), default=None)
        if chosen is None or tx.now.timestamp() - last[chosen.name] < ctx.settings.speed_window_seconds:
            return None
        seen = tx.output(job.id, chosen.name, chosen.uid)
        _, row = collect.rows_of(tx, job, chosen, seen.cursor if seen is not None else None)
        if row is None:
            return None
        row.reader = (row.reader or {}) | {"read_at": tx.now.timestamp()}
    return chosen


def _outcome_is_told(tx: Transaction, owner: JobRow, row: GenerationRow) -> bool:
    """Tell what the replacement that made this generation has brought; False while that is not known yet."""
    if (row.reason or {}).get("code") != MOVED or row.cause is not None:
        return True
    since = tx.speeds_of(owner.id, row.number, _SAMPLES)
    if len(since) < _SAMPLES:
        return False
    ran = [g.number for g in tx.generations(owner.id) if g.number < row.number and g.first_step_at is not None]
    before = tx.speeds_of(owner.id, ran[-1], _SAMPLES) if ran else []
    numbers = _place_of(row.reason)
    numbers["speed_after"] = round(median(since), 6)
    if before:
        numbers |= {"speed_before": round(median(before), 6), "times": round(median(since) / median(before), 3)}
    row.cause = {"code": REPLACED, "numbers": numbers}
    tx.record(owner, REPLACED, row.number, code=REPLACED, **numbers)
    return True


def _place_of(reason: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return of a reason which replica was slow, and where."""
    numbers = (reason or {}).get("numbers", {})
    return {name: numbers[name] for name in ("kind", "replica", "node") if name in numbers}


def _look(ctx: Context, tx: Transaction, owner: JobRow, row: GenerationRow, workers: Sequence[Replica]) -> None:
    found = find(tx.readers(owner.id, row.number), workers, synchronous=_is_synchronous(owner))
    told = (row.cause or {}).get("code") == FOUND
    if not found and told:
        tx.record(owner, RECOVERED, row.number, code=RECOVERED, **_place_of(row.cause))
        row.cause = None if (row.reason or {}).get("code") != MOVED else {"code": REPLACED, "numbers": {}}
    if not found or told:
        return
    numbers = _judge(ctx, tx, owner, row, found[0], workers)
    row.cause = {"code": FOUND, "numbers": numbers}
    tx.record(owner, "straggler", row.number, code=FOUND, **numbers)
    if numbers["action"] == REPLACE:
        tx.revise(owner.cluster)


def _is_synchronous(owner: JobRow) -> bool:
    return job_of(owner).strategy.kind != "ps_async"


def find(readers: Mapping[str, Mapping[str, Any]], workers: Sequence[Replica], *, synchronous: bool) -> list[Straggler]:
    """Return the slow nodes and workers that the readers' states show, nodes first.

    Args:
        readers: replica -> its reader's state.
        workers: those that run.
        synchronous: only the times of a worker's own part of a step tell then, since all make the same steps.
    """
    own = {r.name: readers.get(r.name, {}).get("own") or {} for r in workers}
    speeds = {name: [1 / t for t in state.get("times", ())] for name, state in own.items()}
    if not synchronous and not any(speeds.values()):
        speeds = {name: state.get("speeds", []) for name, state in own.items()}
    return slow_by_speed(speeds, {r.name: r.node for r in workers})


@dataclass(frozen=True)
class _Stake:
    """What a replacement of a straggler would cost and save, in seconds; ``used``: replacements of the attempt."""

    saved: float
    cost: float
    used: int
    helped: bool


def _judge(
    ctx: Context, tx: Transaction, owner: JobRow, row: GenerationRow, slow: Straggler, workers: Sequence[Replica]
) -> dict[str, Any]:
    """Return a finding in numbers, with what is to be done about it and, if nothing, why."""
    worker = next(r for r in workers if r.name == slow.workers[0])
    stake = _stake(ctx, tx, owner, row, slow, len(workers))
    kept = _why_kept(ctx, owner, stake)
    return {
        "kind": slow.kind,
        "replica": ", ".join(slow.workers),
        "node": worker.node,
        "ratio": round(slow.relative_speed, 4),
        "saved_seconds": round(stake.saved, 3),
        "restart_seconds": round(stake.cost, 3),
        "action": REPLACE if kept is None else "report",
        **({} if kept is None else {"kept": kept}),
    }


def _stake(ctx: Context, tx: Transaction, owner: JobRow, row: GenerationRow, slow: Straggler, workers: int) -> _Stake:
    known = tx.peek_workload(owner.workload)
    cost = known.restart_seconds if known is not None else None
    cost = ctx.settings.restart_cost_seconds if cost is None else cost
    synchronous = _is_synchronous(owner)
    slowed = 1 if synchronous else len(slow.workers)  # a synchronous job waits for its slowest, however many there are
    saved = slowed * expected_gain(
        min(1.0, slow.relative_speed), remaining_seconds(owner, row, tx.now), 0.0, workers, synchronous=synchronous
    )
    outcomes = [e.cause for e in tx.events(owner.id) if e.kind == REPLACED and e.attempt == owner.attempt]
    used = sum((g.reason or {}).get("code") == MOVED for g in _started(tx, owner))
    return _Stake(saved, cost, used, helped=not outcomes or outcomes[-1].get("times", _HELPED) >= _HELPED)


def _started(tx: Transaction, owner: JobRow) -> list[GenerationRow]:
    return [g for g in tx.generations(owner.id) if g.attempt == owner.attempt and g.starting_at is not None]


def remaining_seconds(owner: JobRow, row: GenerationRow, now: datetime) -> float:
    """Return how long the job is taken to go on: as was predicted, else as long again as it has run by now.

    The latter is the median of what is left of something of which only its age is known.
    """
    predicted = (owner.estimate or {}).get("predicted_seconds")
    if predicted is not None:
        return float(predicted)
    since = owner.started_at or row.running_at or now
    return max(0.0, (now - since).total_seconds())


def _why_kept(ctx: Context, owner: JobRow, stake: _Stake) -> str | None:
    """Return why a straggler is not replaced; None if it is. Each replacement makes the next one dearer."""
    asked = stake.cost * (1 + ctx.settings.min_gain_ratio + stake.used)
    if ctx.settings.stragglers == "report":
        return 'the setting stragglers is "report"'
    if not job_of(owner).resumable:
        return "it can't go on from a checkpoint"
    if stake.used >= MOST_REPLACEMENTS:
        return f"{stake.used} replacements were made already"
    if not stake.helped:
        return "the last replacement made it no faster"
    return None if stake.saved > asked else "that would save less than it costs"
