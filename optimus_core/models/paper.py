"""The paper's curve l(k) = 1 / (b0*k + b1) + b2, b0 > 0, b1 >= 0, b2 >= 0 (Optimus, EuroSys'18, section 3.1).

For a given floor b2 the rest is linear in 1/(l - b2), so each candidate floor costs one small non-negative least
squares in closed form; the best floor wins. It is what is printed of a fit; predictions come from more families.
"""

from __future__ import annotations

import numpy as np

from optimus_core.models.arrays import Floats

_FLOORS = np.concatenate([[0.0], 1.0 - np.geomspace(1.0, 0.002, 60)[1:]])
"""Candidate floors as a share of the lowest loss."""


def fit_paper(k: Floats, y: Floats, w: Floats) -> tuple[float, float, float]:
    """Return (b0, b1, b2) of losses ``y`` at steps ``k``: non-negative least squares over candidate floors."""
    span = max(float(k[-1]), 1e-300)
    floors = _FLOORS * float(y.min())
    slopes, offsets, errors = _solve(k / span, y, w, floors)
    best = int(np.argmin(errors))
    return float(slopes[best]) / span, float(offsets[best]), float(floors[best])


def curve(k: Floats, b0: float, b1: float, b2: float) -> Floats:
    """Return the losses of the curve at steps ``k``."""
    return np.asarray(1.0 / np.maximum(b0 * k + b1, 1e-12) + b2)


def _solve(k: Floats, y: Floats, w: Floats, floors: Floats) -> tuple[Floats, Floats, Floats]:
    """For each floor return slope, offset and the weighted squared error."""
    above = np.maximum(y - floors[:, None], 1e-9)
    square = above * above
    z, v = 1.0 / above, w * square * square  # an error of dz in 1/(y - b2) is one of (y - b2)^2 dz in y
    vz = v * z
    s, sk, skk, sz, skz = v.sum(axis=1), v @ k, v @ (k * k), vz.sum(axis=1), vz @ k
    determinant = np.maximum(s * skk - sk * sk, 1e-300)
    slope, offset = (s * skz - sk * sz) / determinant, (skk * sz - sk * skz) / determinant
    slope = np.where(offset < 0, skz / np.maximum(skk, 1e-300), slope)
    offset = np.where(slope < 0, sz / s, np.maximum(offset, 0.0))
    slope = np.maximum(slope, 1e-12)
    fitted = 1.0 / np.maximum(slope[:, None] * k + offset[:, None], 1e-12) + floors[:, None]
    return slope, offset, ((np.minimum(fitted, 10.0) - y) ** 2) @ w
