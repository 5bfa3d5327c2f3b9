"""Priced shortest-remaining-work-first: sizes for all jobs at once, over any number of resources.

A share of the cluster that job i holds for a second delays the jobs that are longer than it. So a second of that share
costs as much as those jobs weigh, and a step of i is worth what it costs at the size where it costs least:

    c_i = min over sizes s of (b_i + Q_i * share(s)) * T_i(s),   b_i the job's weight, Q_i that of all longer jobs

with T_i(s) seconds a step (its standard deviation added) and share(s) that of the dominant resource. The worth of
having size s is c_i / T_i(s), less a part for a change: h / (h + C) of it, with C the seconds of a change and h those
until the job ends, at most 900. A job that would miss its deadline at its minimum weighs more.
The sizes that are chosen make the sum of worths large. On one resource that is the walk along each job's concave
envelope, best worth per share first; on several, prices per resource (those of the Lagrangian dual) make one of them.
Small problems are solved exactly.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from optimus_core.scheduling.request import NOTHING, Quota, Request, Size
from optimus_core.scheduling.space import EPSILON as _EPSILON
from optimus_core.scheduling.space import Floats, Space, useful

HORIZON = 900.0
"""Seconds over which a change has to pay: what comes later will be decided anew."""
URGENT = 4.0
"""At most so many times its weight counts a job that would miss its deadline: two steps of priority, so that it gets
more than its equals, and nobody is starved for it."""
EXACT = 120
"""Sizes in all up to which the problem is solved exactly."""
_PRICE_STEPS = 60


@dataclass(frozen=True)
class Choice:
    """What one job gets, and the numbers behind it."""

    size: Size
    worth: float
    """Worth of a second at this size, in the weight of jobs; the present size is not charged for a change."""
    price: float
    """What a second of this size costs at the prices of the resources, in the same unit."""
    longer: float
    """Weight of the jobs that have more left to do than this one: they wait for what it holds."""
    seconds: float | None
    """Until it is done at this size; None if unknown or waiting."""
    late: float | None
    """Seconds after its deadline that it will be done; None if in time, unknown, or without one."""


@dataclass(frozen=True)
class Allocation:
    """The choices by job, and the prices of the resources that belong to them."""

    choices: dict[str, Choice]
    prices: dict[str, float]
    """Resource -> price of the whole of it for a second; give them to the next call."""
    worth: float
    """Sum of all worths."""
    worths: dict[str, dict[Size, float]] = field(repr=False)
    """Job -> worth of a second at each size that it may have."""
    bound: float
    """No allocation is worth more than this (the Lagrangian bound, or the exact optimum)."""


@dataclass
class _Table:
    """One job's sizes with (0, 0) before them if it may wait: worths and shares of every resource."""

    request: Request
    sizes: list[Size]
    worth: Floats
    share: Floats
    """(sizes, resources)"""
    longer: float
    chosen: int = 0
    hull: list[int] = field(default_factory=list)


def allocate(
    requests: Sequence[Request],
    capacity: Mapping[str, float],
    *,
    pools: Mapping[str, Quota] | None = None,
    prices: Mapping[str, float] | None = None,
    makespan: float = 0.0,
    exact: int = EXACT,
) -> Allocation:
    """Return a size for every request, together within ``capacity``.

    Args:
        requests: the jobs, names all different; their order does not matter.
        capacity: resource -> how much there is; a resource that is not named here is not there.
        pools: by name, what they are guaranteed and may have at most; a pool that is not named here has no limit, and
            only borrows. First come the minimums of those that may not be paused (within guarantees before others),
            then sizes within guarantees, then what is left. A guarantee that can't be used is lent.
        prices: those of the last call, from which the search begins.
        makespan: 0 for the shortest average completion; 2 keeps longer jobs going for a shorter makespan.
        exact: solve exactly up to this many sizes in all.

    Raises:
        ValueError: two requests have the same name, or capacity has a negative amount.
    """
    ordered = sorted(requests, key=lambda request: request.name)
    if len({request.name for request in ordered}) < len(ordered):
        raise ValueError("two requests have the same name; give each its own")
    if any(not amount >= 0 for amount in capacity.values()):
        raise ValueError(f"capacity is {dict(capacity)}; amounts are at least 0")
    resources = sorted({*capacity, *(r for request in ordered for r in request.demand)})
    shares = [_shares(request, resources, capacity) for request in ordered]
    tables = _tables(ordered, shares, makespan)
    space = Space(_limits(pools or {}, resources, capacity), len(resources))
    _minimums(tables, space)
    free = [table for table in tables if len(table.sizes) > 1]
    price, bound = _maximise(free, space, resources, prices or {}, exact)
    worth = math.fsum(float(t.worth[t.chosen]) for t in tables)
    fixed = math.fsum(float(t.worth[t.chosen]) for t in tables if len(t.sizes) == 1)
    return Allocation(
        {t.request.name: _choice(t, price) for t in tables},
        dict(zip(resources, price.tolist(), strict=True)),
        worth,
        {t.request.name: dict(zip(t.sizes, t.worth.tolist(), strict=True)) for t in tables},
        max(worth, bound + fixed),
    )


