"""Pools in a plan: what each is guaranteed and can use, what it may have at most, and who borrows.

What a pool is guaranteed is its own whenever its jobs can use it; while they can't, others borrow it, and who borrows
is shrunk first when they can. Nothing is lent back below the minimum of a running job that may not be paused: then the
guarantee has to wait until such a job ends.

With U what a pool has and D the part of its guarantee that its jobs can use, sum over pools of max(U, D) is at most
what the cluster has; :mod:`.space` says the same of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optimus_core.scheduling.placement import Room, usage
from optimus_core.scheduling.rows import Problem, Row, sizes_of, smaller_of
from optimus_core.scheduling.speeds import Pair

Whole = NDArray[np.int64]
SizeOf = Callable[[Row], Pair]
"""The size of a row in some standing."""


class Quotas:
    """The pools of a problem. Without any it allows everything and costs nothing."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.names = sorted({pool.name for pool in problem.pools} | {row.job.pool for row in problem.rows})
        self.guaranteed = {pool.name: np.array(pool.guaranteed, dtype=np.int64) for pool in problem.pools}
        self.ceiling = {pool.name: np.array(pool.ceiling, dtype=np.int64) for pool in problem.pools}

    def __bool__(self) -> bool:
        return bool(self._problem.pools)

    @property
    def none(self) -> Whole:
        """No amount of any resource."""
        return np.zeros(len(self._problem.resources), dtype=np.int64)

    @cached_property
    def capacity(self) -> Whole:
        """What all jobs may have together: of ready nodes, and what they hold on others."""
        whole, ready = np.array(self._problem.capacity, dtype=np.int64), {node.name for node in self._problem.nodes}
        for row in self._problem.rows:
            for node, amounts in usage(row, row.seats).items():
                whole = whole + (self.none if node in ready else np.array(amounts, dtype=np.int64))
        return whole

    @cached_property
    def entitled(self) -> dict[str, Whole]:
        """What of its guarantee each pool can use."""
        return self.entitled_by(self.useful)

    @cached_property
    def useful(self) -> dict[str, Whole]:
        """What each job can use, by its name."""
        empty = Room([node.name for node in self._problem.nodes], self._problem.offers, len(self._problem.resources))
        return {row.name: np.array(row.demand(_most_useful(row, empty)), dtype=np.int64) for row in self._problem.rows}

    def entitled_by(self, useful: Mapping[str, Whole]) -> dict[str, Whole]:
        """Return what of its guarantee each pool can use if its jobs, by name, can use that."""
        wanted = {name: self.none for name in self.names}
        for row in self._problem.rows:
            wanted[row.job.pool] = wanted[row.job.pool] + useful.get(row.name, self.none)
        return {name: np.minimum(self.guaranteed.get(name, self.none), wanted[name]) for name in self.names}

    def use(self, size: SizeOf) -> dict[str, Whole]:
        """Return what each pool has if each row has ``size``; nothing, without pools."""
        return self._sum((row, size(row)) for row in self._problem.rows) if self else {}

    def _sum(self, sizes: Iterable[tuple[Row, Pair]]) -> dict[str, Whole]:
        total = {name: self.none for name in self.names}
        for row, size in sizes:
            total[row.job.pool] = total[row.job.pool] + np.array(row.demand(size), dtype=np.int64)
        return total

    def breach(self, size: SizeOf) -> float:
        """Return by how much of the cluster pools have more than they may, or borrow what others can use."""
        if not self:
            return 0.0
        use, scale = self.use(size), np.maximum(self.capacity, 1)
        over = sum((np.maximum(use[name] - most, 0) for name, most in self.ceiling.items()), self.none)
        lent = sum((np.maximum(use[name], self.entitled[name]) for name in self.names), self.none) - self.capacity
        return float(((over + np.maximum(lent, 0)) / scale).sum())

    def change(self, use: dict[str, Whole], row: Row, before: Pair, after: Pair) -> None:
        """Bring ``use`` up to date after a row has changed its size."""
        if self:
            more = np.array(row.demand(after), dtype=np.int64) - np.array(row.demand(before), dtype=np.int64)
            use[row.job.pool] = use[row.job.pool] + more

    def is_below_ceiling(self, use: Mapping[str, Whole], row: Row, more: Whole) -> bool:
        """Say whether the pool of ``row`` may have ``more`` beside ``use``."""
        most = self.ceiling.get(row.job.pool)
        return most is None or _holds(use[row.job.pool] + more, more, most)

    def is_guaranteed(self, use: Mapping[str, Whole], row: Row) -> bool:
        """Say whether the minimum of ``row`` lies within what its pool is guaranteed, beside ``use``."""
        own = self.guaranteed.get(row.job.pool)
        more = np.array(row.demand(row.floor), dtype=np.int64)
        return own is not None and _holds(use[row.job.pool] + more, more, own)

    def may_borrow(self, use: Mapping[str, Whole], row: Row, more: Whole, entitled: Mapping[str, Whole]) -> bool:
        """Say whether a row may have ``more`` beside ``use``, and beside what other pools can use of theirs."""
        after = {**use, row.job.pool: use[row.job.pool] + more}
        total = sum((np.maximum(after[name], entitled[name]) for name in self.names), self.none)
        return self.is_below_ceiling(use, row, more) and _holds(total, more, self.capacity)

    def allows(self, use: Mapping[str, Whole], row: Row, without: Iterable[tuple[Row, Pair]]) -> bool:
        """Say whether the minimum of ``row`` is below its pool's ceiling beside ``use``, once others are paused."""
        if row.job.pool not in self.ceiling:
            return True
        less = self._sum(without)[row.job.pool]
        more = np.array(row.demand(row.floor), dtype=np.int64)
        return _holds(use[row.job.pool] + more - less, more, self.ceiling[row.job.pool])

    def room_below_ceiling(self, use: Mapping[str, Whole], row: Row, size: Pair, room: list[int]) -> list[int]:
        """Return how much of ``room`` a row of ``size`` may have in all."""
        most = self.ceiling.get(row.job.pool)
        if most is None:
            return room
        left = (most - use[row.job.pool]).tolist()
        return [min(r, m + own) for r, m, own in zip(room, left, row.demand(size), strict=True)]

    def borrowers(self, use: Mapping[str, Whole]) -> set[str]:
        """Return the pools that have more than they are guaranteed of some resource."""
        return {name for name, used in use.items() if (used > self.guaranteed.get(name, self.none)).any()}


