"""The walk along the concave envelopes of all jobs: best worth per priced share first."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from optimus_core.scheduling.space import EPSILON as _EPSILON
from optimus_core.scheduling.space import Floats, Space
from optimus_core.scheduling.worths import Table


def _hull(cost: Floats, worth: Floats) -> list[int]:
    """Return the rows on the concave upper envelope of worth over cost, from the first row on."""
    order = np.lexsort((-worth[1:], cost[1:])) + 1
    best = np.maximum.accumulate(np.append(worth[0], worth[order]))
    points, gains = cost.tolist(), worth.tolist()
    hull = [0]
    for row in order[worth[order] > best[:-1]].tolist():  # the others cost more and are worth no more
        if gains[row] <= gains[hull[-1]] + _EPSILON * abs(gains[hull[-1]]):
            continue
        while len(hull) > 1 and (gains[hull[-1]] - gains[hull[-2]]) * (points[row] - points[hull[-1]]) <= (
            gains[row] - gains[hull[-1]]
        ) * (points[hull[-1]] - points[hull[-2]]):
            hull.pop()
        hull.append(row)
    return hull


def walk(tables: Sequence[Table], space: Space, price: Floats) -> None:
    """Take the best worth per priced share again and again, from what is chosen so far."""
    heap: list[tuple[float, int, int]] = []
    costs = [(table.share - table.share[0]) @ price for table in tables]
    for index, table in enumerate(tables):
        table.hull = _hull(costs[index], table.worth)
        _offer(heap, index, table, costs[index], _next(table, costs[index]))
    while heap:
        _, index, step = heapq.heappop(heap)
        table = tables[index]
        row = table.hull[step]
        more = table.share[row] - table.share[table.chosen]
        if space.fits(table.request.pool, more):
            space.take(table.request.pool, more)
            table.chosen = row
            _offer(heap, index, table, costs[index], step + 1)
        else:
            _fill(table, space)


def _next(table: Table, cost: Floats) -> int:
    """Return the step of the envelope after what is chosen."""
    if table.chosen == 0:
        return 1
    own = (cost[table.chosen], table.worth[table.chosen])
    steps = (s for s, row in enumerate(table.hull) if cost[row] > own[0] and table.worth[row] > own[1])
    return next(steps, len(table.hull))


def _offer(heap: list[tuple[float, int, int]], index: int, table: Table, cost: Floats, step: int) -> None:
    if step < len(table.hull):
        row, before = table.hull[step], table.chosen
        gain = float(table.worth[row] - table.worth[before])
        heapq.heappush(heap, (-gain / max(float(cost[row] - cost[before]), _EPSILON), index, step))


def _fill(table: Table, space: Space) -> None:
    """Give a job whose next step does not fit the best size that does."""
    own = table.share[table.chosen]
    fits = space.fits(table.request.pool, table.share - own)
    best = int(np.where(fits, table.worth, -1.0).argmax())
    if table.worth[best] > table.worth[table.chosen] * (1 + _EPSILON):
        space.take(table.request.pool, table.share[best] - own)
        table.chosen = best


def marginal(tables: Sequence[Table]) -> float:
    """Return the worth per share of the best step that was not taken."""
    slopes = [0.0]
    for table in tables:
        rest = [i for i in table.hull if table.share[i, 0] > table.share[table.chosen, 0] + _EPSILON]
        if rest:
            gain, more = (
                table.worth[rest[0]] - table.worth[table.chosen],
                table.share[rest[0]] - table.share[table.chosen],
            )
            slopes.append(float(gain / more[0]))
    return max(slopes)
