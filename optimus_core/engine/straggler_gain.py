"""Whether it pays to replace stragglers: what they cost a job, against a restart of it.

Nobody knows how long a worker stays slow. So it is replaced once it has cost as much as a restart does: whatever comes,
the job then loses at most about twice of what one who knew the future would have lost (the break-even rule of the
ski-rental problem; Karlin et al., Competitive snoopy caching, Algorithmica 1988). And enough must be left to win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from optimus_core.cluster.base import Replica
from optimus_core.engine.context import Context
from optimus_core.engine.launch import job_of
from optimus_core.engine.left import seconds_left
from optimus_core.engine.slow import MOVED, REPLACE, REPLACED, REPORT, found_in
from optimus_core.scheduling.stragglers import Straggler, expected_gain
from optimus_core.store import GenerationRow, JobRow, Transaction

SAMPLES = 3
"""Speed samples of a generation from which its speed is known."""
MOST_REPLACEMENTS = 3
"""Of one attempt: a job whose workers are slow wherever they are is not moved for ever."""
HELPED = 1.1
"""Speed after a replacement, as part of that before: below this it has not helped, and is not tried again."""


@dataclass(frozen=True)
class Stake:
    """What stragglers cost and their replacement would save, in seconds."""

    lost: float
    """What they have cost since they were found."""
    saved: float
    """What the job would be done sooner if they were replaced now, the restart not counted."""
    cost: float
    """Of a restart."""
    used: int
    """Replacements of this attempt."""
    helped: bool
    """Whether the last of them made the job faster; True before the first."""


def judge(
    ctx: Context,
    tx: Transaction,
    owner: JobRow,
    row: GenerationRow,
    found: Sequence[Straggler],
    workers: Sequence[Replica],
    readers: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return a finding in numbers, with what is to be done about it and, if nothing, why.

    Args:
        ctx: the engine's context.
        tx: the transaction that looks.
        owner: the job.
        row: its running generation.
        found: its stragglers, one at least.
        workers: those that run.
        readers: replica -> its reader's state.
    """
    slow = [name for straggler in found for name in straggler.workers]
    nodes = sorted({r.node for r in workers if r.name in slow})
    share = lost_share(found, len(workers), _synchronous_part(tx, owner, row, slow, readers))
    since = _since(row, nodes, tx.now)
    stake = _stake(ctx, tx, owner, row, share, tx.now.timestamp() - since)
    kept = why_kept(ctx, owner, stake)
    return {
        "slow": _words(found),
        "replica": ", ".join(sorted(slow)),
        "node": ", ".join(nodes),
        "ratio": round(min(straggler.relative_speed for straggler in found), 4),
        "saved_seconds": round(stake.saved, 3),
        "restart_seconds": round(stake.cost, 3),
        "lost_seconds": round(stake.lost, 3),
        "since": since,
        "action": REPLACE if kept is None else REPORT,
        **({} if kept is None else {"kept": kept}),
    }


def _words(found: Sequence[Straggler]) -> str:
    if len(found) == 1:
        return f"a slow {found[0].kind}"
    return "slow nodes" if all(straggler.kind == "node" for straggler in found) else "slow workers"


def _since(row: GenerationRow, nodes: Sequence[str], now: datetime) -> float:
    """Return since when one of these nodes has been slow without a break, in seconds since the epoch."""
    known = found_in(row)
    same = not set(str(known.get("node", "")).split(", ")).isdisjoint(nodes)
    return float(known["since"]) if same and "since" in known else now.timestamp()


def is_synchronous(owner: JobRow) -> bool:
    """Say whether every step of a job waits for all its workers."""
    return job_of(owner).strategy.kind != "ps_async"


def _synchronous_part(
    tx: Transaction, owner: JobRow, row: GenerationRow, slow: Sequence[str], readers: Mapping[str, Mapping[str, Any]]
) -> float | None:
    """Return which part of a step is the slowest worker's own, the rest is exchange; None for asynchronous jobs."""
    if not is_synchronous(owner):
        return None
    speeds = tx.speeds_of(owner.id, row.number, SAMPLES)
    times = [median(own) for name in slow if (own := (readers.get(name, {}).get("own") or {}).get("times"))]
    return min(1.0, max(times) * median(speeds)) if speeds and times else 1.0


def lost_share(found: Sequence[Straggler], workers: int, synchronous_part: float | None) -> float:
    """Return the part of its speed that a job lacks because of its stragglers, 0 to 1.

    A synchronous job lacks what its slowest does, in the part of a step that is a worker's own; an asynchronous one
    (``synchronous_part`` None) the shares of all.
    """
    if synchronous_part is not None:
        slowest = min(straggler.relative_speed for straggler in found)
        return synchronous_part * expected_gain(slowest, 1.0, 0.0, workers, synchronous=True)
    gains = (
        len(straggler.workers) * expected_gain(straggler.relative_speed, 1.0, 0.0, workers, synchronous=False)
        for straggler in found
    )
    return sum(gains)


def _stake(
    ctx: Context, tx: Transaction, owner: JobRow, row: GenerationRow, share: float, slow_seconds: float
) -> Stake:
    known = tx.peek_workload(owner.workload)
    measured = known.restart_seconds if known is not None else None
    outcomes = [e.cause for e in tx.events(owner.id, kind=REPLACED) if e.attempt == owner.attempt]
    moved = [g for g in tx.generations(owner.id) if (g.reason or {}).get("code") == MOVED]
    return Stake(
        lost=share * max(0.0, slow_seconds),
        saved=share * remaining_seconds(owner, row, tx.now),
        cost=ctx.settings.restart_cost_seconds if measured is None else measured,
        used=sum(g.attempt == owner.attempt and g.starting_at is not None for g in moved),
        helped=not outcomes or outcomes[-1].get("times", HELPED) >= HELPED,
    )


def remaining_seconds(owner: JobRow, row: GenerationRow, now: datetime) -> float:
    """Return how long the job is taken to go on: as was predicted, else as long again as it has run by now.

    The latter is the median of what is left of something of which only its age is known.
    """
    predicted = seconds_left(owner)
    if predicted is not None:
        return float(predicted)
    since = owner.started_at or row.running_at or now
    return max(0.0, (now - since).total_seconds())


def why_kept(ctx: Context, owner: JobRow, stake: Stake) -> str | None:
    """Return why stragglers are not replaced; None if they are. Each replacement makes the next one dearer."""
    asked = stake.cost * (1 + ctx.settings.min_gain_ratio + stake.used)
    reasons = {
        'the setting stragglers is "report"': ctx.settings.stragglers != REPLACE,
        "the job can't go on from a checkpoint": not job_of(owner).resumable,
        "no checkpoint of the job is confirmed yet": owner.checkpoint_step is None,
        f"{stake.used} replacements were made already": stake.used >= MOST_REPLACEMENTS,
        "the last replacement made the job no faster": not stake.helped,
        "that would save less than it costs": stake.saved <= asked,
        "it has cost less than a restart so far": stake.lost <= asked,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)
