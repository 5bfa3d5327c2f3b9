"""Loss points made ready for a fit: in order, thinned, without outliers, and at most 1 (section 2 of the paper)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from optimus_core.models.arrays import Floats

_REACH = 3
"""Neighbours on each side that a point is compared with."""
_STRAY = 6.0
"""A point is an outlier if it is further from its neighbours' median than this many typical distances."""
_TYPICAL = 1.4826
"""The median distance times this is one standard deviation of Gaussian noise."""
_ROUNDING = 1e-9
"""Distances under this part of the largest loss are no outliers, however smooth the rest is."""


class Series(NamedTuple):
    """Prepared points, oldest first."""

    steps: Floats
    losses: Floats
    """Divided by ``scale``: at most 1."""
    weights: Floats
    level: Floats
    """The median of each loss and its neighbours, divided by ``scale``."""
    scale: float
    """The largest loss, outliers apart; 0 if there are no points or all are 0."""


def prepare(steps: Floats, losses: Floats, weights: Floats, max_points: int) -> Series:
    """Sort, thin to about ``max_points``, clean and normalise. Points of weight 0 are left out."""
    steps, losses, weights = _thin(*_in_order(steps, losses, weights), max_points)
    level = _level(losses)
    kept = ~_outliers(losses, level)
    steps, losses, weights, level = steps[kept], losses[kept], weights[kept], level[kept]
    scale = float(losses.max(initial=0.0))
    return Series(steps, losses / (scale or 1.0), weights, level / (scale or 1.0), scale)


def _in_order(steps: Floats, losses: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the points by step, then by loss: their order as given never matters."""
    if not weights.all():
        used = weights > 0
        steps, losses, weights = steps[used], losses[used], weights[used]
    if (np.diff(steps) > 0).all():
        return steps, losses, weights
    order = np.lexsort((weights, losses, steps))
    return steps[order], losses[order], weights[order]


def _thin(steps: Floats, losses: Floats, weights: Floats, max_points: int) -> tuple[Floats, Floats, Floats]:
    """Replace runs of equally many neighbours by their medians; a shorter run comes first, so that the newest count.

    The median of a falling curve is the curve at the median step, so steep beginnings are not bent.
    """
    size = -(-steps.size // max_points)
    if size <= 1:
        return steps, losses, weights
    head = steps.size % size
    return (
        _by_run(steps, size, head, median=True),
        _by_run(losses, size, head, median=True),
        _by_run(weights, size, head, median=False),
    )


def _by_run(values: Floats, size: int, head: int, *, median: bool) -> Floats:
    runs = values[head:].reshape(-1, size)
    rest: Floats = np.median(runs, axis=1) if median else runs.sum(axis=1)
    if not head:
        return rest
    first = np.median(values[:head]) if median else values[:head].sum()
    return np.concatenate([[first], rest])


def _level(losses: Floats) -> Floats:
    """Return the median of each loss and its neighbours; the loss itself where there are fewer than eight."""
    if losses.size <= 2 * _REACH + 1:
        return losses
    around = np.pad(losses, _REACH, mode="reflect", reflect_type="odd")
    middle: Floats = np.median(sliding_window_view(around, 2 * _REACH + 1), axis=1)
    return middle


def _outliers(losses: Floats, level: Floats) -> NDArray[np.bool_]:
    """Say of each point whether it strays from its neighbours."""
    if not losses.size:
        return np.zeros(0, dtype=np.bool_)
    distance = np.abs(losses - level)
    limit = _STRAY * _TYPICAL * np.median(distance) + _ROUNDING * losses.max()
    found: NDArray[np.bool_] = distance > limit
    return found
