"""How a loss falls, or a metric rises, with the steps of training: fitted online, with intervals.

The paper fits l(k) = 1/(b0*k + b1) + b2 (Optimus, EuroSys'18, section 3.1). Real curves follow it for a part of a run,
so here several families are fitted and averaged (:mod:`optimus_core.models.shapes`), the newest points count most, and
earlier runs of the same workload join in as templates (:mod:`optimus_core.models.prior`). See docs/models.md for what
that is worth on real runs.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from optimus_core.models.arrays import Floats
from optimus_core.models.estimate import UNKNOWN, Estimate
from optimus_core.models.paper import fit_paper
from optimus_core.models.prior import CurvePrior, Forecast, misfit
from optimus_core.models.rest import epochs_ahead, rest_epochs
from optimus_core.models.series import Series, prepare
from optimus_core.models.shapes import Curves, fit_curves

_DRIFT = 0.04
"""Real runs end lower than their smooth curves go on, since learning rates drop: by the factor (end / now)^-0.04."""
_AHEAD = 0.12
"""Standard deviation of the logarithm of the loss for each e-fold of steps ahead, beside what the curves tell."""
_FARTHEST = 1e4
"""Ends later than so many times the steps seen are "never": the curve says nothing about them."""
_KNOWABLE = 10.0
"""Ends later than so many times the steps seen can't be known yet."""
_LEVEL = 0.8