def _limits(
    pools: Mapping[str, Quota], resources: Sequence[str], capacity: Mapping[str, float]
) -> dict[str, tuple[Floats, Floats]]:
    """Return pool -> (guaranteed, ceiling), as shares of the cluster; of what is not there nothing is guaranteed."""

    def shares(amounts: Mapping[str, float], otherwise: float) -> Floats:
        wholes = [(amounts.get(resource), capacity.get(resource, 0.0)) for resource in resources]
        return np.array([otherwise if a is None else a / whole if whole > 0 else 0.0 for a, whole in wholes])

    return {name: (shares(quota.guaranteed, 0.0), shares(quota.ceiling, math.inf)) for name, quota in pools.items()}


def _shares(request: Request, resources: Sequence[str], capacity: Mapping[str, float]) -> Floats:
    """Return sizes by resources: what each size takes, as shares of the cluster; infinite of what is not there."""
    table = np.zeros((len(request.sizes), len(resources)))
    for column, resource in enumerate(resources):
        if resource in request.demand:
            asked, whole = np.asarray(request.demand[resource]), capacity.get(resource, 0.0)
            table[:, column] = asked / whole if whole > 0 else np.where(asked > 0, np.inf, 0.0)
    return table


def _tables(requests: Sequence[Request], shares: Sequence[Floats], makespan: float) -> list[_Table]:
    dominant = [np.maximum(share.max(axis=1, initial=0.0), _EPSILON) for share in shares]
    with np.errstate(invalid="ignore"):  # no time of what is not there: told apart below
        costs = [_seconds(request) * share for request, share in zip(requests, dominant, strict=True)]
    cheapest = [int(share.argmin()) for share in dominant]
    work = [
        math.nan if request.remaining is None else request.remaining * float(cost[at])
        for request, cost, at in zip(requests, costs, cheapest, strict=True)
    ]
    known = [each for each in work if math.isfinite(each)]
    usual = float(np.median(known)) if known else 1.0
    work = [usual if math.isnan(each) else each for each in work]
    longer = _longer(requests, work)
    tables = []
    for request, share, most, behind, left in zip(requests, shares, dominant, longer, work, strict=True):
        base, weight = weight_of(request), behind + makespan
        if behind == 0:
            base, weight = base + makespan, 0.0
        worth = _worth(request, most, base, weight, left / max(float(most.min()), _EPSILON))
        tables.append(_table(request, worth, share, behind))
    return tables


def _seconds(request: Request) -> Floats:
    """Return seconds a step as they are counted on: an uncertain one counts as slower by its deviation."""
    return np.add(request.seconds, request.deviation, dtype=np.float64)


def weight_of(request: Request) -> float:
    """Return what a second of a job counts: more if at its minimum it would end after its deadline.

    Times what it still takes at its minimum over what is left until the deadline, between 1 and ``URGENT``. The present
    size plays no part, so that a job does not lose again what it got for its deadline.
    """
    if request.deadline is None or request.remaining is None:
        return request.weight
    least = request.remaining * float(_seconds(request)[0])
    over = least / request.deadline if request.deadline > 0 else URGENT
    return request.weight * min(URGENT, max(1.0, over))


def _longer(requests: Sequence[Request], work: Sequence[float]) -> list[float]:
    """Return for each request the weight of those that come after it: more work for each unit of weight."""
    order = sorted(range(len(requests)), key=lambda i: (work[i] / weight_of(requests[i]), requests[i].name))
    behind, longer = 0.0, [0.0] * len(requests)
    for index in reversed(order):
        longer[index] = behind
        behind += weight_of(requests[index])
    return longer


def _worth(request: Request, share: Floats, base: float, weight: float, usual_left: float) -> Floats:
    seconds = _seconds(request)
    advances = np.isfinite(seconds) & np.isfinite(share)
    if not advances.any():
        return np.zeros(len(seconds))
    seconds = np.where(advances, np.maximum(seconds, _EPSILON), np.inf)
    unit = float(((base + weight * share[advances]) * seconds[advances]).min())
    left = np.full(len(seconds), usual_left) if request.remaining is None else request.remaining * seconds
    horizon = np.minimum(left, HORIZON)
    charged = horizon / np.maximum(horizon + request.change_cost, _EPSILON)
    kept = np.array([size == request.present for size in request.sizes])
    return np.where(advances, unit / seconds * np.where(kept, 1.0, charged), 0.0)


