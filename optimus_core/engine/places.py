"""A place that others took between the plan and the start: it is given up, and the next plan looks elsewhere."""

from __future__ import annotations

from datetime import datetime

from optimus_core.cluster.base import Cluster
from optimus_core.engine import pausing
from optimus_core.engine.context import Context
from optimus_core.engine.launch import demand_by_node
from optimus_core.engine.ledger import missing
from optimus_core.reasons import ReasonCode
from optimus_core.store import ACTIVE, GenerationRow, JobRow

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
    """Withdraw a wanted generation that has not begun, and let a round decide anew; what runs goes on."""
    cause = {"code": TAKEN, "numbers": lacking}
    with ctx.store.transaction() as tx:
        row, owner = tx.generation(job.id, generation.number), tx.job(job.id)
        if row is None or owner is None or row.state != "wanted" or owner.wanted != row.number:
            return
        row.state, row.cause, row.gone_at = "superseded", cause, tx.now
        generations = tx.generations(owner.id)
        running = [each.number for each in generations if each.state in ACTIVE]
        owner.wanted = max(running, default=0)
        if not running:
            owner.state = "paused" if pausing.is_away(owner, generations) else "queued"
            owner.reason = cause
        tx.record(owner, "rolled_back", row.number, **cause)
        tx.revise(owner.cluster)