class ConvergenceModel:
    """Fits the curve of a loss (or of a metric that rises) to points (step, value).

    Args:
        max_points: more points than this are thinned, so that a refit costs the same for any run.
        prior: curves of earlier runs of the same workload.
        rises: the values are of a metric that grows, such as an accuracy; they must be positive all the same.
        drift: exponent by which losses are expected to fall below their smooth continuation; 0 for the pure curve.

    Attributes:
        coefficients_: (b0, b1, b2) of the paper's curve for the scaled values, in single steps.
        scale_: the largest value, spikes apart: values are divided by it (section 3.1).
        noise_: relative standard deviation of the (thinned) values around the curve.
        last_step_: the last step seen.
        curves_: all curves that the points support, with their belief.
        prior_share_: what part of the prediction comes from earlier runs: 0 to 1.
    """

    def __init__(
        self, max_points: int = 80, *, prior: CurvePrior | None = None, rises: bool = False, drift: float = _DRIFT
    ) -> None:
        self.max_points = max_points
        self.prior = prior
        self.rises = rises
        self.drift = 0.0 if rises else drift

    def fit(
        self, steps: npt.ArrayLike, losses: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> ConvergenceModel:
        """Fit to ``losses`` (positive) at ``steps``, in any order; points that are not finite are left out.

        Raises:
            ValueError: fewer than 3 distinct steps with positive losses are left.
        """
        series = prepare(steps, losses, weights, self.max_points)
        self.scale_, self.last_step_ = series.scale, series.last_step
        x = series.steps / series.last_step
        self.curves_: Curves = fit_curves(x, series.values, series.weights, rises=self.rises)
        self.noise_ = self.curves_.noise
        self._series: Series | None = series
        self._forecast: Forecast | None = self.prior.forecast(series) if self.prior is not None else None
        self.prior_share_ = 0.0
        if self._forecast is not None:
            own = math.log(self.scale_) + self.curves_.belief @ np.log(self.curves_.at(x))
            odds = self._forecast.odds(misfit(series, own), series.steps.size)
            self.prior_share_ = odds / (1 + odds)
        return self

    @property
    def coefficients_(self) -> tuple[float, float, float]:
        """The paper's curve, fitted when it is asked for: predictions do not need it."""
        if self._series is not None:
            series, self._series = self._series, None
            self._coefficients = fit_paper(series.steps, series.values, series.weights)
        return self._coefficients

    def predict(self, steps: npt.ArrayLike) -> Floats:
        """Return the loss expected at each of ``steps``."""
        level, _ = self._levels(np.atleast_1d(np.asarray(steps, dtype=float)))
        return np.asarray(np.exp(level).reshape(np.shape(steps)))

    def predict_interval(
        self, steps: npt.ArrayLike, level: float = _LEVEL, *, points: bool = False
    ) -> tuple[Floats, Floats]:
        """Return (low, high) between which the loss at ``steps`` lies with probability of about ``level``.

        Args:
            steps: where.
            level: the probability.
            points: whether single points are meant, with their noise, instead of the mean of several.
        """
        middle, spread = self._levels(np.asarray(steps, dtype=float))
        width = NormalDist().inv_cdf(0.5 + level / 2) * (np.hypot(spread, self.noise_) if points else spread)
        return np.exp(middle - width), np.exp(middle + width)

    def step_of_loss(self, below: float) -> Estimate:
        """Return the step at which the curve falls below ``below`` (rises above it, if the metric rises).

        Infinite if even the lower end of the interval stays above; unknown if the interval reaches it and the curve
        does not, or only so late that the points say nothing of it.
        """
        if below <= 0:
            return Estimate(math.inf, math.inf, math.inf) if not self.rises else Estimate(0.0, 0.0, 0.0)
        now = max(self.last_step_, 1.0)
        grid = np.concatenate([np.linspace(0, now, 100), now * np.geomspace(1.001, _FARTHEST, 400)])
        level, spread = self._levels(grid)
        width = NormalDist().inv_cdf(0.5 + _LEVEL / 2) * spread
        sign = -1.0 if self.rises else 1.0
        target = sign * math.log(below)
        low, value, high = (_crossing(grid, sign * level + shift, target) for shift in (-width, 0.0, width))
        return self._known(value, min(low, value), max(high, value))

    def step_of_convergence(self, threshold: float, patience: int, steps_per_epoch: float) -> Estimate:
        """Return the step at which the scaled loss has fallen by less than ``threshold`` an epoch ``patience`` times.

        Args:
            threshold: the least fall of an epoch that counts, as a share of the largest loss.
            patience: epochs in a row that must fall by less.
            steps_per_epoch: steps of an epoch.
        """
        now = max(self.last_step_, 1.0)
        first = max(0, math.floor(now / steps_per_epoch) - patience)
        epochs = epochs_ahead(first, _FARTHEST * now / steps_per_epoch)
        falls = self._values(epochs * steps_per_epoch - steps_per_epoch) - self._values(epochs * steps_per_epoch)
        ends = rest_epochs(epochs, -falls if self.rises else falls, threshold, patience) * steps_per_epoch
        shares = np.append(self.curves_.belief * (1 - self.prior_share_), self.prior_share_)
        low, value, high = _weighted_quantiles(ends, shares[: len(ends)], (0.1, 0.5, 0.9))
        return self._known(value, low, high)

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted curves as plain data."""
        curves, forecast = self.curves_, self._forecast
        return {
            "coefficients": list(self.coefficients_),
            "scale": self.scale_,
            "noise": self.noise_,
            "last_step": self.last_step_,
            "rises": self.rises,
            "drift": self.drift,
            "curves": {
                "shapes": curves.shapes.tolist(),
                "a": curves.a.tolist(),
                "c": curves.c.tolist(),
                "belief": curves.belief.tolist(),
            },
            "prior_share": self.prior_share_,
            "forecast": None
            if forecast is None
            else {
                "steps": forecast.steps.tolist(),
                "levels": forecast.levels.tolist(),
                "spreads": forecast.spreads.tolist(),
                "slope": forecast.slope,
                "misfit": forecast.misfit,
            },
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ConvergenceModel:
        """Return the model that :meth:`to_dict` wrote."""
        model = cls(rises=data["rises"], drift=data["drift"])
        model._series, model._coefficients = None, tuple(data["coefficients"])
        model.scale_, model.noise_, model.last_step_ = data["scale"], data["noise"], data["last_step"]
        arrays = {name: np.asarray(column, dtype=float) for name, column in data["curves"].items()}
        model.curves_ = Curves(**arrays, noise=model.noise_)
        told = data["forecast"]
        model.prior_share_ = data["prior_share"]
        columns = {name: np.asarray(told[name], dtype=float) for name in ("steps", "levels", "spreads")} if told else {}
        model._forecast = Forecast(**columns, slope=told["slope"], misfit=told["misfit"]) if told else None
        return model

    def _known(self, value: float, low: float, high: float) -> Estimate:
        """Say "never" if even the earliest end is none, "can't be known yet" if the likely one is too far."""
        now = max(self.last_step_, 1.0)
        ends = [step if step <= _FARTHEST * now else math.inf for step in (value, low, high)]
        if ends[1] < math.inf and ends[0] > _KNOWABLE * now:
            return UNKNOWN
        return Estimate(*ends)

    def _levels(self, steps: Floats) -> tuple[Floats, Floats]:
        """Return (mean, standard deviation) of the logarithm of the loss at ``steps``, noise of points apart."""
        x = steps / max(self.last_step_, 1e-300)
        logs, ahead = np.log(self.curves_.at(x)), np.log(np.maximum(x, 1.0))
        mean = self.curves_.belief @ logs
        variance = self.curves_.belief @ (logs - mean) ** 2 + (_AHEAD * ahead) ** 2
        mean = mean + math.log(self.scale_) - self.drift * ahead
        share = self.prior_share_
        if self._forecast is None or share <= 0:
            return mean, np.sqrt(variance)
        level, spread = self._forecast.at(steps)
        both = share * level + (1 - share) * mean
        variance = share * (spread**2 + (level - both) ** 2) + (1 - share) * (variance + (mean - both) ** 2)
        return both, np.sqrt(variance)

    def _values(self, steps: Floats) -> Floats:
        """Return the scaled losses at ``steps`` by each curve and, last, by the earlier runs."""
        rows = self.curves_.at(steps / max(self.last_step_, 1e-300))
        if self._forecast is None:
            return rows
        level, _ = self._forecast.at(steps)
        return np.concatenate([rows, np.exp(level)[None, :] / self.scale_])


def _crossing(steps: Floats, levels: Floats, target: float) -> float:
    """Return the step at which ``levels`` fall to ``target`` first, infinite if they never do."""
    under = levels <= target
    first = int(np.argmax(under))
    if not under[first]:
        return math.inf
    if first == 0:
        return float(steps[0])
    before, after = levels[first - 1] - target, target - levels[first]
    return float(steps[first - 1] + (steps[first] - steps[first - 1]) * before / max(before + after, 1e-300))


def _weighted_quantiles(values: Floats, weights: Floats, shares: tuple[float, ...]) -> list[float]:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    where = [min(int(np.searchsorted(total, share * total[-1])), len(values) - 1) for share in shares]
    return [float(values[order[index]]) for index in where]
