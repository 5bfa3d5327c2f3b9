"""When a loss has come to rest: seen in points, and foretold from curves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optimus_core.models.arrays import Floats

_DENSE, _SPARSE = 128, 160
"""Epochs ahead that are looked at one by one, and further ones at growing distances."""


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


def epochs_ahead(first: int, farthest: float) -> Floats:
    """Return numbers of epochs after ``first``: one by one, then ever sparser, up to ``farthest`` of them."""
    far = np.geomspace(_DENSE, max(farthest, 2 * _DENSE), _SPARSE)
    return first + np.unique(np.concatenate([np.arange(1, _DENSE), np.floor(far)]))


def rest_epochs(epochs: Floats, falls: Floats, threshold: float, patience: int) -> Floats:
    """Return for each curve the epoch after which it has rested ``patience`` epochs in a row, infinite if none.

    Args:
        epochs: numbers of epochs, rising.
        falls: what each curve falls in each of them, of shape (curves, epochs).
        threshold: a fall under it is rest.
        patience: epochs in a row.
    """
    loud = np.maximum.accumulate(np.where(falls < threshold, epochs[0] - 1, epochs), axis=1)
    met = epochs - loud >= patience
    first = np.argmax(met, axis=1)
    return np.where(met.any(axis=1), loud[np.arange(len(falls)), first] + patience, np.inf)
