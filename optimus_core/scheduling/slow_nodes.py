"""Off the nodes where workers of a running job are slow: at the size that was planned, on room that the plan leaves.

Only for a finding that is to be acted on. Where there is no room elsewhere the job stays and says so: nobody gives room
back, or waits, since a node is slow. That a job is not placed anew where it was slow is :meth:`.Room.place`'s.
"""

from __future__ import annotations

from optimus_core.counted import size_text
from optimus_core.reasons import Number, Reason, ReasonCode
from optimus_core.scheduling.placement import Room
from optimus_core.scheduling.rows import Row, pair, placement_of, prepare
from optimus_core.scheduling.types import Decision, Plan, Snapshot

NO_ROOM = "there is no room for it on other nodes"


def off_slow_nodes(snapshot: Snapshot, made: Plan) -> Plan:
    """Return the plan in which jobs with stragglers to be replaced leave their nodes, as far as there is room."""
    if not any(job.straggler for job in snapshot.jobs):
        return made
    problem = prepare(snapshot, lambda job: None)  # no speeds: sizes stay as they are
    rows = {row.name: row for row in problem.rows if row.job.straggler and not row.held}
    nodes, columns = sorted(made.free), problem.resources
    special = dict(zip((node.name for node in problem.nodes), problem.special, strict=True))
    free = [[made.free[node].get(name, 0) for name in columns] for node in nodes]
    room = Room(nodes, free, len(columns), [special.get(node, False) for node in nodes])
    decisions = [_off(room, rows[d.job], d) if d.job in rows and d.placement else d for d in made.decisions]
    left = {
        name: dict(zip(columns, amounts, strict=True))
        for name, amounts in zip(room.names, room.free.clip(min=0).tolist(), strict=True)
    }
    return made.model_copy(update={"decisions": decisions, "free": left})


def _off(room: Room, row: Row, decision: Decision) -> Decision:
    if set(row.job.avoid).isdisjoint(decision.placement):
        return _with_reason(row, decision)
    seats = {node: pair(size) for node, size in decision.placement.items()}
    room.give(row, seats)
    elsewhere = room.without(row.job.avoid).place(row, pair(decision.size))
    room.take(row, elsewhere or seats)
    if elsewhere is None:
        return _with_reason(row, decision)
    return _with_reason(row, decision, update={"placement": placement_of(elsewhere), "changed": True})


def _with_reason(row: Row, decision: Decision, update: dict[str, object] | None = None) -> Decision:
    """Return the decision with why; ``avoids`` stays with its generation, so that later plans know of it too."""
    numbers: dict[str, Number] = {"size": size_text(*pair(decision.size)), "avoids": ", ".join(row.job.avoid)}
    if decision.changed:
        reason = Reason(code=decision.reason.code, numbers=decision.reason.numbers | numbers)
    elif update is not None:
        reason = Reason(code=ReasonCode.STRAGGLER, numbers=row.job.straggler | numbers)
    else:
        reason = Reason(code=ReasonCode.STRAGGLER_FOUND, numbers=row.job.straggler | {"kept": NO_ROOM})
    return decision.model_copy(update={**(update or {}), "reason": reason})
