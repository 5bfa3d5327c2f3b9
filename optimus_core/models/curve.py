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
_STEPS = 3
"""Gauss-Newton steps for each floor."""
_LEAST = 1e-6
"""b1 at least, so that the loss at step 0 is finite."""
_NEAR = 1e-3
"""A loss is taken to be this much above the floor at least when the first solution is sought."""
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


def fit_profile(x: Floats, y: Floats, w: Floats, doubt: float) -> Profile:
    """Fit points ``(x, y)``, best if ``x`` is at most about 1, with weights ``w`` that sum to the count of points.

    Args:
        x: steps.
        y: normalised losses.
        w: weights.
        doubt: how many points are worth one independent one: above 1 where neighbours share their errors.

    Returns:
        The profile; the first curve is the best one.
    """
    low, high = 0.0, float(max(y.min(), np.median(y[-(y.size // 10 + 1) :])))
    for _ in range(_ROUNDS):
        floors = np.linspace(low, high, _FLOORS)
        b0, b1, cost = _solve(x, y, w, floors)
        variance = max(float(cost.min()) / max(x.size - 3, 1), _EXACT)
        likely = (cost - cost.min()) / (2 * variance * doubt)
        inside = np.flatnonzero(likely <= _CUT)
        before = high - low
        low, high = float(floors[max(inside[0] - 1, 0)]), float(floors[min(inside[-1] + 1, _FLOORS - 1)])
        if high - low > 0.7 * before:
            break
    belief = np.exp(-likely)
    return _best_first(x, y, w, Profile(b0, b1, floors, belief / belief.sum(), variance**0.5))


def _best_first(x: Floats, y: Floats, w: Floats, profile: Profile) -> Profile:
    """Put the curve of the mean floor first; it lies between those of the grid."""
    floor = np.array([profile.belief @ profile.b2])
    b0, b1, _ = _solve(x, y, w, floor)
    return Profile(
        np.concatenate([b0, profile.b0]),
        np.concatenate([b1, profile.b1]),
        np.concatenate([floor, profile.b2]),
        np.concatenate([[0.0], profile.belief]),
        profile.noise,
    )


def _solve(x: Floats, y: Floats, w: Floats, floors: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the best b0 and b1 for each floor, and the weighted sum of squares that they leave."""
    above = np.maximum(y - floors[:, None], _NEAR)
    b0, b1 = _two_unknowns(x, 1 / above, w * above**4)
    cost = np.full(floors.size, np.inf)
    best0, best1 = b0, b1
    for _ in range(_STEPS + 1):
        u = b0[:, None] * x + b1[:, None]
        rest = y - floors[:, None]
        now = ((rest - 1 / u) ** 2) @ w
        better = now < cost
        best0, best1, cost = np.where(better, b0, best0), np.where(better, b1, best1), np.where(better, now, cost)
        b0, b1 = _two_unknowns(x, u * (2 - rest * u), w / u**4)
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
