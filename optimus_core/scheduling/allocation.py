"""Marginal gain: who has most to gain from one more replica gets it, until nobody gains or nothing fits.

Source: Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters" (EuroSys 2018),
section 4. The gain of a larger size is the time that it saves over the share of the cluster that it takes, the share
being that of the dominant resource, over any number of kinds of resources.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence

from optimus_core.scheduling.rows import Row, Vector
from optimus_core.scheduling.speeds import Pair

Steps = tuple[tuple[Pair, ...], ...]
"""What may be added at once; the second ones are looked at only where none of the first gains, and so on."""
ONE_REPLICA: Steps = (((0, 1), (1, 0)),)
"""The paper's: a worker or a server."""
FURTHER: Steps = ((*ONE_REPLICA[0], (1, 1)), ((0, 2), (2, 0), (2, 2), (0, 4), (4, 4), (0, 8), (8, 8)))
"""Also both, and leaps: speed may stand still over some sizes and rise after them."""
_LEAST_GAIN = 1e-9
"""A relative saving below this is a rounding error."""

Path = list[Pair]
"""The sizes that a job passed, the first where it began, the last what it got."""


def grow(
    rows: Iterable[Row], starts: Mapping[str, Pair], free: Sequence[int], capacity: Vector, steps: Steps = FURTHER
) -> dict[str, Path]:
    """Return the path of each row from its start, within ``free``, by the best gain first.

    Rows must be in a fixed order: equal gains go to the earlier one.
    """
    left, order = list(free), list(rows)
    paths = {row.name: [starts[row.name]] for row in order}
    heap: list[tuple[float, int, Pair]] = []
    for index, row in enumerate(order):
        _offer(heap, index, best_step(row, starts[row.name], left, capacity, steps))
    while heap:
        _, index, size = heapq.heappop(heap)
        row = order[index]
        path = paths[row.name]
        step = _step(row, path[-1], size)
        if _fits(step, left):
            for column, amount in enumerate(step):
                left[column] -= amount
            path.append(size)
        _offer(heap, index, best_step(row, path[-1], left, capacity, steps))
    return paths


def _offer(heap: list[tuple[float, int, Pair]], index: int, best: tuple[float, Pair]) -> None:
    gain, better = best
    if gain > 0:
        heapq.heappush(heap, (-gain, index, better))


def best_step(
    row: Row, size: Pair, left: Sequence[int], capacity: Vector, steps: Steps = FURTHER
) -> tuple[float, Pair]:
    """Return the largest gain that fits in ``left`` and the size that gives it; 0 and ``size`` if there is none."""
    if row.seconds is None or size == row.ceiling:
        return 0.0, size
    tried = (_best_of(each, row, size, left, capacity) for each in steps)
    return next((best for best in tried if best[0] > 0), (0.0, size))


def _best_of(steps: Sequence[Pair], row: Row, size: Pair, left: Sequence[int], capacity: Vector) -> tuple[float, Pair]:
    best = (0.0, size)
    for servers, workers in steps:
        larger = (size[0] + servers, size[1] + workers)
        if larger[0] > row.ceiling[0] or larger[1] > row.ceiling[1] or larger in row.barred:
            continue
        step = _step(row, size, larger)
        if _fits(step, left) and (gain := _gain(row, size, larger, step, capacity)) > best[0]:
            best = (gain, larger)
    return best


def _step(row: Row, size: Pair, larger: Pair) -> Vector:
    servers, workers = larger[0] - size[0], larger[1] - size[1]
    return tuple([servers * s + workers * w for s, w in zip(row.server, row.worker, strict=True)])


def _fits(step: Vector, left: Sequence[int]) -> bool:
    return all(amount <= room for amount, room in zip(step, left, strict=True) if amount)


def _gain(row: Row, size: Pair, larger: Pair, step: Vector, capacity: Vector) -> float:
    assert row.seconds is not None
    now, then = row.seconds(size), row.seconds(larger)
    if math.isinf(now):
        return 0.0 if math.isinf(then) else math.inf
    saved = now - then
    return row.weight * row.trust * saved / share(step, capacity) if saved > _LEAST_GAIN * now else 0.0


def share(amounts: Vector, capacity: Vector) -> float:
    """Return the part of the cluster that ``amounts`` take, by the resource of which they take most."""
    parts = [amount / whole for amount, whole in zip(amounts, capacity, strict=True) if amount and whole]
    return max(parts, default=1e-12)
