"""How long a job still takes at a size: its remaining work over its speed there, each size asked for once."""

from __future__ import annotations

import math
from collections.abc import Callable

from optimus_core.scheduling.types import JobView

Pair = tuple[int, int]
"""(servers, workers): a size as the planner calculates with it."""
Rate = Callable[[int, int], float]
"""(servers, workers) -> steps per second."""
RateOf = Callable[[JobView], Rate | None]
"""A job's speed at each size; None if nothing is known of it."""


class Seconds:
    """Seconds until a job is done, by size; infinite where it does not advance."""

    def __init__(self, job: JobView, rate: Rate, work: float) -> None:
        self._rate, self._work, self._scaled = rate, work, job.work_per_step == "workers"
        self._known: dict[Pair, float] = {}

    def __call__(self, size: Pair) -> float:
        seconds = self._known.get(size)
        if seconds is None:
            seconds = self._known[size] = self._work / speed if (speed := self.speed(size)) > 0 else math.inf
        return seconds

    def speed(self, size: Pair) -> float:
        """Return the work per second at ``size``, in the unit of the remaining work."""
        if size[1] < 1:
            return 0.0
        speed = self._rate(*size) * (size[1] if self._scaled else 1)
        return speed if math.isfinite(speed) and speed > 0 else 0.0


def model_rate(job: JobView) -> Rate | None:
    """Return the speed of the model that a snapshot carries; None without a model."""
    if "coefficients" not in job.speed:
        return None
    t = [float(value) for value in job.speed["coefficients"]]
    batch = float(job.speed.get("batch", 1.0))
    if job.strategy == "ps_async":
        return lambda p, w: w / (t[0] + t[1] * w / p + t[2] * w + t[3] * p) if p else 0.0
    if job.strategy == "ps_sync":
        return lambda p, w: 1 / (t[0] * batch / w + t[1] + t[2] * w / p + t[3] * w + t[4] * p) if p else 0.0
    return lambda p, w: 1 / (t[0] * batch / w + t[1] + t[2] * w)
