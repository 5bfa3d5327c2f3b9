"""Families of curves and their fit: many shapes at once, each with its own robust least squares, none chosen.

    power law with floor         l(k) = a * ((x + x0) / (1 + x0))^-alpha + c      the paper's curve is alpha = 1
    stretched exponential        l(k) = a * exp(-(x / tau)^beta) + c              an exponential is beta = 1

x is the step divided by the last step seen. For a given shape the rest is linear in (a, c), a and c not negative, so
one closed form solves a whole grid of shapes. Each shape is believed by how well it explains the points; what is
predicted is their mean, and their disagreement is part of the interval. A grid cannot be trapped in a local minimum,
and costs the same for every job.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optimus_core.models.arrays import Floats

_RECENT = 5.0
"""The oldest point weighs exp(-5) of the newest: where a curve goes on is told by its last part."""
_INDEPENDENT = 0.125
"""Neighbouring losses err together, and no family is true: so many independent points is one worth."""
_HUBER = 1.5
"""Errors beyond so many typical ones count linearly."""
_ROUNDS = 2
"""Reweighted solutions until the robust one stands."""
_EXACT = 1e-6
"""Errors, as a part of the largest loss, under which no shape is better than another."""
_MODEST = 0.4
"""A change of the logarithm by so much from now to three times the steps makes a shape e times less likely: shapes
that promise more than that are mostly an early steep part that was carried on."""
_LEAST = 1e-9
"""Least normalised value that a curve predicts."""
_REFINED = ((-0.5, 0.0, 0.5), (-0.5, 0.0, 0.5))
_HALVINGS, _WORTH = 10, 0.4
"""The grid is refined around its best shapes at most so often, while the likelihood gains so much."""
_NOISY = 0.01
"""With relative errors above this the grid is fine enough as it is."""
_KEPT = 0.02
"""Shapes believed less than this part of the best one's belief are dropped."""

_X0 = np.log(np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0]))
_ALPHA = np.log(np.array([0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5]))
_TAU = np.log(np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0]))
_BETA = np.log(np.array([0.3, 0.5, 0.7, 1.0]))
_POWER, _STRETCHED = 0.0, 1.0


def _grid(family: float, first: Floats, second: Floats) -> Floats:
    one, two = np.meshgrid(first, second, indexing="ij")
    return np.stack([np.full(one.size, family), one.ravel(), two.ravel()])


_GRID = np.concatenate([_grid(_POWER, _X0, _ALPHA), _grid(_STRETCHED, _TAU, _BETA)], axis=1)
"""Family and the logarithms of both parameters, one shape a column."""
_SPACING = {_POWER: (1.15, 0.5), _STRETCHED: (1.15, 0.4)}
"""Typical distance of neighbours in the grid."""


class Curves(NamedTuple):
    """Fitted curves, one a row of each array; values are normalised, steps in units of ``span``."""

    shapes: Floats
    """(family, log first, log second parameter) by curve: of shape (3, curves)."""
    a: Floats
    c: Floats
    belief: Floats
    """Sums to 1."""
    noise: float
    """Relative standard deviation of the recent points around the mean curve."""

    def at(self, x: Floats) -> Floats:
        """Return the values at ``x`` by each curve, of shape (curves, points)."""
        return np.maximum(self.a[:, None] * basis(self.shapes, x) + self.c[:, None], _LEAST)


def basis(shapes: Floats, x: Floats) -> Floats:
    """Return the falling part of each shape at ``x`` (not negative): (shapes, points), at most about 1 at x = 0."""
    power = shapes[0] == _POWER
    first, second = np.exp(shapes[1])[:, None], np.exp(shapes[2])[:, None]
    rows = np.empty((power.size, x.size))
    x0 = first[power]
    rows[power] = np.exp(-second[power] * np.log((x + x0) / x0))
    rows[~power] = np.exp(-((x / first[~power]) ** second[~power]))
    return rows


