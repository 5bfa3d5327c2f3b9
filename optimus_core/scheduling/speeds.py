"""How long a job still takes at a size: its remaining work over its speed there, each size asked for once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from optimus_core.models.speed import SpeedModel
from optimus_core.scheduling.types import JobView

Pair = tuple[int, int]
"""(servers, workers): a size as the planner calculates with it."""
Rate = Callable[[int, int], float]
"""(servers, workers) -> steps per second."""
RateOf = Callable[[JobView], Rate | None]
"""A job's speed at each size; None if nothing is known of it."""
_SIDE = 8
"""Sizes by sizes that a model is asked for at once."""


class Seconds:
    """Seconds until a job is done, by size; infinite where it does not advance."""

    def __init__(self, job: JobView, rate: Rate, work: float) -> None:
        self._rate, self._work, self._scaled = rate, work, job.work_per_step == "workers"
        self._known: dict[Pair, float] = {}
        self._doubts: dict[Pair, float] = {}

    def __call__(self, size: Pair) -> float:
        seconds = self._known.get(size)
        if seconds is None:
            seconds = self._known[size] = self._work / speed if (speed := self.speed(size)) > 0 else math.inf
        return seconds

    def table(self, sizes: Sequence[Pair]) -> list[float]:
        """Return the seconds at many sizes, which a model gives at once."""
        if len(sizes) > _SIDE and isinstance(self._rate, _Blocks) and not self._known.keys() >= set(sizes):
            wanted = np.array(sizes)
            speed = self._rate.many(wanted) * (wanted[:, 1] if self._scaled else 1)
            able = np.isfinite(speed) & (speed > 0) & (wanted[:, 1] > 0)
            seconds = np.where(able, self._work / np.where(able, speed, 1.0), math.inf).tolist()
            self._known.update(zip(sizes, seconds, strict=True))
        known = self._known
        return [known[size] if size in known else self(size) for size in sizes]

    def doubts(self, sizes: Sequence[Pair]) -> list[float]:
        """Return the standard deviations of the seconds at many sizes, as parts of them; 0 where nobody tells."""
        if isinstance(self._rate, _Blocks) and not self._doubts.keys() >= set(sizes):
            self._doubts.update(zip(sizes, self._rate.doubts(np.array(sizes)), strict=True))
        return [self._doubts.get(size, 0.0) for size in sizes]

    def speed(self, size: Pair) -> float:
        """Return the work per second at ``size``, in the unit of the remaining work."""
        if size[1] < 1:
            return 0.0
        speed = self._rate(*size) * (size[1] if self._scaled else 1)
        return speed if math.isfinite(speed) and speed > 0 else 0.0


def model_rate(job: JobView) -> Rate | None:
    """Return the speed of the model that a snapshot carries; None without a model."""
    return _Blocks(SpeedModel.from_dict(job.speed)) if job.speed else None


class _Blocks:
    """Asks a model for many neighbouring sizes at once, which costs little more than one."""

    def __init__(self, model: SpeedModel) -> None:
        self._model = model
        self._blocks: dict[Pair, list[list[float]]] = {}

    def many(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the speeds at rows of (servers, workers)."""
        return np.asarray(self._model.predict(sizes[:, 0], sizes[:, 1]), dtype=np.float64)

    def doubts(self, sizes: NDArray[np.int64]) -> list[float]:
        """Return the relative standard deviations of the speeds; 0 of a shape that says nothing about this job."""
        if self._model.is_default_ or not self._model.tells_deviation:
            return [0.0] * len(sizes)
        deviations: list[float] = self._model.uncertainty(sizes[:, 0], sizes[:, 1]).tolist()
        return deviations

    def __call__(self, servers: int, workers: int) -> float:
        block = (servers // _SIDE, workers // _SIDE)
        speeds = self._blocks.get(block)
        if speeds is None:
            side = np.arange(_SIDE)
            predicted = self._model.predict(side[:, None] + block[0] * _SIDE, side + block[1] * _SIDE)
            speeds = self._blocks[block] = predicted.tolist()
        return speeds[servers % _SIDE][workers % _SIDE]
