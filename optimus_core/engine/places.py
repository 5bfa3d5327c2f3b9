"""Places that are given up before anything starts there, such as one that others took since the plan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from optimus_core.cluster.base import Cluster
from optimus_core.engine import pausing
from optimus_core.engine.context import Context
from optimus_core.engine.launch import demand_by_node
from optimus_core.engine.ledger import missing
from optimus_core.engine.snapshot import present_of
from optimus_core.reasons import ReasonCode
from optimus_core.store import GenerationRow, JobRow, Transaction

TAKEN = ReasonCode.NODE_TAKEN.value
"""Cause of a generation whose place was taken. Its size is not barred: it may start elsewhere at once."""
UNSCHEDULABLE = "Unschedulable"
"""Word of a cluster for a replica that does not fit where it is to go."""
_SURE_SECONDS = 5.0
"""What others ask for may pass as quickly as it came."""


def taken(cluster: Cluster, row: JobRow, generation: GenerationRow) -> dict[str, str] | None:
    """Return the first node where others leave too little for a generation, None if there is none.

    What other jobs still hold does not count: they have been told to go. A node that is not ready has nothing left.
    """
    room = {node.name: node.allocatable - node.others for node in cluster.nodes() if node.ready}
    return missing(demand_by_node(row, generation), room)


def is_settled(ctx: Context, since: datetime | None) -> bool:
    """Say whether a place has been looked at for long enough to believe that it is taken."""
    return ctx.has_passed(since, _SURE_SECONDS)


def give_up(ctx: Context, job: JobRow, generation: GenerationRow, lacking: dict[str, str]) -> None:
    """Withdraw a wanted generation whose place others took, and let a round decide anew."""
    cause = {"code": TAKEN, "numbers": lacking}
    with ctx.store.transaction() as tx:
        row, owner = tx.generation(job.id, generation.number), tx.job(job.id)
        if row is None or owner is None or (owner.state, owner.wanted, row.state) != ("running", row.number, "wanted"):
            return
        withdraw(tx, owner, row, tx.generations(owner.id), cause)
        if not owner.wanted:
            owner.reason = cause
        tx.record(owner, "rolled_back", row.number, **cause)
        tx.revise(owner.cluster)


def withdraw(
    tx: Transaction,
    owner: JobRow,
    wanted: GenerationRow,
    generations: Sequence[GenerationRow],
    cause: dict[str, Any] | None = None,
) -> None:
    """What was wanted and has not begun is wanted no more: what runs goes on, and a job of which nothing runs waits."""
    wanted.state, wanted.cause, wanted.gone_at = "superseded", cause, tx.now
    present = present_of(owner, generations)
    owner.wanted = present.number if present is not None else 0
    if present is None and owner.state == "running":
        owner.state = "paused" if pausing.is_away(owner, generations) else "queued"