def fit_curves(x: Floats, y: Floats, weights: Floats, *, rises: bool = False) -> Curves:
    """Fit all shapes to ``(x, y)``: x at most about 1 and rising, y positive and about 1 at most.

    Args:
        x: steps divided by the last one.
        y: normalised values.
        weights: of the points; newer ones count more on top of it.
        rises: the values are those of a metric that grows towards a ceiling.
    """
    base = weights * np.exp(-_RECENT * (x[-1] - x))
    base *= x.size / base.sum()
    shapes, mass = _GRID, np.ones(_GRID.shape[1])
    a, c, cost = _solve(shapes, x, y, base, rises)
    for halving in range(_HALVINGS if cost.min() < (base @ y**2) * _NOISY**2 else 0):
        finer = _around(shapes, cost, 0.7**halving)
        fa, fc, fcost = _solve(finer, x, y, base, rises)
        gain = _INDEPENDENT * x.size * np.log(cost.min() / fcost.min())
        shapes, mass = np.concatenate([shapes, finer], axis=1), np.append(mass, np.full(fcost.size, 1 / fcost.size))
        a, c, cost = np.append(a, fa), np.append(c, fc), np.append(cost, fcost)
        if gain < _WORTH:
            break
    likely = np.log(mass) - _INDEPENDENT * x.size * np.log(cost / cost.min())
    ahead = np.log(np.maximum(a[:, None] * basis(shapes, np.array([1.0, 3.0])) + c[:, None], _LEAST))
    likely -= np.abs(ahead[:, 1] - ahead[:, 0]) / _MODEST
    belief = np.exp(likely - likely.max())
    kept = belief >= _KEPT
    belief = belief[kept] / belief[kept].sum()
    curves = Curves(shapes[:, kept], a[kept], c[kept], belief, 0.0)
    error = np.log(y) - belief @ np.log(curves.at(x))
    return curves._replace(noise=_typical(error, base))


def _around(shapes: Floats, cost: Floats, width: float) -> Floats:
    """Return the shapes half a cell of the grid away from the best one of each family."""
    found = []
    for family, (first, second) in _SPACING.items():
        mine = np.flatnonzero(shapes[0] == family)
        best = mine[np.argmax(cost[mine] <= cost[mine].min() * (1 + 1e-9))]  # the first one, whatever rounding says
        one = shapes[1, best] + width * first * np.array(_REFINED[0])
        two = shapes[2, best] + width * second * np.array(_REFINED[1])
        around = _grid(family, one, two)
        found.append(np.delete(around, around.shape[1] // 2, axis=1))
    return np.concatenate(found, axis=1)


def _solve(shapes: Floats, x: Floats, y: Floats, base: Floats, rises: bool) -> tuple[Floats, Floats, Floats]:
    """Return a, c and the robust cost of each shape: Huber's loss by reweighting, at one scale for all shapes."""
    g = basis(shapes, x)
    gg, gy = g * g, g * y
    w = np.broadcast_to(base, g.shape)
    for turn in range(_ROUNDS):
        a, c = _linear(w, g, gg, gy, y, rises)
        error = np.abs(y - c[:, None] - a[:, None] * g)
        if turn == _ROUNDS - 1:
            break
        best = int(np.argmin((base * error).sum(axis=1)))
        scale = _HUBER * (1.4826 * float(np.median(error[best])) + _EXACT)
        w = base * np.minimum(1.0, scale / np.maximum(error, 1e-300))
    capped = np.minimum(error, scale)
    cost = (base * capped * (2 * error - capped)).sum(axis=1) + x.size * _EXACT**2
    return a, c, cost


def _linear(w: Floats, g: Floats, gg: Floats, gy: Floats, y: Floats, rises: bool) -> tuple[Floats, Floats]:
    """Weighted least squares of y = a*g + c for each row; a of one sign, c not negative."""
    sw, sg, sy = w.sum(axis=1), np.einsum("ij,ij->i", w, g), w @ y
    sgg, sgy = np.einsum("ij,ij->i", w, gg), np.einsum("ij,ij->i", w, gy)
    spread = sw * sgg - sg * sg
    a = np.where(spread > 1e-12 * sw * sgg, (sw * sgy - sg * sy) / np.maximum(spread, 1e-300), 0.0)
    a = np.minimum(a, 0.0) if rises else np.maximum(a, 0.0)
    c = (sy - a * sg) / sw
    under = c < 0
    a = np.where(under, sgy / np.maximum(sgg, 1e-300), a)
    return a, np.where(under, 0.0, c)


def _typical(error: Floats, weights: Floats) -> float:
    """Return the standard deviation that the weighted median of the errors' sizes tells."""
    size = np.abs(error)
    order = np.argsort(size)
    share = np.cumsum(weights[order]) / weights.sum()
    return 1.4826 * float(size[order][np.searchsorted(share, 0.5)])
