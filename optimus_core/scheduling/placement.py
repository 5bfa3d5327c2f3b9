"""Which nodes: the fewest that hold a job.

Source: Peng et al. (EuroSys 2018), section 5: nodes by available capacity, largest first; the first k that hold an
even split of workers and servers. Three deviations keep large holes for others: a job that fits on one node whole goes
to the fullest that holds it; one without servers, which gains nothing from an even split, fills the largest nodes and
puts what is left over on the fullest node that holds it; and replicas that need no device keep off nodes that have one
which others lack, as long as there is room elsewhere. Where no such split fits, the largest nodes are filled one after
another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from optimus_core.scheduling.rows import Problem, Row, Seats, Vector
from optimus_core.scheduling.speeds import Pair

Whole = NDArray[np.int64]


class Room:
    """What is free on each ready node; amounts on nodes that it doesn't know are not counted."""

    def __init__(
        self,
        names: Sequence[str],
        offers: Sequence[Sequence[int]],
        columns: int,
        special: Sequence[bool] = (),
    ) -> None:
        self.names = list(names)
        self.index = {name: position for position, name in enumerate(self.names)}
        # Column by column in memory: nearly all that is asked is one resource on all nodes.
        self.free: Whole = np.asfortranarray(np.array(offers, dtype=np.int64).reshape(len(self.names), columns))
        self.special = np.array(special, dtype=np.bool_) if any(special) and not all(special) else None
        """Nodes for replicas with devices, if there are others."""

    @classmethod
    def of(cls, problem: Problem) -> Room:
        """Return what is free before any job of ours sits anywhere."""
        names = [node.name for node in problem.nodes]
        return cls(names, problem.offers, len(problem.resources), problem.special)

    def copy(self) -> Room:
        """Return an independent copy."""
        twin = Room.__new__(Room)
        twin.names, twin.index, twin.free = self.names, self.index, self.free.copy(order="K")
        twin.special = self.special
        return twin

    def without(self, names: Collection[str]) -> Room:
        """Return an independent copy of the room on all nodes but these."""
        kept = [position for position, name in enumerate(self.names) if name not in names]
        special = self.special[kept].tolist() if self.special is not None else ()
        return Room([self.names[position] for position in kept], self.free[kept].tolist(), self.free.shape[1], special)

    def take(self, row: Row, seats: Seats) -> None:
        """Count ``seats`` as used."""
        self._add(row, seats, -1)

    def give(self, row: Row, seats: Seats) -> None:
        """Count ``seats`` as free again."""
        self._add(row, seats, 1)

    def _add(self, row: Row, seats: Seats, sign: int) -> None:
        for node, amounts in usage(row, seats).items():
            if node in self.index:
                self.free[self.index[node]] += sign * np.array(amounts, dtype=np.int64)

    def holds(self, row: Row, seats: Seats) -> bool:
        """Say whether ``seats`` fit in what is free, on nodes that are all known."""
        return all(
            node in self.index and bool((self.free[self.index[node]] >= _asked(amounts)).all())
            for node, amounts in usage(row, seats).items()
        )

    def total(self) -> list[int]:
        """Return what is free in all."""
        return [int(amount) for amount in self.free.clip(min=0).sum(axis=0)]

    def place(self, row: Row, size: Pair) -> Seats | None:
        """Return where ``size`` of a job goes, or None if it does not fit whole.

        On nodes where its workers were slow a job gets its minimum if need be, and no more.
        """
        if not row.job.avoid:
            return self._place(row, size)
        seats = self.without(row.job.avoid)._place(row, size)
        return self._place(row, size) if seats is None and size == row.floor else seats

    def _place(self, row: Row, size: Pair) -> Seats | None:
        if size == (0, 0) or not self.names:
            return {} if size == (0, 0) else None
        apart = self._off_devices(row, size) if self.special is not None else None
        return self._anywhere(row, size) if apart is None else apart

    def _off_devices(self, row: Row, size: Pair) -> Seats | None:
        """Return seats that leave nodes with devices to those who need them; None if there is no telling, or no room.

        What does not fit elsewhere goes on the nodes with devices, and no more than that.
        """
        servers, workers = (plain or not count for plain, count in zip(row.plain, size, strict=True))
        if servers and workers:
            alone = self._elsewhere()._anywhere(row, size)
            return self._filled(row, size, spare=True) if alone is None and not row.job.colocate else alone
        return self._apart(row, size) if servers and size[0] and not row.job.colocate else None

    def _apart(self, row: Row, size: Pair) -> Seats | None:
        """Return workers beside their devices, and servers elsewhere."""
        workers = self._anywhere(row, (0, size[1]))
        if workers is None:
            return None
        rest = self.copy()
        rest.take(row, workers)
        size = (size[0], 0)
        servers = rest._elsewhere()._anywhere(row, size) or rest._filled(row, size, spare=True)
        if servers is None:
            return None
        nodes = sorted({*workers, *servers})
        seats = {node: (servers.get(node, (0, 0))[0], workers.get(node, (0, 0))[1]) for node in nodes}
        return seats if self.holds(row, seats) else None

    def _elsewhere(self) -> Room:
        """Return the room without that of nodes with devices."""
        rest = self.copy()
        rest.free[self.special] = 0
        return rest

    def _anywhere(self, row: Row, size: Pair) -> Seats | None:
        if row.job.colocate:
            return self._on_one(row, size)
        several = self._evenly if size[0] else self._packed
        return self._on_one(row, size) or several(row, size) or self._filled(row, size)

    def _on_one(self, row: Row, size: Pair) -> Seats | None:
        able = np.flatnonzero(_hold(self.free, row.demand(size)))
        if not len(able):
            return None
        spare = capacities(self.free[able], row.worker if size[1] else row.server)
        return {self.names[int(able[int(spare.argmin())])]: size}

    def _packed(self, row: Row, size: Pair) -> Seats | None:
        """Fill the largest nodes, and put what is left over on the fullest that holds it."""
        holds = capacities(self.free, row.worker)
        counts: dict[int, int] = {}
        left = size[1]
        for node in _first_by(holds, left).tolist():
            if left <= holds[node]:
                able = np.flatnonzero(holds >= left)
                able = able[~np.isin(able, list(counts))]
                node = int(able[holds[able].argmin()])
            counts[node] = min(left, int(holds[node]))
            left -= counts[node]
            if not left:
                break
        seats = {self.names[node]: (0, count) for node, count in counts.items()}
        return seats if not left and self.holds(row, seats) else None

    def _evenly(self, row: Row, size: Pair) -> Seats | None:
        order = self._largest(row.worker if size[1] else row.server, sum(size))
        for count in range(2, len(order) + 1):
            chosen, split = order[:count], even_split(size, count)
            if self._amounts_fit(row, chosen, *split) and self.holds(row, seats := self._seats(chosen, *split)):
                return seats
        return None

    def _amounts_fit(self, row: Row, chosen: Whole, servers: Whole, workers: Whole) -> bool:
        asked = servers[:, None] * np.array(row.server) + workers[:, None] * np.array(row.worker)
        return bool((asked <= self.free[chosen]).all())

    def _filled(self, row: Row, size: Pair, *, spare: bool = False) -> Seats | None:
        """Fill the largest nodes; keep room for the scheduler process nowhere, on the first node, or everywhere.

        With ``spare`` those with devices come last.
        """
        kept = np.zeros_like(self.free)
        seats = self._fill_beside(row, size, kept, spare)
        if seats is None or self.holds(row, seats):
            return seats
        kept[self.index[min(seats)]] = row.extra
        seats = self._fill_beside(row, size, kept, spare)
        if seats is not None and self.holds(row, seats):
            return seats
        kept[:] = row.extra
        return self._fill_beside(row, size, kept, spare)

    def _fill_beside(self, row: Row, size: Pair, kept: Whole, spare: bool) -> Seats | None:
        free = self.free - kept
        first = np.zeros(len(self.names), dtype=np.int64)
        if spare and self.special is not None:
            first[~self.special] = 2
        workers = _fill(free, row.worker, size[1], first)
        if workers is None:
            return None
        free = free - workers[:, None] * np.array(row.worker)
        servers = _fill(free, row.server, size[0], first + (workers > 0))
        if servers is None:
            return None
        used = np.flatnonzero(workers + servers)
        return self._seats(used, servers[used], workers[used])

    def _seats(self, chosen: Whole, servers: Whole, workers: Whole) -> Seats:
        return {self.names[int(node)]: (int(s), int(w)) for node, s, w in zip(chosen, servers, workers, strict=True)}

    def _largest(self, demand: Vector, count: int) -> Whole:
        return _first_by(capacities(self.free, demand), count)


