"""At which sizes a short run would teach most about a job's speed.

Samples with p = w only can't tell the constant of a step from its w/p term, and neighbouring sizes tell nearly the
same. Each size is chosen for what it takes away from the mean variance of the predicted speeds over all sizes that
the job may get (I-optimal design, greedy), given what was sampled before and the usual shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimus_core.models.speed import SpeedModel

_NOISE = 0.07
"""Relative standard deviation that a short run's speed is taken to have."""


def next_sizes(
    model: SpeedModel,
    allowed: Sequence[tuple[int, int]],
    count: int,
    seen: Sequence[tuple[int, int]] = (),
    wanted: Sequence[tuple[int, int]] | None = None,
) -> list[tuple[int, int]]:
    """Return up to ``count`` sizes (servers, workers) to sample next, the most telling first.

    Args:
        model: what is believed so far; ``SpeedModel.default`` if nothing is.
        allowed: sizes that may be run, such as those inside the room that was granted.
        count: how many.
        seen: sizes that were sampled before; they may be chosen again only when nothing else tells more.
        wanted: sizes whose speed matters; ``allowed`` if not given.
    """
    sizes = sorted(set(allowed))
    if not sizes:
        return []
    slopes, targets = model.slopes(sizes), model.slopes(sorted(set(wanted)) if wanted else sizes)
    precision = model.shape_precision()
    for row in model.slopes(list(seen)) if seen else ():
        precision = precision + np.outer(row, row) / _NOISE**2
    chosen: list[tuple[int, int]] = []
    for _ in range(min(count, len(sizes))):
        covariance = np.linalg.inv(precision)
        own = np.einsum("ij,jk,ik->i", slopes, covariance, slopes)
        shared = targets @ covariance @ slopes.T
        gains = (shared**2).sum(axis=0) / (own + _NOISE**2)
        gains[[size in chosen for size in sizes]] = -1.0
        best = int(np.argmax(gains >= gains.max() * (1 - 1e-9)))  # the smallest of equals
        chosen.append(sizes[best])
        precision = precision + np.outer(slopes[best], slopes[best]) / _NOISE**2
    return chosen
