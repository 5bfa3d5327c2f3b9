"""How the loss falls: the curve of SGD, fitted online (Optimus, EuroSys'18, section 3.1).

    l(k) = 1 / (b0*k + b1) + b2          b0 > 0, b1 >= 0, b2 >= 0

For a given floor b2 the rest is linear in 1/(l - b2), so each candidate floor costs one small non-negative least
squares; the floors near the best one that explain the points nearly as well give the intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_FLOORS = np.concatenate([[0.0], 1.0 - np.geomspace(1.0, 0.002, 80)[1:]])
"""Candidate floors as a share of the lowest clean loss."""
_EFFECTIVE = 0.25
"""Neighbouring losses resemble each other: so many independent points is one worth."""
_FARTHEST = 1e4
"""Ends later than so many times the steps seen are "never": the curve says nothing about them."""


@dataclass(frozen=True)
class Estimate:
    """A step with an 80 % interval; None where it can't be known, infinite where it is never reached."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class ConvergenceModel:
    """Fits the loss curve to points (step, loss).

    Args:
        max_points: more points than this are averaged in bins, so that a refit costs the same for any run.

    Attributes:
        coefficients_: (b0, b1, b2) in units of the scaled loss and of single steps.
        scale_: the largest clean loss: losses are divided by it (section 3.1).
        noise_: standard deviation of the scaled losses around the curve.
        last_step_: the last step seen.
        candidates_: curves that explain the points nearly as well, one (b0, b1, b2) a row.
    """

    def __init__(self, max_points: int = 300) -> None:
        self.max_points = max_points

    def fit(
        self, steps: npt.ArrayLike, losses: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> ConvergenceModel:
        """Fit to ``losses`` (positive) at ``steps``, in any order; points that are not finite are left out.

        Raises:
            ValueError: fewer than 3 distinct steps with positive losses are left.
        """
        k, y, w = _clean(steps, losses, weights, self.max_points)
        self.scale_ = float(y.max())
        self.last_step_ = float(k[-1])
        y = y / self.scale_
        span = max(self.last_step_, 1.0)
        floors = _FLOORS * float(y.min())
        slopes, offsets, errors = _solve(k / span, y, w, floors)
        best = int(np.argmin(errors))
        effective = max(len(k) * _EFFECTIVE, 3.0)
        self.noise_ = math.sqrt(errors[best] / w.sum())
        near = errors <= errors[best] * (1 + 1.64 / effective) + 1e-12
        curves = np.stack([slopes / span, offsets, floors], axis=1)
        self.coefficients_ = tuple(float(x) for x in curves[best])
        self.candidates_ = curves[near]
        return self

    def predict(self, steps: npt.ArrayLike) -> Array:
        """Return the loss expected at each of ``steps``."""
        return self.scale_ * _curve(np.asarray(self.coefficients_), np.asarray(steps, dtype=float))

    def predict_interval(self, steps: npt.ArrayLike, level: float = 0.8) -> tuple[Array, Array]:
        """Return (low, high) between which the loss at ``steps`` lies with probability of about ``level``."""
        k = np.asarray(steps, dtype=float)
        curves = np.stack([_curve(row, k) for row in self.candidates_])
        spread = _quantile(level) * self.noise_
        return self.scale_ * np.maximum(curves.min(axis=0) - spread, 0.0), self.scale_ * (curves.max(axis=0) + spread)

    def step_of_loss(self, below: float) -> Estimate:
        """Return the step at which the curve falls below ``below``; infinite if its floor lies above."""
        return self._earliest(lambda row: _step_at(row, below / self.scale_))

    def step_of_convergence(self, threshold: float, patience: int, steps_per_epoch: float) -> Estimate:
        """Return the step at which the scaled loss has fallen by less than ``threshold`` an epoch ``patience`` times.

        Args:
            threshold: the least fall of an epoch that counts, as a share of the largest loss.
            patience: epochs in a row that must fall by less.
            steps_per_epoch: steps of an epoch.
        """
        return self._earliest(lambda row: _step_of_rest(row, threshold, patience, steps_per_epoch))

    def _earliest(self, end: Any) -> Estimate:
        limit = _FARTHEST * max(self.last_step_, 1.0)
        ends = [step if step <= limit else math.inf for step in map(end, self.candidates_)]
        value = end(np.asarray(self.coefficients_))
        return Estimate(value if value <= limit else math.inf, min(ends), max(ends))

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted curve as plain data."""
        thinned = self.candidates_[np.unique(np.linspace(0, len(self.candidates_) - 1, 9).astype(int))]
        return {
            "coefficients": list(self.coefficients_),
            "scale": self.scale_,
            "noise": self.noise_,
            "last_step": self.last_step_,
            "candidates": thinned.tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ConvergenceModel:
        """Return the model that :meth:`to_dict` wrote."""
        model = cls()
        model.coefficients_ = tuple(data["coefficients"])
        model.scale_, model.noise_, model.last_step_ = data["scale"], data["noise"], data["last_step"]
        model.candidates_ = np.asarray(data["candidates"], dtype=float)
        return model


def converged_at(
    steps: npt.ArrayLike, losses: npt.ArrayLike, threshold: float, patience: int, steps_per_epoch: float
) -> float | None:
    """Return the step at which a loss that was seen had converged, None if it has not yet.

    The mean loss of each whole epoch is compared with that of the epoch before, as shares of the largest one.
    """
    k, y = np.asarray(steps, dtype=float), np.asarray(losses, dtype=float)
    known = np.isfinite(k) & np.isfinite(y)
    epochs = np.floor(k[known] / steps_per_epoch).astype(int)
    whole = epochs < (k[known].max(initial=0.0) / steps_per_epoch)
    numbers, where = np.unique(epochs[whole], return_inverse=True)
    if len(numbers) <= patience:
        return None
    means = np.bincount(where, y[known][whole]) / np.bincount(where)
    calm = -np.diff(means) / np.abs(means).max() < threshold
    run = 0
    for epoch, quiet in zip(numbers[1:-1], calm[:-1], strict=True):  # the last one may not be whole yet
        run = run + 1 if quiet else 0
        if run >= patience:
            return float((epoch + 1) * steps_per_epoch)
    return None


def _clean(
    steps: npt.ArrayLike, losses: npt.ArrayLike, weights: npt.ArrayLike | None, most: int
) -> tuple[Array, Array, Array]:
    k, y = np.asarray(steps, dtype=float).ravel(), np.asarray(losses, dtype=float).ravel()
    if len(k) != len(y):
        raise ValueError(f"there are {len(k)} steps and {len(y)} losses; give one loss for each step")
    w = np.ones_like(k) if weights is None else np.asarray(weights, dtype=float).ravel()
    usable = np.isfinite(k) & np.isfinite(y) & np.isfinite(w) & (y > 0) & (k >= 0) & (w > 0)
    order = np.argsort(k[usable], kind="stable")
    k, y, w = k[usable][order], y[usable][order], w[usable][order]
    if len(np.unique(k)) < 3:
        raise ValueError(f"a loss curve needs 3 points at different steps with positive losses; there are {len(k)}")
    if len(k) > most:
        k, y, w = _bin(k, y, w, most)
    return k, _without_outliers(y), w


def _bin(k: Array, y: Array, w: Array, most: int) -> tuple[Array, Array, Array]:
    edges = np.linspace(0, len(k), most + 1).astype(int)[:-1]
    mass = np.add.reduceat(w, edges)
    return np.add.reduceat(k * w, edges) / mass, np.add.reduceat(y * w, edges) / mass, mass / mass.mean()


def _without_outliers(y: Array) -> Array:
    """Replace a loss that stands far from all its neighbours by their median."""
    if len(y) < 5:
        return y
    around = np.stack([np.roll(y, shift) for shift in (-2, -1, 1, 2)])
    middle = np.median(around, axis=0)
    spread = np.median(np.abs(around - middle), axis=0) + 1e-12
    odd = np.abs(y - middle) > 8 * spread + 0.5 * middle
    odd[:2] = odd[-2:] = False
    return np.where(odd, middle, y)


def _solve(k: Array, y: Array, w: Array, floors: Array) -> tuple[Array, Array, Array]:
    """For each floor return slope, offset and the weighted squared error in units of the scaled loss."""
    above = np.maximum(y[None, :] - floors[:, None], 1e-9)
    z, v = 1.0 / above, w[None, :] * above**4  # an error of dz in 1/(y - b2) is one of (y - b2)^2 dz in y
    s, sk, skk = v.sum(1), (v * k).sum(1), (v * k * k).sum(1)
    sz, skz = (v * z).sum(1), (v * k * z).sum(1)
    determinant = np.maximum(s * skk - sk * sk, 1e-300)
    slope, offset = (s * skz - sk * sz) / determinant, (skk * sz - sk * skz) / determinant
    slope = np.where(offset < 0, skz / np.maximum(skk, 1e-300), slope)
    offset = np.where(slope < 0, sz / s, np.maximum(offset, 0.0))
    slope = np.maximum(slope, 1e-12)
    fitted = 1.0 / np.maximum(slope[:, None] * k + offset[:, None], 1e-12) + floors[:, None]
    errors = (w * (np.minimum(fitted, 10.0) - y) ** 2).sum(1)
    return slope, offset, errors


def _curve(row: Array, k: Array) -> Array:
    return np.asarray(1.0 / np.maximum(row[0] * k + row[1], 1e-12) + row[2])


def _step_at(row: Array, loss: float) -> float:
    if loss <= row[2]:
        return math.inf
    return float(max(0.0, (1.0 / (loss - row[2]) - row[1]) / row[0]))


def _step_of_rest(row: Array, threshold: float, patience: int, epoch: float) -> float:
    """The fall of an epoch shrinks steadily, so the first quiet one is found by bisection."""
    low, high = 1.0, 2.0
    while _fall(row, high, epoch) >= threshold:
        low, high = high, high * 2
        if high > 1e12:
            return math.inf
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (low, middle) if _fall(row, middle, epoch) < threshold else (middle, high)
    return float((math.ceil(high) + patience - 1) * epoch)


def _fall(row: Array, number: float, epoch: float) -> float:
    ends = _curve(row, np.array([(number - 1) * epoch, number * epoch]))
    return float(ends[0] - ends[1])


def _quantile(level: float) -> float:
    """Half the width, in standard deviations, of a normal interval."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))