def _table(request: Request, worth: Floats, share: Floats, longer: float) -> _Table:
    """Return what a job may choose from; one whose remaining work is unknown only has its minimum, or its present."""
    rows = list(range(len(request.sizes)))
    if request.remaining is None:
        rows = [0] if request.present not in request.sizes else [list(request.sizes).index(request.present)]
    sizes, worth, share = [request.sizes[i] for i in rows], worth[rows], share[rows]
    fits = np.flatnonzero(np.isfinite(share).all(axis=1))
    sizes, worth, share = [sizes[i] for i in fits], worth[fits], share[fits]
    if not sizes or (request.may_pause and request.remaining is not None):
        none = np.zeros((1, share.shape[1]))
        return _Table(request, [NOTHING, *sizes], np.append(0.0, worth), np.vstack([none, share]), longer)
    return _Table(request, sizes, worth, share, longer)


def _minimums(tables: Sequence[_Table], space: Space) -> None:
    """Take the minimums of all that may not wait; who does not fit waits, and lets others pass."""
    must = [table for table in tables if table.sizes[0] != NOTHING]
    later = []
    for table in sorted(must, key=lambda table: (table.request.rank, table.request.name)):
        if not space.pools or space.is_guaranteed(table.request.pool, table.share[0]):
            _take_minimum(table, space)
        else:
            later.append(table)
    for table in later:
        _take_minimum(table, space)


def _take_minimum(table: _Table, space: Space) -> None:
    if space.fits(table.request.pool, table.share[0]):
        space.take(table.request.pool, table.share[0])
    else:
        table.sizes, table.worth = [NOTHING], np.zeros(1)
        table.share = np.zeros((1, len(space.left)))


def _maximise(
    tables: Sequence[_Table], space: Space, resources: Sequence[str], last: Mapping[str, float], exact: int
) -> tuple[Floats, float]:
    """Choose for each table; return the prices of the resources and a bound on what can be had."""
    if not tables:
        return np.zeros(len(resources)), 0.0
    flat, room = _Flat(tables), space.left.copy()
    start = np.array([last.get(resource, 0.0) for resource in resources])
    price, bound = _prices(flat, room, start) if len(room) > 1 else (np.ones(1), math.inf)
    space.keep(useful((table.request.pool, _most_useful(table)) for table in tables))
    weights = price if price.any() else np.ones(len(room))
    before = space.copy()
    _walk(tables, space, weights)
    best = _solved(tables, flat, before) if len(flat.worth) <= exact and _wants_more(tables) else None
    if best is not None and flat.total(best) > flat.total([t.chosen for t in tables]) * (1 + _EPSILON):
        for table, chosen in zip(tables, best, strict=True):
            space.take(table.request.pool, table.share[chosen] - table.share[table.chosen])
            table.chosen = chosen
    if space.release():
        _walk(tables, space, weights)
    if len(room) == 1:
        price = np.array([_marginal(tables)]) if _is_full(space.left) else np.zeros(1)
        bound = flat.dual(price, room)[0]
    return price, bound


def _wants_more(tables: Sequence[_Table]) -> bool:
    """Say whether some job has not the size that is worth most to it: if all have, nothing is left to be solved."""
    return any(table.worth[table.chosen] < table.worth.max() * (1 - _EPSILON) for table in tables)


def _most_useful(table: _Table) -> Floats:
    """Return what a job takes beyond its minimum at the size that is worth most."""
    return np.asarray(table.share[int(table.worth.argmax())] - table.share[0])


def _is_full(left: Floats) -> bool:
    return bool(left[0] < 1.0)


def _marginal(tables: Sequence[_Table]) -> float:
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


class _Flat:
    """All sizes of all jobs in one table, so that every job's best choice is found at once.

    Shares are those beyond what the job holds anyway (its first row).
    """

    def __init__(self, tables: Sequence[_Table]) -> None:
        counts = [len(table.sizes) for table in tables]
        self.starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)
        self.job = np.repeat(np.arange(len(tables)), counts)
        self.worth = np.concatenate([table.worth for table in tables])
        self.share = np.vstack([table.share - table.share[0] for table in tables])

    def dual(self, price: Floats, room: Floats) -> tuple[float, Floats]:
        """Return the Lagrangian bound at ``price`` and what all best choices use together."""
        profit = self.worth - self.share @ price
        best = np.maximum.reduceat(profit, self.starts)
        candidates = np.flatnonzero(profit >= best[self.job])
        first = candidates[np.diff(self.job[candidates], prepend=-1) > 0]
        return float(best.sum() + price @ room), self.share[first].sum(axis=0)

    def total(self, chosen: Sequence[int]) -> float:
        """Return the sum of worths."""
        return float(self.worth[self.starts + np.array(chosen)].sum())


