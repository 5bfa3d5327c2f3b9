"""How long a worker's own part of a step takes, in a few windows of its latest output: what stragglers are found by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from optimus_core.telemetry import Point

METRIC = "batch_seconds"
"""What a script reports each few steps: the seconds of its own part of a step, without waiting for others."""
KEPT = 5
"""Windows that are kept: a worker counts by their median, so that one or two slow ones say nothing."""


class OwnTimes:
    """The latest windows of one worker; the state is plain JSON.

    Args:
        window: seconds that a window spans at least.
        state: what :meth:`state` gave, or None at the start of an output.
    """

    def __init__(self, window: float, state: Mapping[str, Any] | None) -> None:
        state = state or {}
        self._window = window
        self._begin: float | None = state.get("begin")
        self._sum: float = state.get("sum", 0.0)
        self._count: int = state.get("count", 0)
        self.times: list[float] = state.get("times", [])
        """Mean seconds of its own part of a step, a number for each window."""
        self.speeds: list[float] = state.get("speeds", [])
        """Steps a second as its output counts them: what an asynchronous worker is known by that reports no times."""

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later."""
        return {
            "begin": self._begin,
            "sum": self._sum,
            "count": self._count,
            "times": self.times,
            "speeds": self.speeds,
        }

    def add(self, point: Point) -> None:
        """Take a reported time; other metrics and what can be no time are passed over."""
        if point.name != METRIC or point.time is None or not (math.isfinite(point.value) and 0 < point.value < 1e9):
            return
        if self._begin is None or point.time < self._begin:
            self._begin, self._sum, self._count = point.time, 0.0, 0  # what came before is the start-up
            return
        self._sum, self._count = self._sum + point.value, self._count + 1
        if point.time - self._begin >= self._window:
            self.times = [*self.times, self._sum / self._count][-KEPT:]
            self._begin, self._sum, self._count = point.time, 0.0, 0

    def add_speed(self, steps_per_second: float) -> None:
        """Take the speed of a window of steps."""
        self.speeds = [*self.speeds, steps_per_second][-KEPT:]
