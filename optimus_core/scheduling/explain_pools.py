"""What people are told of pools: what each holds, borrows and lacks, and why it matters to a job."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimus_core.reasons import Number
from optimus_core.resources import Resources
from optimus_core.scheduling.admission import Standing
from optimus_core.scheduling.quotas import Quotas, Whole
from optimus_core.scheduling.rows import ENDLESS, Problem, Row
from optimus_core.scheduling.types import PoolUse


class PoolTeller:
    """Tells of the pools of one standing; of nothing where a cluster declares none."""

    def __init__(self, problem: Problem, standing: Standing) -> None:
        self._problem, self._standing, self._quotas = problem, standing, Quotas(problem)
        self._use = self._quotas.use(standing.size)
        self._before = self._quotas.use(lambda row: row.present)

    def uses(self) -> list[PoolUse]:
        """Return what each pool has, and how many of its jobs have something or wait."""
        return [self._told(name) for name in self._quotas.names] if self._quotas else []

    def _told(self, name: str) -> PoolUse:
        jobs = [row for row in self._problem.rows if row.job.pool == name]
        waiting = {row.name for row in self._standing.waiting}
        own, most, held = self._own(name), self._most(name), self._use[name]
        return PoolUse(
            name=name,
            guaranteed=self._amounts(own, own > 0),
            ceiling=self._amounts(most, most < ENDLESS),
            held=self._amounts(held, held > 0),
            borrowed=self._amounts(held - own, held > own),
            lacking=self._amounts(self._lacking(name), self._lacking(name) > 0),
            jobs=sum(bool(self._standing.seats[row.name]) for row in jobs),
            waiting=sum(row.name in waiting for row in jobs),
        )

    def numbers(self, row: Row) -> dict[str, Number]:
        """Return the numbers of a job's pool, of the resources that the job asks for and that the pool limits."""
        name = row.job.pool
        if name not in self._quotas.ceiling:
            return {}
        own, most, asked = self._own(name), self._most(name), np.array(row.demand(row.ceiling)) > 0
        limited = asked & ((own > 0) | (most < ENDLESS))
        if not limited.any():
            return {}
        numbers: dict[str, Number] = {"pool": name, "pool_held": self._text(self._use[name], limited)}
        numbers["pool_before"] = self._text(self._before[name], limited)
        if (own * limited).any():
            numbers["pool_guaranteed"] = self._text(own, limited & (own > 0))
        if (limited & (most < ENDLESS)).any():
            numbers["pool_ceiling"] = self._text(most, limited & (most < ENDLESS))
        return numbers

    def is_at_ceiling(self, row: Row, more: tuple[int, ...]) -> bool:
        """Say whether the pool of a job may not have ``more`` on top of what it has."""
        return not self._quotas.is_below_ceiling(self._use, row, np.array(more, dtype=np.int64))

    def kept(self, row: Row) -> dict[str, Number]:
        """Return what other pools lack of their guarantees, of the resources that the job asks for."""
        asked = np.array(row.demand(row.floor)) > 0
        lack = {n: self._lacking(n) * asked for n in self._quotas.names if n != row.job.pool} if self._quotas else {}
        lack = {name: amounts for name, amounts in lack.items() if amounts.any()}
        if not lack:
            return {}
        return {"kept": self._text(sum(lack.values(), self._quotas.none), asked), "kept_for": ", ".join(lack)}

    def _own(self, name: str) -> Whole:
        return self._quotas.guaranteed.get(name, self._quotas.none)

    def _most(self, name: str) -> Whole:
        return self._quotas.ceiling.get(name, self._quotas.none + ENDLESS)

    def _lacking(self, name: str) -> Whole:
        lacking: Whole = np.maximum(self._quotas.entitled[name] - self._use[name], 0)
        return lacking

    def _amounts(self, amounts: Whole, shown: NDArray[np.bool_]) -> dict[str, int]:
        named = zip(self._problem.resources, amounts.tolist(), shown.tolist(), strict=True)
        return {resource: amount for resource, amount, is_shown in named if is_shown}

    def _text(self, amounts: Whole, shown: NDArray[np.bool_]) -> str:
        return Resources(self._amounts(amounts, shown)).describe()
