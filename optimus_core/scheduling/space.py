"""Room while sizes are chosen: of the cluster beside what is kept for pools, and of each pool below its ceiling.

With U what a pool has, D what is kept for it and C the cluster, all sizes together keep sum of max(U, D) <= C for each
resource: what a pool takes within D costs the others nothing, what it takes beyond is borrowed from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
EPSILON = 1e-9


@dataclass
class Limits:
    """A pool's room; amounts are shares of the cluster by resource."""

    guaranteed: Floats
    ceiling: Floats
    used: Floats
    kept: Floats
    """What of the guarantee is kept for it now, used or not; at least what it uses once others may not borrow it."""


class Space:
    """What is left for jobs of any pool, counted down as sizes are chosen."""

    def __init__(self, pools: Mapping[str, tuple[Floats, Floats]], count: int) -> None:
        """``pools``: name -> (guaranteed, ceiling); ``count``: number of resources, of each of which there is 1."""
        self.left: Floats = np.ones(count)
        none = np.zeros(count)
        self.pools = {
            name: Limits(guaranteed, ceiling, none.copy(), none.copy())
            for name, (guaranteed, ceiling) in sorted(pools.items())
        }

    def copy(self) -> Space:
        """Return an independent copy."""
        twin = Space({}, len(self.left))
        twin.left, twin.pools = self.left, {name: replace(limits) for name, limits in self.pools.items()}
        return twin

    def fits(self, pool: str, more: Floats) -> NDArray[np.bool_]:
        """Say of each row of ``more`` whether a job of ``pool`` may have it on top."""
        limits = self.pools.get(pool)
        if limits is None:
            return np.asarray((more <= self.left + EPSILON).all(axis=-1))
        below = limits.used + more <= limits.ceiling + EPSILON
        room = (_borrowed(limits, more) <= self.left + EPSILON) & (below | (more <= 0))
        return np.asarray(room.all(axis=-1))

    def take(self, pool: str, more: Floats) -> None:
        """Count ``more`` as used by a job of ``pool``."""
        limits = self.pools.get(pool)
        if limits is None:
            self.left = self.left - more
            return
        self.left = self.left - _borrowed(limits, more)
        limits.used = limits.used + more

    def is_guaranteed(self, pool: str, more: Floats) -> bool:
        """Say whether ``more`` lies within what ``pool`` is guaranteed."""
        limits = self.pools.get(pool)
        return limits is not None and bool(((limits.used + more <= limits.guaranteed + EPSILON) | (more <= 0)).all())

    def keep(self, useful: Mapping[str, Floats]) -> None:
        """Keep for each pool what it is guaranteed and can use beyond what it has; scaled if that is more than is left.

        Args:
            useful: pool -> what its jobs would use beyond what they have if they had the cluster for themselves.
        """
        wanted = {
            name: np.clip(limits.guaranteed - limits.used, 0.0, useful.get(name, 0.0))
            for name, limits in self.pools.items()
        }
        total = sum(wanted.values(), np.zeros(len(self.left)))
        part = np.minimum(1.0, np.maximum(self.left, 0.0) / np.maximum(total, EPSILON))
        for name, limits in self.pools.items():
            limits.kept = limits.used + wanted[name] * part
        self.left = self.left - total * part

    def release(self) -> bool:
        """Let others borrow what is kept and not used; say whether there was any."""
        idle = [np.maximum(limits.kept - limits.used, 0.0) for limits in self.pools.values()]
        for limits, unused in zip(self.pools.values(), idle, strict=True):
            limits.kept, self.left = limits.used, self.left + unused
        return any(bool((unused > EPSILON).any()) for unused in idle)


def _borrowed(limits: Limits, more: Floats) -> Floats:
    """Return what ``more`` takes from others."""
    return np.asarray(np.maximum(limits.used + more, limits.kept) - np.maximum(limits.used, limits.kept))


def useful(uses: Iterable[tuple[str, Floats]]) -> dict[str, Floats]:
    """Return pool -> the sum of what its jobs would use."""
    total: dict[str, Floats] = {}
    for pool, amounts in uses:
        total[pool] = total.get(pool, 0.0) + amounts
    return total