class Gate:
    """Lets jobs in at their minimum: within guarantees first, then where that takes no other's guarantee."""

    def __init__(self, quotas: Quotas, rows: Iterable[Row], size: SizeOf) -> None:
        self._quotas = quotas
        self._least: dict[str, Whole] = {}
        self._used = {name: quotas.none for name in quotas.names}
        for row in rows if quotas else ():
            fixed = row.held or row.still
            self._count(row, size(row) if fixed else smaller_of(size(row), row.floor))

    def _count(self, row: Row, size: Pair) -> None:
        pool, before = row.job.pool, self._least.get(row.name, self._quotas.none)
        self._least[row.name] = np.array(row.demand(size), dtype=np.int64)
        self._used[pool] = self._used[pool] + self._least[row.name] - before

    def is_guaranteed(self, row: Row) -> bool:
        """Say whether the minimum of ``row`` lies within the guarantee of its pool; always, without pools."""
        if not self._quotas:
            return True
        more, own = self._more(row), self._quotas.guaranteed.get(row.job.pool, self._quotas.none)
        return _holds(self._used[row.job.pool] + more, more, own)

    def admits(self, row: Row) -> bool:
        """Say whether ``row`` may borrow its minimum: below the ceiling, and beside what others can use of theirs."""
        return self._quotas.may_borrow(self._used, row, self._more(row), self._quotas.entitled)

    def enter(self, row: Row) -> None:
        """Count the minimum of ``row``."""
        if self._quotas:
            self._count(row, row.floor)

    def _more(self, row: Row) -> Whole:
        asked: Whole = np.array(row.demand(row.floor), dtype=np.int64)
        return asked - self._least.get(row.name, self._quotas.none)


def _holds(total: Whole, more: Whole, most: Whole) -> bool:
    """Say whether ``total`` is at most ``most`` of each resource that ``more`` adds to."""
    return bool(((total <= most) | (more <= 0)).all())


def _most_useful(row: Row, empty: Room) -> Pair:
    """Return the size at which a job is fastest, the least of several; what it has if it may have no other."""
    if row.deferred and row.present == (0, 0):
        return (0, 0)
    if row.held or (row.still and row.present != (0, 0)):
        return row.present
    if row.present == (0, 0) and empty.place(row, row.floor) is None:
        return (0, 0)  # nothing is kept for a job that can never run here
    if row.seconds is None:
        return row.floor
    sizes = sizes_of(row, row.present)
    seconds = row.seconds.table(sizes)
    return min(zip(seconds, (sum(size) for size in sizes), sizes, strict=True))[2]
