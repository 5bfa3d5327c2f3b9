"""Off the nodes where workers of a job were slow: at the same size, on the room that a plan leaves free.

A running job is moved only for a finding that pays for the restart; one that is placed anew for another reason avoids
its slow nodes too. Where there is no room elsewhere, the plan stays as it is: nobody waits since a node is slow.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimus_core.reasons import Reason, ReasonCode
from optimus_core.scheduling.explain import size_text
from optimus_core.scheduling.placement import Room
from optimus_core.scheduling.rows import Row, Seats, pair, placement_of, prepare
from optimus_core.scheduling.types import Decision, JobView, Plan, Snapshot


def off_slow_nodes(snapshot: Snapshot, made: Plan) -> Plan:
    """Return the plan in which jobs leave the nodes that were slow for them, as far as there is room."""
    jobs = {job.name: job for job in snapshot.jobs}
    wrong = {decision.job for decision in made.decisions if _is_wrong(jobs[decision.job], decision)}
    if not wrong:
        return made
    problem = prepare(snapshot, lambda job: None)  # speeds tell nothing here: sizes stay as they are
    rows = {row.name: row for row in problem.rows if row.name in wrong and not row.held}
    nodes, columns = sorted(made.free), problem.resources
    room = Room(nodes, [[made.free[node].get(name, 0) for name in columns] for node in nodes], len(columns))
    decisions = [
        _moved(room, rows[decision.job], decision) if decision.job in rows else decision for decision in made.decisions
    ]
    free = {
        name: dict(zip(columns, amounts, strict=True))
        for name, amounts in zip(room.names, room.free.clip(min=0).tolist(), strict=True)
    }
    return made.model_copy(update={"decisions": decisions, "free": free})


def _is_wrong(job: JobView, decision: Decision) -> bool:
    """Say whether a job would have replicas on a node that it avoids and may leave: it restarts, or that pays."""
    pays = bool(job.straggler) and job.resizable
    return (decision.changed or pays) and not set(job.avoid).isdisjoint(decision.placement)


def _moved(room: Room, row: Row, decision: Decision) -> Decision:
    seats = {node: pair(size) for node, size in decision.placement.items()}
    room.give(row, seats)
    elsewhere = _place(room, row, pair(decision.size), row.job.avoid)
    room.take(row, elsewhere or seats)
    if elsewhere is None:
        return decision
    return decision.model_copy(
        update={"placement": placement_of(elsewhere), "changed": True, "reason": _reason(row.job, decision)}
    )


def _place(room: Room, row: Row, size: tuple[int, int], avoid: Sequence[str]) -> Seats | None:
    others = [position for position, name in enumerate(room.names) if name not in avoid]
    part = Room([room.names[each] for each in others], room.free[others].tolist(), room.free.shape[1])
    return part.place(row, size)


def _reason(job: JobView, decision: Decision) -> Reason:
    """Return why it is there; ``avoids`` stays with the generation, so that later plans know of it too."""
    avoids = ", ".join(job.avoid)
    if decision.changed:
        return Reason(code=decision.reason.code, numbers=decision.reason.numbers | {"avoids": avoids})
    numbers = {"size": size_text(pair(decision.size)), "avoids": avoids}
    return Reason(code=ReasonCode.STRAGGLER, numbers={**job.straggler, **numbers})
