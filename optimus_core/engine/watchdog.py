"""The watchdog: replicas that all run and make no step hang, whatever the cause.

What is too long is learned from the job itself: a script may tell each step or each thousandth, and stop for long to
evaluate. So the usual time is the one between two steps that worker 0 *told* of, and pauses that a job has made before
are allowed to it three times over. Before the first step of a generation, the starts of earlier ones tell what is
usual; before the first step of all nothing does, and only a job's own ``hang_timeout`` ends it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from optimus_core.cluster.base import Role
from optimus_core.engine.context import Context
from optimus_core.engine.launch import job_of
from optimus_core.names import replica_name
from optimus_core.store import GenerationRow, JobRow, Transaction

_PAUSES = 3
"""How many times as long as the longest pause that a job has made another one may take."""
_MOST_GENERATIONS = 5
"""The newest ones that have made steps tell of pauses."""


def hang(ctx: Context, job: JobRow, generation: GenerationRow) -> dict[str, Any] | None:
    """Return what tells that a running generation hangs: its silence, its last step, what was usual; None if not."""
    own = job_of(job).hang_timeout
    with ctx.store.transaction() as tx:
        owner, row = tx.peek_job(job.id), tx.generation(job.id, generation.number)
        if owner is None or row is None or row.running_at is None:
            return None
        silence = (tx.now - _last_news(owner, row)).total_seconds()
        if silence <= (ctx.settings.hung_min_seconds if own is None else own):
            return None
        told = {"seconds": round(silence, 1), "step": row.last_step if row.first_step_at is not None else None}
        if own is not None:
            return told | {"allowed": own}
        usual, allowed = _allowed(ctx, tx, owner, row)
    return None if allowed is None or silence <= allowed else told | {"usual": usual, "allowed": round(allowed, 1)}


def _last_news(owner: JobRow, row: GenerationRow) -> datetime:
    """Return when a generation made its last step, or else its start."""
    if row.running_at is None or row.first_step_at is None:
        return row.running_at or row.wanted_at
    return max(row.running_at, row.first_step_at, owner.step_at or row.first_step_at)


def _allowed(ctx: Context, tx: Transaction, owner: JobRow, row: GenerationRow) -> tuple[float | None, float | None]:
    """Return the usual time between told steps and how long none may be told, in seconds; None: nobody knows."""
    stepped = [g for g in tx.generations(owner.id) if g.first_step_at is not None][-_MOST_GENERATIONS:]
    paces = {g.number: _pace(tx, owner, g.number) for g in stepped}
    here = paces.get(row.number, {})
    pauses = [pace["longest"] for pace in paces.values() if pace]
    if not here:
        starts = [(g.running_at, g.first_step_at) for g in stepped]
        pauses += [(first - running).total_seconds() for running, first in starts if running and first]
    if not pauses:
        return None, None
    usual = round(here["seconds"] / here["reports"], 3) if here else None
    least = ctx.settings.hung_min_seconds
    return usual, max(least, ctx.settings.hung_factor * (usual or 0), _PAUSES * max(pauses))


def _pace(tx: Transaction, owner: JobRow, number: int) -> dict[str, float]:
    """Return how often worker 0 of a generation has told of a step: see :class:`.reader.Reader`."""
    name = replica_name(owner.name, Role.WORKER, 0, number)
    return dict(tx.readers(owner.id, number).get(name, {}).get("pace") or {})
