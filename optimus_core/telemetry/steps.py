"""Coordinates as printed -> steps of the whole run."""

from __future__ import annotations

import math
from typing import Any

from optimus_core.telemetry.records import Point


class StepCounter:
    """Counts the steps of a run whose lines count within an epoch, or tell an epoch only.

    The steps of an epoch are what the bar says, or what was given here, or the most that an earlier epoch
    showed. `first_epoch` is what the run calls its first epoch (0 or 1); by default the first one seen, so
    give it to a run that resumes.
    """

    def __init__(self, steps_per_epoch: int | None = None, first_epoch: int | None = None) -> None:
        self.steps_per_epoch = steps_per_epoch
        self.first_epoch = first_epoch
        self._given = steps_per_epoch is not None
        self._longest = 0
        self._epoch = -1

    def global_step(self, point: Point) -> int | None:
        """The step of the run that this point belongs to, or None if nobody can know."""
        if point.step is not None and not (point.per_epoch and point.epoch is not None):
            return point.step
        if point.epoch is None:
            return None
        if point.step is None:
            return self._by_epoch(point.epoch)
        return self._within(math.floor(point.epoch), point.step, point.steps_per_epoch)

    def state(self) -> dict[str, Any]:
        """All that is needed to go on later, as JSON."""
        return {name.lstrip("_"): value for name, value in vars(self).items()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> StepCounter:
        """The counter whose state was kept."""
        counter = cls(state["steps_per_epoch"], state["first_epoch"])
        counter._given, counter._longest = state["given"], state["longest"]
        counter._epoch = state["epoch"]
        return counter

    def _by_epoch(self, epoch: float) -> int | None:
        return None if self.steps_per_epoch is None else round(epoch * self.steps_per_epoch)

    def _within(self, epoch: int, step: int, of: int | None) -> int:
        if self.first_epoch is None:
            self.first_epoch = epoch
        if epoch > self._epoch and self._longest and not self._given:
            self.steps_per_epoch = self._longest
        self._epoch = max(self._epoch, epoch)
        self._longest = max(self._longest, step, of or 0)
        if of and not self._given:
            self.steps_per_epoch = of
        return max(0, epoch - self.first_epoch) * (self.steps_per_epoch or 0) + step
