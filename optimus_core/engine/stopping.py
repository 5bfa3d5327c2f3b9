"""Whether a stop criterion is met, and how much work is left until it will be."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from optimus_core.choices import Converged, Epochs, Loss, Steps, Stop
from optimus_core.models import converged_at
from optimus_core.telemetry import Point

_SMOOTH = 3
"""Losses whose median must lie below the target: one lucky batch ends no training."""


def is_met(
    stop: Stop, step: int | None, epoch: float | None, losses: Sequence[Point], steps_per_epoch: int | None
) -> bool:
    """Say whether ``stop`` is met by what a job has shown.

    Args:
        stop: the criterion.
        step: steps done.
        epoch: epochs done, if anybody knows.
        losses: the loss by step, oldest first.
        steps_per_epoch: if known; ``Converged`` can't be judged without epochs.
    """
    if isinstance(stop, Steps):
        return step is not None and step >= stop.n
    if isinstance(stop, Epochs):
        return epoch is not None and epoch >= stop.n
    if isinstance(stop, Loss):
        last = [point.value for point in losses[-_SMOOTH:]]
        return len(last) == _SMOOTH and median(last) < stop.below
    return _has_converged(stop, losses, steps_per_epoch)


def _has_converged(stop: Converged, losses: Sequence[Point], steps_per_epoch: int | None) -> bool:
    known = [(point.step, point.value) for point in losses if point.step is not None]
    per_epoch = steps_per_epoch or epoch_length(losses)
    if per_epoch is None or not known:
        return False
    steps, values = zip(*known, strict=True)
    return converged_at(steps, values, stop.threshold, stop.patience, per_epoch) is not None


def epoch_length(losses: Sequence[Point]) -> float | None:
    """Return the steps of an epoch as the points themselves show it, None if they tell no epochs."""
    told = [(p.step, p.epoch) for p in losses if p.step is not None and p.epoch is not None]
    if len(told) < 2 or told[-1][1] <= told[0][1] or told[-1][0] <= told[0][0]:
        return None
    return (told[-1][0] - told[0][0]) / (told[-1][1] - told[0][1])
