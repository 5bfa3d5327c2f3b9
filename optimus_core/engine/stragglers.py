"""Stragglers of a running job: measured in turn, found by the pure functions, replaced where that pays and is wanted.

A worker other than rank 0 is read now and then (:func:`watch`), for the sake of its speed alone. Who is found is kept
as the cause of the running generation and told in the history, as ``straggler``. If a replacement pays
(:mod:`.straggler_gain`), the next round places the job at the same size off the slow nodes
(:mod:`optimus_core.scheduling.slow_nodes`), and the job goes on there from its checkpoint; ``straggler_replaced`` tells
what its speed was before and is since.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from optimus_core.cluster.base import Cluster, Phase, Replica, Role
from optimus_core.engine import collect
from optimus_core.engine.context import Context
from optimus_core.engine.slow import FOUND, MOVED, REPLACE, REPLACED, found_in
from optimus_core.engine.straggler_gain import SAMPLES, is_synchronous, judge
from optimus_core.errors import ClusterUnavailable
from optimus_core.reasons import ReasonCode
from optimus_core.scheduling.stragglers import FEWEST_SAMPLES, FEWEST_WORKERS, Straggler, slow_by_speed
from optimus_core.store import GenerationRow, JobRow, Transaction, is_of_the_store

_log = logging.getLogger(__name__)
RECOVERED = ReasonCode.STRAGGLER_RECOVERED.value
"""Event, and cause of a running generation, that tell of stragglers that are none any more."""
_MOST_TOLD = 5
"""Events of a kind in one generation: a worker that is slow now and then can't fill the history."""


def watch(ctx: Context, job: JobRow, generation: GenerationRow, replicas: Sequence[Replica], cluster: Cluster) -> None:
    """Read one worker if it is somebody's turn, and see what the workers' speeds tell.

    A log that can't be read now is read later: the job itself goes on.
    """
    workers = [r for r in replicas if r.role is Role.WORKER and r.phase is Phase.RUNNING]
    if ctx.settings.stragglers == "off" or len(workers) < FEWEST_WORKERS:
        return
    try:
        replica = _next(ctx, job, generation, workers)
        if replica is not None:
            collect.read_all(ctx, job, replica, cluster)
            _see(ctx, job, generation, workers)
    except ClusterUnavailable as error:
        _log.info("the speed of a worker of job %s can't be read now: %s", job.name, error)
    except Exception as error:
        if is_of_the_store(error):
            raise
        _log.exception("the workers of job %s can't be compared", job.name)


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


def _see(ctx: Context, job: JobRow, generation: GenerationRow, workers: Sequence[Replica]) -> None:
    with ctx.store.transaction() as tx:
        owner, row = tx.job(job.id), tx.generation(job.id, generation.number)
        if owner is None or row is None or (owner.state, row.state) != ("running", "running"):
            return
        if _outcome_is_told(tx, owner, row):
            _look(ctx, tx, owner, row, workers)


def _outcome_is_told(tx: Transaction, owner: JobRow, row: GenerationRow) -> bool:
    """Tell what the replacement that made this generation has brought; False while that is not known yet."""
    if (row.reason or {}).get("code") != MOVED or row.cause is not None:
        return True
    since = tx.speeds_of(owner.id, row.number, SAMPLES)
    if len(since) < SAMPLES:
        return False
    ran = [g.number for g in tx.generations(owner.id) if g.number < row.number and g.first_step_at is not None]
    before = tx.speeds_of(owner.id, ran[-1], SAMPLES) if ran else []
    numbers = _place_of((row.reason or {}).get("numbers", {})) | {"speed_after": round(median(since), 6)}
    if before:
        numbers |= {"speed_before": round(median(before), 6), "times": round(median(since) / median(before), 3)}
    row.cause = {"code": REPLACED, "numbers": numbers}
    tx.record(owner, REPLACED, row.number, code=REPLACED, **numbers)
    return True


def _place_of(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return which replicas were slow, and where."""
    return {name: numbers[name] for name in ("slow", "replica", "node") if name in numbers}


def _look(ctx: Context, tx: Transaction, owner: JobRow, row: GenerationRow, workers: Sequence[Replica]) -> None:
    """Keep what is found now if that is news; a plan is asked for where it changes what is to be done."""
    readers, known = tx.readers(owner.id, row.number), found_in(row)
    found = find(readers, workers, synchronous=is_synchronous(owner))
    if not (found or known):
        return
    numbers = judge(ctx, tx, owner, row, found, workers, readers) if found else {}
    if found and all(numbers[name] == known.get(name) for name in ("replica", "action")):
        return
    if found:
        row.cause = {"code": FOUND, "numbers": numbers}
        _tell(tx, owner, row, "straggler", numbers)
    else:
        row.cause = {"code": RECOVERED, "numbers": _place_of(known)}
        _tell(tx, owner, row, RECOVERED, _place_of(known))
    if REPLACE in (numbers.get("action"), known.get("action")):
        tx.revise(owner.cluster)


def _tell(tx: Transaction, owner: JobRow, row: GenerationRow, kind: str, numbers: Mapping[str, Any]) -> None:
    told = sum(event.generation == row.number for event in tx.events(owner.id, kind=kind))
    if told < _MOST_TOLD:
        tx.record(owner, kind, row.number, code=(row.cause or {})["code"], **numbers)


def find(readers: Mapping[str, Mapping[str, Any]], workers: Sequence[Replica], *, synchronous: bool) -> list[Straggler]:
    """Return the slow nodes and workers that the readers' states show, nodes first.

    Args:
        readers: replica -> its reader's state.
        workers: those that run.
        synchronous: only the times of a worker's own part of a step tell then, since all make the same steps.
    """
    own = {r.name: readers.get(r.name, {}).get("own") or {} for r in workers}
    speeds = {name: [1 / t for t in state.get("times", ())] for name, state in own.items()}
    timed = sum(len(each) >= FEWEST_SAMPLES for each in speeds.values())
    if not synchronous and timed < FEWEST_WORKERS:
        speeds = {name: state.get("speeds", []) for name, state in own.items()}
    return slow_by_speed(speeds, {r.name: r.node for r in workers})
