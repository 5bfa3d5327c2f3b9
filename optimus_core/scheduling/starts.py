"""When jobs that wait for room are predicted to start: as the running ones end, in the order of the queue.

A prediction, no promise: nobody arrives, who runs keeps its size, and who starts holds its minimum from then on. No
pool is predicted to have more than its ceiling, nor to borrow what the jobs of another can use of their guarantee.
"""

from __future__ import annotations

import numpy as np

from optimus_core.reasons import ReasonCode
from optimus_core.scheduling.placement import Room
from optimus_core.scheduling.quotas import Quotas
from optimus_core.scheduling.rows import Problem, Row, Seats, pair, prepare
from optimus_core.scheduling.types import Decision, JobView, Plan, Snapshot

_WAITS = (ReasonCode.WAITS_FOR_ROOM, ReasonCode.WAITS_FOR_POOL)
_MOST_ENDS = 50
_MOST_WAITING = 10
"""Ends that are looked at, and jobs of the queue's head that are told: what lies farther is too unsure."""


def with_starts(snapshot: Snapshot, made: Plan) -> Plan:
    """Return ``made`` with ``start_seconds`` in the reasons of jobs that wait for room or pool, if it is known."""
    waiting = [d for d in made.decisions if d.waits_for is not None and d.waits_for.code in _WAITS]
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
    future = _Future(problem, made)
    ends = sorted((d.predicted_seconds, d.job) for d in made.decisions if d.size and d.predicted_seconds is not None)
    left, starts = [rows[name] for name in queue[:_MOST_WAITING]], {}
    for seconds, ended in ends[:_MOST_ENDS]:
        future.end(rows[ended])
        for row in [row for row in left if future.starts(row)]:
            starts[row.name] = seconds
            left.remove(row)
    return starts


def _unpriced(job: JobView) -> None:
    """Leave speeds out: none is asked for."""


class _Future:
    """What is free, and what each pool has, while jobs end and start after a plan."""

    def __init__(self, problem: Problem, made: Plan) -> None:
        self._room = Room([node.name for node in problem.nodes], problem.offers, len(problem.resources))
        self._quotas = Quotas(problem)
        self._seats: dict[str, Seats] = {d.job: {n: pair(s) for n, s in d.placement.items()} for d in made.decisions}
        self._sizes = {d.job: pair(d.size) for d in made.decisions}
        for row in problem.rows:
            self._room.take(row, self._seats[row.name])
        self._use = self._quotas.use(lambda row: self._sizes[row.name])
        self._useful = dict(self._quotas.useful) if self._quotas else {}

    def end(self, row: Row) -> None:
        """Give back what a job holds."""
        self._room.give(row, self._seats[row.name])
        self._quotas.change(self._use, row, self._sizes[row.name], (0, 0))
        self._useful.pop(row.name, None)

    def starts(self, row: Row) -> bool:
        """Start a job at its minimum, if there is room and its pool may have it; say whether."""
        seats = self._room.place(row, row.floor) if self._may_have_its_minimum(row) else None
        if seats is None:
            return False
        self._room.take(row, seats)
        self._quotas.change(self._use, row, (0, 0), row.floor)
        return True

    def _may_have_its_minimum(self, row: Row) -> bool:
        """Say whether the pool of a job lets it in: within the guarantee, or borrowing what nobody else can use."""
        if not self._quotas:
            return True
        more = np.array(row.demand(row.floor), dtype=np.int64)
        if self._quotas.is_guaranteed(self._use, row):
            return self._quotas.is_below_ceiling(self._use, row, more)
        return self._quotas.may_borrow(self._use, row, more, self._quotas.entitled_by(self._useful))
