"""Minimums first: who gets in, in order of priority and arrival, and who has to give room back for that.

Running jobs are never paused: each keeps at least its minimum. One that has more is squeezed to its minimum, on nodes
it already has, when a job that waits can't get its own minimum otherwise. A job that does not fit lets later ones pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from optimus_core.scheduling.allocation import share
from optimus_core.scheduling.placement import Room, Whole, shrunk_seats, usage
from optimus_core.scheduling.quotas import Gate, Quotas
from optimus_core.scheduling.rows import Problem, Row, Seats, covers, smaller_of
from optimus_core.scheduling.speeds import Pair


@dataclass(slots=True)
class Standing:
    """Where every job sits, and what that leaves free. Rows that wait have no seats."""

    room: Room
    seats: dict[str, Seats] = field(default_factory=dict)
    waiting: list[Row] = field(default_factory=list)
    """Who wants its minimum and can't have it, in order."""
    forced: set[str] = field(default_factory=set)
    """Who was changed since it had to be: squeezed, pinned, or outside its bounds."""

    def copy(self) -> Standing:
        """Return an independent copy."""
        return Standing(self.room.copy(), dict(self.seats), list(self.waiting), set(self.forced))

    def size(self, row: Row) -> Pair:
        """Return the size that a job has."""
        seats = self.seats[row.name].values()
        return (sum(part[0] for part in seats), sum(part[1] for part in seats))

    def moved(self, row: Row) -> bool:
        """Say whether a job has another size or other nodes than at present."""
        return self.seats[row.name] != row.seats

    def put(self, row: Row, seats: Seats) -> None:
        """Give a job these seats instead of those it has."""
        self.room.give(row, self.seats.get(row.name, {}))
        self.room.take(row, seats)
        self.seats[row.name] = seats


def admit(problem: Problem) -> Standing:
    """Return the standing in which all have at least their minimum who can have it, and nobody more than now."""
    room = Room.of(problem)
    standing = Standing(room)
    for row in problem.rows:
        standing.put(row, row.seats)
    for row in problem.rows:
        _clip(standing, row)
    _seat_all(problem, standing)
    return standing


def _seat_all(problem: Problem, standing: Standing) -> None:
    """Give minimums: within the guarantees of pools first, then those that have to borrow."""
    quotas = Quotas(problem)
    gate, squeezable = Gate(quotas, problem.rows, standing.size), _Squeezable(problem, standing, quotas)
    borrowing = []
    for row in sorted((row for row in problem.rows if _wants(standing, row)), key=lambda row: row.turn):
        if not gate.is_guaranteed(row):
            borrowing.append(row)
        elif _seat(standing, squeezable, row):
            gate.enter(row)
    for row in borrowing:
        if not gate.admits(row):
            standing.waiting.append(row)
        elif _seat(standing, squeezable, row):
            gate.enter(row)


def _clip(standing: Standing, row: Row) -> None:
    """Take from a running job what it may no longer have."""
    if row.present == (0, 0):
        return
    allowed = smaller_of(row.present, row.ceiling)
    if allowed in row.barred and allowed != row.present:
        allowed = row.floor
    if allowed != row.present and covers(allowed, row.floor) and covers(row.present, allowed):
        standing.put(row, shrunk_seats(row.seats, allowed) if allowed != (0, 0) else {})
        standing.forced.add(row.name)


def _wants(standing: Standing, row: Row) -> bool:
    return not row.deferred and not covers(standing.size(row), row.floor)


def _seat(standing: Standing, squeezable: _Squeezable, row: Row) -> bool:
    own, before = standing.seats[row.name], standing.size(row)
    standing.put(row, {})
    seats = standing.room.place(row, row.floor) or squeezable.make_room(row)
    if seats is not None:
        standing.put(row, seats)
        standing.forced.add(row.name)
        squeezable.note(row, before)
        return True
    standing.put(row, own)
    standing.waiting.append(row)
    return False


