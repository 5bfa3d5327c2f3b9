"""Points of a curve made ready for a fit: usable ones only, in order, few, and at most 1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optimus_core.models.arrays import Floats

_BLOCKS = 16
"""Parts of a bin whose means give its median: as quiet as a mean, and one spike spoils one part only."""


class Series(NamedTuple):
    """Prepared points, oldest first."""

    steps: Floats
    values: Floats
    """Without spikes, divided by ``scale``."""
    weights: Floats
    """Mean 1."""
    scale: float
    """The largest value, spikes apart (section 3.1 of the paper divides by it too)."""
    last_step: float
    """The last step seen."""


def prepare(
    steps: npt.ArrayLike, values: npt.ArrayLike, weights: npt.ArrayLike | None = None, max_points: int = 100
) -> Series:
    """Leave out what is not finite or not positive, sort, thin to at most ``max_points`` and normalise.

    Raises:
        ValueError: the columns differ in length, or fewer than 3 distinct steps are left.
    """
    k, y, w = _usable(steps, values, weights)
    last = float(k[-1])
    if k.size > max_points:
        k, y, w = _thin(k, y, w, max_points)
    y = _without_spikes(y)
    scale = float(y.max())
    return Series(k, y / scale, w / w.mean(), scale, last)


def _usable(
    steps: npt.ArrayLike, values: npt.ArrayLike, weights: npt.ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    k, y = np.asarray(steps, dtype=float).ravel(), np.asarray(values, dtype=float).ravel()
    w = np.ones_like(y) if weights is None else np.asarray(weights, dtype=float).ravel()
    if not k.size == y.size == w.size:
        raise ValueError(f"there are {k.size} steps, {y.size} losses and {w.size} weights; give one loss for each step")
    if not (_within(y, above=0) and _within(k, least=0) and _within(w, above=0)):
        usable = np.isfinite(k) & np.isfinite(y) & np.isfinite(w) & (y > 0) & (k >= 0) & (w > 0)
        k, y, w = k[usable], y[usable], w[usable]
    if (np.diff(k) <= 0).any():
        order = np.lexsort((y, k))
        k, y, w = k[order], y[order], w[order]
    if k.size < 3 or np.count_nonzero(np.diff(k)) < 2:
        raise ValueError(f"a loss curve needs 3 points at different steps with positive losses; there are {k.size}")
    return k, y, w


def _within(values: Floats, *, least: float = -np.inf, above: float = -np.inf) -> bool:
    """Say whether all are finite, ``least`` at least and more than ``above``: two cheap passes over maybe millions."""
    if not values.size:
        return False
    low = float(values.min())  # not a number if one of them is none
    return low >= least and low > above and bool(np.isfinite(values.max()))


def _thin(k: Floats, y: Floats, w: Floats, most: int) -> tuple[Floats, Floats, Floats]:
    """Replace runs of neighbours by one point each: the mean step and the median of the means of its parts."""
    fine = most * _BLOCKS
    if k.size > fine:
        k, y, w = _means(k, y, w, fine)
    edges = np.linspace(0, k.size, most + 1).astype(int)
    sizes = np.diff(edges)
    width = int(sizes.max())
    columns = np.minimum(edges[:-1, None] + np.arange(width), edges[1:, None] - 1)  # a short row repeats its last
    mass = np.add.reduceat(w, edges[:-1])
    return np.add.reduceat(k * w, edges[:-1]) / mass, np.median(y[columns], axis=1), mass


def _means(k: Floats, y: Floats, w: Floats, most: int) -> tuple[Floats, Floats, Floats]:
    edges = np.linspace(0, k.size, most + 1).astype(int)[:-1]
    mass = np.add.reduceat(w, edges)
    return np.add.reduceat(k * w, edges) / mass, np.add.reduceat(y * w, edges) / mass, mass


def _without_spikes(y: Floats) -> Floats:
    """Replace a value that stands far from all its neighbours by their median."""
    if y.size < 5:
        return y
    around = np.stack([np.roll(y, shift) for shift in (-2, -1, 1, 2)])
    middle = np.median(around, axis=0)
    spread = np.median(np.abs(around - middle), axis=0) + 1e-12 * middle
    odd = np.abs(y - middle) > 8 * spread + 0.5 * middle
    odd[:2] = odd[-2:] = False
    return np.where(odd, middle, y)
