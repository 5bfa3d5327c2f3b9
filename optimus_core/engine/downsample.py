"""Series cut down to what a screen shows; the shape is kept, since each extreme survives."""

from __future__ import annotations

import math
from collections.abc import Sequence

Pair = tuple[float, float]


def downsample(points: Sequence[Pair], limit: int) -> list[Pair]:
    """Return at most ``limit`` of ``points``: the first, the last, and of each stretch between the lowest and highest.

    Args:
        points: (x, y) in order of x; those that are not finite are left out, since nothing can draw them.
        limit: how many may stay, at least 4.

    Raises:
        ValueError: ``limit`` is less than 4.
    """
    if limit < 4:
        raise ValueError(f"a series of {limit} points keeps no shape; ask for 4 or more")
    finite = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[1])]
    if len(finite) <= limit:
        return finite
    inner = range(1, len(finite) - 1)
    stretches = (limit - 2) // 2
    kept = {0, len(finite) - 1}
    for number in range(stretches):
        part = inner[len(inner) * number // stretches : len(inner) * (number + 1) // stretches]
        kept.add(min(part, key=lambda i: finite[i][1]))
        kept.add(max(part, key=lambda i: finite[i][1]))
    return [finite[i] for i in sorted(kept)]