def _prices(flat: _Flat, room: Floats, start: Floats) -> tuple[Floats, float]:
    """Return the prices with the least Lagrangian bound: where use exceeds room they rise, elsewhere they fall."""
    scale = max(float(np.maximum.reduceat(flat.worth, flat.starts).sum()), _EPSILON)
    price = start if start.any() else np.full(len(room), scale / len(room) / 2)
    best, bound, step, since = price, math.inf, 0.5, 0
    for _ in range(_PRICE_STEPS):
        value, used = flat.dual(price, room)
        if value < bound * (1 - 1e-6):
            best, bound, since = price, value, 0
        elif (since := since + 1) > 2:
            step, since, price = step / 2, 0, best
            value, used = flat.dual(price, room)
        excess = used - room
        price = np.maximum(0.0, price + step * scale * excess / max(float(np.abs(excess).sum()), 1.0) / 2)
        if step < 1e-3:
            break
    return best, bound


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


def _walk(tables: Sequence[_Table], space: Space, price: Floats) -> None:
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


def _next(table: _Table, cost: Floats) -> int:
    """Return the step of the envelope after what is chosen."""
    if table.chosen == 0:
        return 1
    own = (cost[table.chosen], table.worth[table.chosen])
    steps = (s for s, row in enumerate(table.hull) if cost[row] > own[0] and table.worth[row] > own[1])
    return next(steps, len(table.hull))


def _offer(heap: list[tuple[float, int, int]], index: int, table: _Table, cost: Floats, step: int) -> None:
    if step < len(table.hull):
        row, before = table.hull[step], table.chosen
        gain = float(table.worth[row] - table.worth[before])
        heapq.heappush(heap, (-gain / max(float(cost[row] - cost[before]), _EPSILON), index, step))


def _fill(table: _Table, space: Space) -> None:
    """Give a job whose next step does not fit the best size that does."""
    own = table.share[table.chosen]
    fits = space.fits(table.request.pool, table.share - own)
    best = int(np.where(fits, table.worth, -1.0).argmax())
    if table.worth[best] > table.worth[table.chosen] * (1 + _EPSILON):
        space.take(table.request.pool, table.share[best] - own)
        table.chosen = best


def _solved(tables: Sequence[_Table], flat: _Flat, space: Space) -> list[int] | None:
    """Return the optimum by integer programming; None if the solver gives none.

    Variables: each size of each job, and what each pool borrows beyond what is kept for it.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # a second to import: only where jobs lack room
    from scipy.sparse import csr_array

    names, count = list(space.pools), len(flat.worth)
    pool = np.array([table.request.pool for table in tables])[flat.job]
    inside = {name: np.where(pool == name, flat.share.T, 0.0) for name in names}
    free = np.where(np.isin(pool, names), 0.0, flat.share.T)
    width, one = len(space.left), np.eye(len(space.left))
    rows = [np.hstack([free, *[one] * len(names)])]
    most = [space.left + _EPSILON]
    for number, (name, limits) in enumerate(space.pools.items()):
        lent = np.zeros((width, width * len(names)))
        lent[:, number * width : (number + 1) * width] = -one
        rows += [np.hstack([inside[name], lent]), np.hstack([inside[name], np.zeros_like(lent)])]
        most += [np.maximum(limits.kept - limits.used, 0.0), np.maximum(limits.ceiling - limits.used, 0.0) + _EPSILON]
    once = np.hstack([flat.job == np.arange(len(tables))[:, None], np.zeros((len(tables), width * len(names)))])
    found = milp(
        np.append(-flat.worth / max(float(flat.worth.max()), _EPSILON), np.zeros(width * len(names))),
        integrality=np.append(np.ones(count), np.zeros(width * len(names))),
        bounds=Bounds(0, np.append(np.ones(count), np.full(width * len(names), np.inf))),
        constraints=[
            LinearConstraint(csr_array(once.astype(float)), 1, 1),
            LinearConstraint(csr_array(np.vstack(rows)), -np.inf, np.concatenate(most)),
        ],
        options={"mip_rel_gap": 1e-9},
    )
    if found.x is None:
        return None
    chosen = np.flatnonzero(np.round(found.x[:count]) > 0)
    return (chosen - flat.starts).tolist() if len(chosen) == len(flat.starts) else None


def _choice(table: _Table, price: Floats) -> Choice:
    request, size = table.request, table.sizes[table.chosen]
    seconds = None
    if size != NOTHING and request.remaining is not None:
        at = float(np.asarray(request.seconds)[list(request.sizes).index(size)])
        seconds = request.remaining * at if math.isfinite(at) else None
    late = None if seconds is None or request.deadline is None else seconds - request.deadline
    return Choice(
        size,
        float(table.worth[table.chosen]),
        float(table.share[table.chosen] @ price),
        table.longer,
        seconds,
        late if late is not None and late > 0 else None,
    )
