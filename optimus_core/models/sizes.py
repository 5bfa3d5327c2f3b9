"""Factors of the speed formulas by size, and what a job that scales as most do looks like."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from optimus_core.models.arrays import Floats


class SpeedKind(StrEnum):
    """How the replicas of a job exchange what they have learned."""

    PS_ASYNC = "ps_async"
    PS_SYNC = "ps_sync"
    ALL_REDUCE = "allreduce"


class Form(NamedTuple):
    """Which formula, and what it is told of the batch."""

    kind: SpeedKind
    batch_per: str
    batch: float

    @property
    def terms(self) -> int:
        """How many coefficients the formula has, those for more than one node apart."""
        return len(_USUAL[self.kind])

    def features(self, p: Floats, w: Floats, nodes: Floats | None = None) -> Floats:
        """Return one row a size: the factors of the t and, if ``nodes`` are given, of the two crossing terms."""
        one = np.ones_like(w)
        if self.kind is SpeedKind.PS_ASYNC:
            columns = [one, w / p, w, p]
        else:
            share = self.batch / w if self.batch_per == "job" else np.zeros_like(w)
            columns = [share, one, w] if self.kind is SpeedKind.ALL_REDUCE else [share, one, w / p, w, p]
        if nodes is not None:
            crosses = (nodes > 1).astype(float)
            columns += [crosses, crosses * np.log2(np.maximum(w + p, 1))]
        return np.stack(columns, axis=1)

    def usual(self, *, crossing: bool) -> Floats:
        """Return the coefficients of a job that scales as most do, one second a step at one worker and one server."""
        shares = np.array([*_USUAL[self.kind], *(_CROSSING if crossing else ())])
        if self.kind is not SpeedKind.PS_ASYNC:
            if self.batch_per == "job":
                shares[0] /= self.batch
            else:
                shares[1] += shares[0]  # each worker's own batch takes the same time at any size
        at_one = self.features(np.ones(1), np.ones(1))[0]
        return np.asarray(shares / float(at_one @ shares[: self.terms]))

    def computes(self, terms: int) -> Floats:
        """Return which terms are computation, 1 or 0; the others are communication and may overlap with it."""
        mask = np.zeros(terms)
        mask[: 1 if self.kind is SpeedKind.PS_ASYNC else 2] = 1.0
        return mask


_USUAL = {
    SpeedKind.PS_ASYNC: (0.8, 0.12, 0.02, 0.02),
    SpeedKind.PS_SYNC: (0.85, 0.05, 0.06, 0.015, 0.01),
    SpeedKind.ALL_REDUCE: (0.8, 0.15, 0.02),
}
"""Shares of a step's time at one worker and one server in a job that scales as most do."""
_CROSSING = (0.5, 0.1)
"""The same of what is lost as soon as replicas are on more than one node, and for each doubling of them then."""
