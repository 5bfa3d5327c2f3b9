"""What earlier runs of the same workload say about a curve that has just begun.

An earlier run is a template: the new run is taken to be it, with steps stretched by a factor (another batch size or
number of workers needs other numbers of steps) and values by another. Each (template, stretch) is believed by how well
it explains the points seen so far and by how close both factors are to 1. Templates know what no smooth curve can:
where the learning rate drops, and by how much that helps. A prior fades as own points arrive: the points decide
between the templates and the fitted curves (:meth:`Forecast.odds`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optimus_core.models.arrays import Floats
from optimus_core.models.series import Series, prepare

_POINTS = 100
"""Points of a template."""
_SMOOTH = 2
"""Neighbours on each side whose mean a template's point is."""
_STRETCHES = np.linspace(-1.2, 1.2, 25)
"""Logarithms of the factors that a run's steps may differ by: up to 3.3 times."""
_STRETCH_SPREAD, _LEVEL_SPREAD = 0.2, 0.03
"""Standard deviations of the logarithms of both factors among runs of one workload."""
_SAME = 20.0
"""How much likelier no stretch at all is than a stretch near 1: most runs of a workload differ in little."""
_TAIL, _SLOPES = 0.5, (0.05, 0.5)
"""Past its end a template goes on as a power of the steps: that of its last half, within bounds."""
_INDEPENDENT = 0.6
"""So many independent points is one worth when templates are compared."""
_INDEPENDENT_CURVE = 0.15
"""The same when templates are compared with fitted curves, which are smooth where a template has noise of its own."""
_ALIKE = 0.015
"""Runs of one workload differ by so much anyway: a curve that is closer to the points is no better for it."""
_RECENT = 1.0
"""The oldest point weighs exp(-1) of the newest."""
_FAR = 0.1
"""Distances beyond this, in logarithms, count no more: the warm-up of a run tells little."""
_CURVE_FREEDOM = 4.0
"""Parameters that a fitted curve spends on the points and a template doesn't."""
_PRIOR_ODDS = 20.0
"""How much more a template is believed than a fitted curve that explains the points as well."""
_WIDER = 1.3
"""What the templates' own disagreement falls short of the errors that were measured on real runs."""
_BEYOND = 0.2
"""What the spread grows for each e-fold of steps beyond the end of the templates."""
_EXACT = 1e-6
"""Least variance of the distance to a template."""
_MOST_RUNS = 8
"""Earlier runs that are kept, the newest."""


class Forecast(NamedTuple):
    """The mean of what the templates say of the new run."""

    steps: Floats
    levels: Floats
    """Logarithm of the value at each of ``steps``."""
    spreads: Floats
    """Standard deviation of ``levels``."""
    slope: float
    """What the level changes for each e-fold of steps beyond the last one."""
    misfit: float
    """Mean square distance of the points seen, in logarithms."""

    def at(self, steps: Floats) -> tuple[Floats, Floats]:
        """Return (level, spread) at ``steps``; past the templates' end the spread grows with the distance."""
        beyond = np.log(np.maximum(steps / self.steps[-1], 1.0))
        level = np.interp(steps, self.steps, self.levels) + self.slope * beyond
        return level, _WIDER * np.interp(steps, self.steps, self.spreads) + _BEYOND * beyond

    def odds(self, misfit_of_curve: float, points: int) -> float:
        """Return how much more the templates are believed than a fitted curve with that misfit on the same points."""
        independent = max(_INDEPENDENT_CURVE * points, 1.0)
        curve = (misfit_of_curve + _ALIKE**2) * (1 + _CURVE_FREEDOM / independent)
        ratio = curve / (self.misfit + _ALIKE**2)
        return _PRIOR_ODDS * math.exp(float(np.clip(independent / 2 * math.log(ratio), -30, 30)))


def misfit(series: Series, levels: Floats) -> float:
    """Return the mean square distance of ``series`` to a curve with the logarithms ``levels`` at its steps."""
    distance = np.log(series.values * series.scale) - levels
    return float(np.minimum(distance**2, _FAR**2) @ _recent(series))


