"""Prices of resources, those of the Lagrangian dual: at them the best sizes of all jobs just fill the cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optimus_core.scheduling.space import EPSILON as _EPSILON
from optimus_core.scheduling.space import Floats
from optimus_core.scheduling.worths import Table

_PRICE_STEPS = 60


class Flat:
    """All sizes of all jobs in one table, so that every job's best choice is found at once.

    Shares are those beyond what the job holds anyway (its first row).
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        counts = [len(table.sizes) for table in tables]
        self.starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)
        self.job = np.repeat(np.arange(len(tables)), counts)
        self.worth = np.concatenate([table.worth for table in tables])
        self.share = np.vstack([table.share - table.share[0] for table in tables])

    def dual(self, price: Floats, room: Floats) -> tuple[float, Floats]:
        """Return the Lagrangian bound at ``price`` and what all best choices use together."""
        profit = self.worth - self.share @ price
        best = np.maximum.reduceat(profit, self.starts)
        candidates = np.flatnonzero(profit >= best[self.job])
        first = candidates[np.diff(self.job[candidates], prepend=-1) > 0]
        return float(best.sum() + price @ room), self.share[first].sum(axis=0)

    def total(self, chosen: Sequence[int]) -> float:
        """Return the sum of worths."""
        return float(self.worth[self.starts + np.array(chosen)].sum())


def prices_for(flat: Flat, room: Floats, start: Floats) -> tuple[Floats, float]:
    """Return the prices with the least Lagrangian bound: where use exceeds room they rise, elsewhere they fall."""
    scale = max(float(np.maximum.reduceat(flat.worth, flat.starts).sum()), _EPSILON)
    price = start if start.any() else np.full(len(room), scale / len(room) / 2)
    best, bound, step, since = price, math.inf, 0.5, 0
    for _ in range(_PRICE_STEPS):
        value, used = flat.dual(price, room)
        if value < bound * (1 - 1e-6):
            best, bound, since = price, value, 0
        elif (since := since + 1) > 2:
            step, since, price = step / 2, 0, best
            value, used = flat.dual(price, room)
        excess = used - room
        price = np.maximum(0.0, price + step * scale * excess / max(float(np.abs(excess).sum()), 1.0) / 2)
        if step < 1e-3:
            break
    return best, bound
