"""The fit of l(k) = 1/(b0*k + b1) + b2 to prepared points, with its uncertainty (section 2 of the paper).

For a known floor b2 the curve is linear in (b0, b1) once inverted, so a non-negative least squares of two unknowns
solves it; in closed form, and for many floors at once. The floor is searched: a grid over what is possible is drawn
in around the floors that the points support. What stays in the last grid is the uncertainty too: each floor with its
best (b0, b1), weighted by how well it fits. It is the floor that decides where a curve ends.

The inversion distorts the noise, so the first solution is improved by Gauss-Newton steps on the losses themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optimus_core.models.arrays import Floats

_FLOORS = 16
"""Floors tried at once."""
_ROUNDS = 8
"""Grids at most; each is several times narrower than the one before."""
_STEPS = 2
"""Gauss-Newton steps for each floor in each grid; a finer grid goes on from the coarser one's solution."""
_LEAST = 1e-6
"""b1 at least, so that the loss at step 0 is finite."""
_NEAR = 1e-3
"""A loss is taken to be this much above the floor at least when the first solution is sought."""
_LEAST_DOUBT, _MOST_SHARED = 2.0, 0.95
"""Bounds of what the errors of neighbours tell: the newest points weigh more than their noise alone would let them."""
_EXACT = 1e-12
"""Smallest variance of the noise: points without noise stop the search here."""
_CUT = 4.5
"""Floors are kept whose log-likelihood is at most this far from the best one's: three standard deviations."""


class Profile(NamedTuple):
    """Curves that the points support: arrays of one length, of normalised losses by step."""

    b0: Floats
    b1: Floats
    b2: Floats
    belief: Floats
    """How much each is believed; sums to 1."""
    noise: float
    """Weighted standard deviation of the points around the best curve."""

    def at(self, steps: Floats) -> Floats:
        """Return the losses at ``steps`` by all curves, of shape (curves, steps)."""
        return 1 / (self.b0[:, None] * steps + self.b1[:, None]) + self.b2[:, None]


def fit_profile(x: Floats, y: Floats, w: Floats) -> Profile:
    """Fit points ``(x, y)``, best if ``x`` is at most about 1, with weights ``w`` that sum to the count of points.

    Args:
        x: steps, rising.
        y: normalised losses.
        w: weights.

    Returns:
        The profile; the first curve is the best one.
    """
    floors = np.linspace(0.0, max(y.min(), np.median(y[-(y.size // 10 + 1) :])), _FLOORS)
    b0, b1 = _first(x, y, w, floors)
    for _ in range(_ROUNDS):
        b0, b1, cost = _improve(x, y, w, floors, b0, b1)
        best = int(np.argmin(cost))
        variance = max(float(cost[best]) / max(x.size - 3, 1), _EXACT)
        rest = (y - floors[best] - 1 / (b0[best] * x + b1[best])) * np.sqrt(w)
        unlikely = (cost - cost[best]) / (2 * variance * _doubt(rest))
        finer = _narrower(floors, unlikely)
        if finer is None:
            break
        b0, b1, floors = np.interp(finer, floors, b0), np.interp(finer, floors, b1), finer
    belief = np.exp(-unlikely)
    return _best_first(x, y, w, Profile(b0, b1, floors, belief / belief.sum(), variance**0.5))


def _narrower(floors: Floats, unlikely: Floats) -> Floats | None:
    """Return a finer grid around the floors that are not ruled out; None if it would be hardly finer."""
    inside = np.flatnonzero(unlikely <= _CUT)
    low, high = floors[max(inside[0] - 1, 0)], floors[min(inside[-1] + 1, _FLOORS - 1)]
    return np.linspace(low, high, _FLOORS) if high - low < 0.7 * (floors[-1] - floors[0]) else None


def _doubt(rest: Floats) -> float:
    """Return how many points tell as much as one independent one, from how much neighbours share their errors."""
    square = float(rest @ rest)
    shared = float(rest[1:] @ rest[:-1]) / square if square > 0 else 0.0
    shared = min(max(shared, 0.0), _MOST_SHARED)
    return _LEAST_DOUBT * (1 + shared) / (1 - shared)


def _best_first(x: Floats, y: Floats, w: Floats, profile: Profile) -> Profile:
    """Put the curve of the mean floor first; it lies between those of the grid."""
    floor = np.array([profile.belief @ profile.b2])
    b0, b1 = (np.interp(floor, profile.b2, column) for column in (profile.b0, profile.b1))
    b0, b1, _ = _improve(x, y, w, floor, b0, b1)
    return Profile(
        np.concatenate([b0, profile.b0]),
        np.concatenate([b1, profile.b1]),
        np.concatenate([floor, profile.b2]),
        np.concatenate([[0.0], profile.belief]),
        profile.noise,
    )


def _first(x: Floats, y: Floats, w: Floats, floors: Floats) -> tuple[Floats, Floats]:
    """Return b0 and b1 for each floor by the inverted losses; d(1/l) = dl/l^2 weighs them."""
    above = np.maximum(y - floors[:, None], _NEAR)
    square = above * above
    return _two_unknowns(x, 1 / above, w * (square * square))


def _improve(x: Floats, y: Floats, w: Floats, floors: Floats, b0: Floats, b1: Floats) -> tuple[Floats, Floats, Floats]:
    """Return better b0 and b1 for each floor by Gauss-Newton steps, and the weighted sum of squares that they leave."""
    rest = y - floors[:, None]
    cost = np.full(floors.size, np.inf)
    best0, best1 = b0, b1
    for last in (*[False] * _STEPS, True):
        u = b0[:, None] * x + b1[:, None]
        curve = 1 / u
        away = rest - curve
        now = (away * away) @ w
        better = now < cost
        best0, best1, cost = np.where(better, b0, best0), np.where(better, b1, best1), np.where(better, now, cost)
        if not last:
            square = curve * curve
            b0, b1 = _two_unknowns(x, u * (1 - away * u), w * (square * square))
    return best0, best1, cost


def _two_unknowns(x: Floats, z: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Solve z = b0*x + b1 for each row of ``z`` and ``w``: weighted least squares, b0 >= 0, b1 >= ``_LEAST``."""
    wx, wz = w * x, w * z
    sw, sx, sz = w.sum(1), wx.sum(1), wz.sum(1)
    sxx, sxz = wx @ x, wz @ x
    spread = sw * sxx - sx * sx
    safe = np.where(spread > 1e-12 * sw * sxx, spread, np.inf)
    b0, b1 = (sw * sxz - sx * sz) / safe, (sxx * sz - sx * sxz) / safe
    flat = np.maximum(sz / sw, _LEAST)
    steep = np.maximum((sxz - _LEAST * sx) / np.maximum(sxx, 1e-300), 0.0)
    low = b1 < _LEAST
    b1 = np.where(b0 <= 0, flat, np.where(low, _LEAST, b1))
    return np.where(b0 <= 0, 0.0, np.where(low, steep, b0)), b1