def _recent(series: Series) -> Floats:
    weights = series.weights * np.exp(-_RECENT * (1 - series.steps / series.steps[-1]))
    return np.asarray(weights / weights.sum())


class CurvePrior:
    """Curves of earlier runs.

    Args:
        runs: (steps, values) of each, oldest first; those that are no curve are left out, the newest 8 are kept.
    """

    def __init__(self, runs: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]] = ()) -> None:
        self._runs: list[tuple[Floats, Floats]] = []
        for steps, values in runs:
            self.add(steps, values)

    def add(self, steps: npt.ArrayLike, values: npt.ArrayLike) -> bool:
        """Take one more run, the newest; return whether it is a curve."""
        try:
            series = prepare(steps, values, max_points=_POINTS)
        except ValueError:
            return False
        self._runs = [*self._runs, (series.steps, _smooth(np.log(series.values * series.scale)))][-_MOST_RUNS:]
        return True

    def __len__(self) -> int:
        return len(self._runs)

    def runs(self) -> list[tuple[list[float], list[float]]]:
        """Return (steps, values) of each run, oldest first."""
        return [(steps.tolist(), np.exp(levels).tolist()) for steps, levels in self._runs]

    @property
    def ends(self) -> list[float]:
        """The last step of each run."""
        return [float(steps[-1]) for steps, _ in self._runs]

    def forecast(self, series: Series) -> Forecast | None:
        """Return what the templates say of a run that has shown ``series``; None without templates."""
        if not self._runs:
            return None
        k, w, level = series.steps, _recent(series), np.log(series.values * series.scale)
        factors = np.exp(_STRETCHES)
        template = np.concatenate([np.interp(k * factors[:, None], steps, levels) for steps, levels in self._runs])
        distance = level - template
        shift = distance @ w
        square = np.minimum((distance - shift[:, None]) ** 2, _FAR**2) @ w
        best, independent = float(square.min()) + _EXACT, max(_INDEPENDENT * k.size, 1.0)
        kept = shift * independent / (independent + best / _LEVEL_SPREAD**2)
        square = square + (shift - kept) ** 2
        stretch = np.tile(_STRETCHES, len(self._runs))
        likely = -independent * (square - square.min()) / (2 * best)
        likely -= stretch**2 / (2 * _STRETCH_SPREAD**2) + kept**2 / (2 * _LEVEL_SPREAD**2)
        likely += math.log(_SAME) * (np.abs(stretch) < 1e-9)
        belief = np.exp(likely - likely.max())
        return self._mean(belief / belief.sum(), kept, factors, float(belief @ square / belief.sum()) + _EXACT)

    def _mean(self, belief: Floats, shift: Floats, factors: Floats, misfit: float) -> Forecast:
        ends = np.concatenate([steps[-1] / factors for steps, _ in self._runs])
        steps = np.linspace(0.0, float(np.exp(belief @ np.log(ends))), _POINTS)
        rows = np.concatenate([np.interp(steps * factors[:, None], own, levels) for own, levels in self._runs])
        rows += shift[:, None]
        mean = belief @ rows
        half = int(_POINTS * _TAIL)
        slope = float(mean[-1] - mean[half]) / math.log(steps[-1] / steps[half])
        slope = math.copysign(float(np.clip(abs(slope), *_SLOPES)), slope)
        return Forecast(steps, mean, np.sqrt(belief @ (rows - mean) ** 2), slope, misfit)

    def to_dict(self) -> dict[str, Any]:
        """Return the runs as plain data, with 5 digits."""
        return {"runs": [{"steps": steps.round(1).tolist(), "levels": y.round(5).tolist()} for steps, y in self._runs]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CurvePrior:
        """Return the prior that :meth:`to_dict` wrote."""
        prior = cls()
        prior._runs = [(np.array(run["steps"], float), np.array(run["levels"], float)) for run in data["runs"]]
        return prior


def _smooth(levels: Floats) -> Floats:
    """Return means over neighbours; at both ends over those that there are."""
    around = np.ones(2 * _SMOOTH + 1)
    return np.convolve(levels, around, "same") / np.convolve(np.ones_like(levels), around, "same")
