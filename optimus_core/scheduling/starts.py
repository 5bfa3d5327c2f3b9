"""When jobs that wait for room are predicted to start: as the running ones end, in the order of the queue.

A prediction, no promise: nobody arrives, who runs keeps its size, and who starts holds its minimum from then on.
"""

from __future__ import annotations

from optimus_core.reasons import ReasonCode
from optimus_core.scheduling.placement import Room
from optimus_core.scheduling.rows import Problem, Row, Seats, pair, prepare
from optimus_core.scheduling.types import Decision, JobView, Plan, Snapshot

_MOST_ENDS = 50
_MOST_WAITING = 10
"""Ends that are looked at, and jobs of the queue's head that are told: what lies farther is too unsure."""


def with_starts(snapshot: Snapshot, made: Plan) -> Plan:
    """Return ``made`` with ``start_seconds`` in the reasons of jobs that wait for room, where that can be predicted."""
    waiting = [d for d in made.decisions if d.waits_for is not None and d.waits_for.code is ReasonCode.WAITS_FOR_ROOM]
    if not waiting:
        return made
    waiting.sort(key=lambda decision: _position(decision))
    starts = predicted_starts(snapshot, made, [decision.job for decision in waiting])
    return made.model_copy(update={"decisions": [_told(d, starts.get(d.job)) for d in made.decisions]})


def _position(decision: Decision) -> int:
    numbers = decision.waits_for.numbers if decision.waits_for is not None else {}
    return int(numbers["position"])


def _told(decision: Decision, seconds: float | None) -> Decision:
    if seconds is None or decision.waits_for is None:
        return decision
    numbers = decision.waits_for.numbers | {"start_seconds": seconds}
    told = decision.waits_for.model_copy(update={"numbers": numbers})
    return decision.model_copy(update={"waits_for": told} | ({} if decision.size else {"reason": told}))


def predicted_starts(snapshot: Snapshot, made: Plan, queue: list[str]) -> dict[str, float]:
    """Return for jobs of ``queue``, in its order, after how many seconds their minimum is predicted to have room."""
    problem = prepare(snapshot, _unpriced)
    rows = {row.name: row for row in problem.rows}
    seats = {d.job: {node: pair(size) for node, size in d.placement.items()} for d in made.decisions}
    room = _room(problem, rows, seats)
    ends = sorted((d.predicted_seconds, d.job) for d in made.decisions if d.size and d.predicted_seconds is not None)
    left, starts = [rows[name] for name in queue[:_MOST_WAITING]], {}
    for seconds, ended in ends[:_MOST_ENDS]:
        room.give(rows[ended], seats[ended])
        for row in [row for row in left if _takes(room, row)]:
            starts[row.name] = seconds
            left.remove(row)
    return starts


def _unpriced(job: JobView) -> None:
    """Leave speeds out: none is asked for."""


def _room(problem: Problem, rows: dict[str, Row], seats: dict[str, Seats]) -> Room:
    room = Room([node.name for node in problem.nodes], problem.offers, len(problem.resources))
    for name, where in seats.items():
        room.take(rows[name], where)
    return room


def _takes(room: Room, row: Row) -> bool:
    seats = room.place(row, row.floor)
    if seats is not None:
        room.take(row, seats)
    return seats is not None