class _Squeezable:
    """What running jobs have above their minimum, by node."""

    def __init__(self, problem: Problem, standing: Standing, quotas: Quotas) -> None:
        self._standing, self._capacity, self._quotas = standing, problem.capacity, quotas
        self._surplus: Whole = np.zeros_like(standing.room.free)
        self._on: dict[str, list[Row]] = {}
        self._kept: dict[str, Seats] = {}
        self._rows: dict[str, Row] = {}
        self._use = quotas.use(standing.size)
        for row in problem.rows:
            size = standing.size(row)
            if not row.held and row.present != (0, 0) and size != row.floor and covers(size, row.floor):
                self._add(row)

    def _add(self, row: Row) -> None:
        seats = self._standing.seats[row.name]
        self._rows[row.name], self._kept[row.name] = row, shrunk_seats(seats, row.floor)
        self._count(self._surplus, row, 1)
        for node in seats:
            self._on.setdefault(node, []).append(row)

    def _count(self, surplus: Whole, row: Row, sign: int) -> None:
        room, kept = self._standing.room, usage(row, self._kept[row.name])
        for node, amounts in usage(row, self._standing.seats[row.name]).items():
            rest = np.array(kept.get(node, (0,) * len(amounts)), dtype=np.int64)
            if node in room.index:
                surplus[room.index[node]] += sign * (np.array(amounts, dtype=np.int64) - rest)

    def make_room(self, row: Row) -> Seats | None:
        """Squeeze running jobs until the minimum of ``row`` fits; None, and nothing changed, if it can't."""
        if not self._kept:
            return None
        standing = self._standing
        able = self._able(row)
        trial = standing.room.copy()
        trial.free += self._surplus if not self._quotas else self._surplus_of(able)
        seats = trial.place(row, row.floor)
        if seats is None:
            return None
        for node in sorted(seats):
            while not standing.room.holds(row, _alone(row, seats, node)) and (victim := self._cheapest(node, able)):
                self._squeeze(victim)
        return seats

    def note(self, row: Row, before: Pair) -> None:
        """Count a row that had ``before`` by what it has now."""
        self._quotas.change(self._use, row, before, self._standing.size(row))

    def _able(self, row: Row) -> dict[str, bool]:
        """Return who may be squeezed for ``row``: of pools that borrow, and of its own; True if his borrows nothing."""
        if not self._quotas:
            return dict.fromkeys(self._kept, False)
        borrowing = self._quotas.borrowers(self._use)
        pools = {name: self._rows[name].job.pool for name in self._kept}
        return {n: pool not in borrowing for n, pool in pools.items() if pool in {*borrowing, row.job.pool}}

    def _surplus_of(self, names: Iterable[str]) -> Whole:
        surplus: Whole = np.zeros_like(self._surplus)
        for name in names:
            self._count(surplus, self._rows[name], 1)
        return surplus

    def _cheapest(self, node: str, able: Mapping[str, bool]) -> Row | None:
        """Return who is to be squeezed next: who borrows first."""
        rows = [row for row in self._on.get(node, []) if row.name in self._kept and row.name in able]
        return min(rows, key=lambda row: (able[row.name], self._loss(row), row.name), default=None)

    def _loss(self, row: Row) -> float:
        size = self._standing.size(row)
        lost = row.cost(row.floor, True) - row.cost(size, False)
        freed = [now - then for now, then in zip(row.demand(size), row.demand(row.floor), strict=True)]
        return lost / share(tuple(freed), self._capacity) if math.isfinite(lost) else math.inf

    def _squeeze(self, row: Row) -> None:
        self._count(self._surplus, row, -1)
        before = self._standing.size(row)
        self._standing.put(row, self._kept.pop(row.name))
        self.note(row, before)
        self._standing.forced.add(row.name)


def _alone(row: Row, seats: Seats, node: str) -> Seats:
    """Return the seats on one node; with those of the first, whose scheduler process they count by."""
    first = min(seats)
    return {node: seats[node]} if node == first else {first: (0, 0), node: seats[node]}