def usage(row: Row, seats: Seats) -> dict[str, Vector]:
    """Return node -> what ``seats`` ask for there; the scheduler process is on the first node by name."""
    first = min(seats, default=None)
    none = (0,) * len(row.extra)
    return {
        node: tuple(
            servers * s + workers * w + e
            for s, w, e in zip(row.server, row.worker, row.extra if node == first else none, strict=True)
        )
        for node, (servers, workers) in seats.items()
    }


def capacities(free: Whole, demand: Vector) -> Whole:
    """Return how many replicas of ``demand`` each node holds (many if they ask for nothing)."""
    columns = [column for column, amount in enumerate(demand) if amount]
    if not columns:
        return np.full(len(free), 10**6, dtype=np.int64)
    counts: Whole = free[:, columns[0]] // demand[columns[0]]
    for column in columns[1:]:
        counts = np.minimum(counts, free[:, column] // demand[column])
    return np.maximum(counts, 0)


def _hold(free: Whole, demand: Vector) -> NDArray[np.bool_]:
    able = np.ones(len(free), dtype=np.bool_)
    for column, amount in enumerate(demand):
        if amount:
            able &= free[:, column] >= amount
    return able


def even_split(size: Pair, count: int) -> tuple[Whole, Whole]:
    """Return servers and workers of each of ``count`` nodes: remainders of one kind first, of the other last."""
    positions = np.arange(count)
    servers: Whole = size[0] // count + (count - 1 - positions < size[0] % count)
    workers: Whole = size[1] // count + (positions < size[1] % count)
    return servers, workers


def shrunk_seats(seats: Seats, size: Pair) -> Seats:
    """Return ``size`` of the seats that a job has, on the fewest of its nodes, its first one included."""
    first = min(seats)
    kept: Seats = {}
    servers, workers = size
    for node in sorted(seats, key=lambda node: (node != first, -sum(seats[node]), node)):
        part = (min(servers, seats[node][0]), min(workers, seats[node][1]))
        if part != (0, 0):
            kept[node] = part
        servers, workers = servers - part[0], workers - part[1]
    return kept


def _fill(free: Whole, demand: Vector, wanted: int, first: Whole) -> Whole | None:
    """Return how many go on each node: those of a higher ``first`` come before the others, then the largest."""
    counts = np.zeros(len(free), dtype=np.int64)
    if wanted == 0:
        return counts
    holds = capacities(free, demand)
    if int(holds.clip(max=wanted).sum()) < wanted:
        return None
    for node in _first_by((holds + first * 10**7) * (holds > 0), wanted):
        counts[node] = min(int(holds[node]), wanted)
        wanted -= int(counts[node])
    return counts


def _first_by(values: Whole, count: int) -> Whole:
    able = np.flatnonzero(values > 0)
    key = -values[able] * len(values) + able
    if len(able) > count:
        nearest = np.argpartition(key, count - 1)[:count]
        able, key = able[nearest], key[nearest]
    return able[np.argsort(key)]


def _asked(amounts: Vector) -> Whole:
    """Return amounts that nothing negative stands in the way of if they are zero."""
    return np.array([amount or np.iinfo(np.int64).min for amount in amounts], dtype=np.int64)
