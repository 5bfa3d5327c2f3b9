"""Steps per second, by one replica's own clock."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeedSample:
    """`steps` steps took `seconds` seconds, up to `step` at `time`."""

    time: float
    step: int
    steps: int
    seconds: float

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds


class SpeedMeter:
    """One sample about each `window` seconds.

    The first window after each start is left out: caches, compilers and connections warm up in it. A step
    that goes back is a start again; a step or a time that is repeated tells nothing. All times must be of
    one clock.
    """

    def __init__(self, window: float = 10.0) -> None:
        if not (math.isfinite(window) and window > 0):
            raise ValueError(f"window of a SpeedMeter is {window} s; it must be above 0 s, for example 10.")
        self.window = window
        self._anchor: tuple[float, int] | None = None
        self._last: tuple[float, int] | None = None
        self._warm = False

    def add(self, time: float, step: int) -> SpeedSample | None:
        """Takes note that `step` steps were done at `time`; a sample if a window is full."""
        if not math.isfinite(time):
            return None
        if self._anchor is None or self._last is None or step < self._last[1]:
            self._start(time, step)
            return None
        if step == self._last[1] or time <= self._last[0]:
            return None
        self._last = (time, step)
        since, first = self._anchor
        if time - since < self.window:
            return None
        self._anchor = self._last
        if not self._warm:
            self._warm = True
            return None
        return SpeedSample(time, step, step - first, time - since)

    def _start(self, time: float, step: int) -> None:
        self._anchor = self._last = (time, step)
        self._warm = False
