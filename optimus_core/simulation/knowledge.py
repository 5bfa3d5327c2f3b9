"""What a policy knows of a job: all (an oracle), all with an error, or what the product's own models estimate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optimus_core.models import ConvergenceModel, Estimate, SpeedKind, SpeedModel, next_sizes
from optimus_core.scheduling.types import JobView, Remaining
from optimus_core.simulation.jobs import TrueJob

_SAMPLES = 5
"""Sizes that a job is sampled at before it starts, as the product profiles it."""
_LARGEST_SAMPLE = 4
_POINTS, _FEWEST = 60, 5
"""Losses of a whole run, evenly spaced, and how many of them a curve is fitted to at least."""
_YOUNG = 0.1
"""Part of its work below which a job counts as just begun."""


class Knowledge(Protocol):
    """Tells of a job what may be known when ``done`` of its steps are done."""

    def view(self, job: TrueJob, present: JobView, done: float) -> JobView:
        """Return ``present`` with the remaining work and the speed that are believed."""


@dataclass
class Oracle:
    """Knows the truth, or the truth with a relative error of both signs that is fixed for each job.

    Args:
        seed: which signs.
        curve_error: of the remaining work: 0.2 makes it 0.8 or 1.2 times the truth.
        speed_error: of the speed at each size, likewise.
    """

    seed: int = 0
    curve_error: float = 0.0
    speed_error: float = 0.0

    def view(self, job: TrueJob, present: JobView, done: float) -> JobView:
        """Return what is true, with the error."""
        signs = np.random.default_rng([self.seed, 4, *job.view.name.encode()]).choice([-1.0, 1.0], 2)
        left = (job.work - done) * (1 + signs[0] * self.curve_error)
        speed = dict(job.view.speed)
        speed["coefficients"] = [t / (1 + signs[1] * self.speed_error) for t in speed["coefficients"]]
        return present.model_copy(update={"remaining": Remaining(value=left, source="declared"), "speed": speed})


@dataclass
class Estimating:
    """Fits the product's own models to noisy losses and speeds.

    Args:
        seed: which noise.
        noise: relative standard deviation of each loss and each speed sample.
    """

    seed: int = 0
    noise: float = 0.03
    _speeds: dict[str, dict[str, object]] = field(default_factory=dict)
    _ends: dict[tuple[str, int], Estimate] = field(default_factory=dict)
    """(job, losses seen) -> at which step it ends."""

    def view(self, job: TrueJob, present: JobView, done: float) -> JobView:
        """Return what the models say; the remaining work is unknown as long as they can't say it."""
        name = job.view.name
        if name not in self._speeds:
            self._speeds[name] = self._speed(job)
        left = self._left(job, done)
        young = done < _YOUNG * job.work
        return present.model_copy(update={"remaining": left, "speed": self._speeds[name], "young": young})

    def _speed(self, job: TrueJob) -> dict[str, object]:
        rng = np.random.default_rng([self.seed, 5, *job.view.name.encode()])
        truth = SpeedModel.from_dict(job.view.speed)
        served = truth.kind is not SpeedKind.ALL_REDUCE
        small = range(1, _LARGEST_SAMPLE + 1)
        allowed = [(p, w) for p in (small if served else (0,)) for w in small]
        blank = SpeedModel.default(truth.kind, batch_per=truth.batch_per, batch_size=truth.batch_size)
        p, w = np.array(next_sizes(blank, allowed, _SAMPLES)).T
        seen = truth.predict(p, w) * np.exp(self.noise * rng.standard_normal(len(p)))
        return blank.fit(p, w, seen).to_dict()

    def _left(self, job: TrueJob, done: float) -> Remaining:
        steps = np.arange(1, _POINTS + 1) * job.work / _POINTS
        steps = steps[steps <= done]
        if len(steps) < _FEWEST:
            return Remaining()
        key = (job.view.name, len(steps))
        if key not in self._ends:
            self._ends[key] = self._end(job, steps)
        ends = self._ends[key]
        if ends.value is None or not np.isfinite(ends.value):
            return Remaining()
        value, low, high = (None if x is None or not np.isfinite(x) else max(0.0, x - done) for x in ends)
        return Remaining(value=value, low=low, high=high, source="fitted")

    def _end(self, job: TrueJob, steps: NDArray[np.float64]) -> Estimate:
        rng = np.random.default_rng([self.seed, 6, *job.view.name.encode()])
        losses = job.loss(steps) * np.exp(self.noise * rng.standard_normal(_POINTS)[: len(steps)])
        return ConvergenceModel().fit(steps, losses).step_of_loss(job.target)
