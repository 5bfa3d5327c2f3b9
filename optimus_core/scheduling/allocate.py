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

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from optimus_core.scheduling.exact import solved
from optimus_core.scheduling.prices import Flat, prices_for
from optimus_core.scheduling.request import NOTHING, Quota, Request, Size
from optimus_core.scheduling.space import EPSILON as _EPSILON
from optimus_core.scheduling.space import Floats, Space, useful
from optimus_core.scheduling.walk import marginal, walk
from optimus_core.scheduling.worths import Table, shares_of, tables_of

EXACT = 120
"""Sizes in all up to which the problem is solved exactly."""


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
    shares = [shares_of(request, resources, capacity) for request in ordered]
    tables = tables_of(ordered, shares, makespan)
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


def _minimums(tables: Sequence[Table], space: Space) -> None:
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


def _take_minimum(table: Table, space: Space) -> None:
    if space.fits(table.request.pool, table.share[0]):
        space.take(table.request.pool, table.share[0])
    else:
        table.sizes, table.worth = [NOTHING], np.zeros(1)
        table.share = np.zeros((1, len(space.left)))


def _maximise(
    tables: Sequence[Table], space: Space, resources: Sequence[str], last: Mapping[str, float], exact: int
) -> tuple[Floats, float]:
    """Choose for each table; return the prices of the resources and a bound on what can be had."""
    if not tables:
        return np.zeros(len(resources)), 0.0
    flat, room = Flat(tables), space.left.copy()
    start = np.array([last.get(resource, 0.0) for resource in resources])
    price, bound = prices_for(flat, room, start) if len(room) > 1 else (np.ones(1), math.inf)
    space.keep(useful((table.request.pool, _most_useful(table)) for table in tables))
    weights = price if price.any() else np.ones(len(room))
    before = space.copy()
    walk(tables, space, weights)
    best = solved(tables, flat, before) if len(flat.worth) <= exact and _wants_more(tables) else None
    if best is not None and flat.total(best) > flat.total([t.chosen for t in tables]) * (1 + _EPSILON):
        for table, chosen in zip(tables, best, strict=True):
            space.take(table.request.pool, table.share[chosen] - table.share[table.chosen])
            table.chosen = chosen
    if space.release():
        walk(tables, space, weights)
    if len(room) == 1:
        price = np.array([marginal(tables)]) if _is_full(space.left) else np.zeros(1)
        bound = flat.dual(price, room)[0]
    return price, bound


def _wants_more(tables: Sequence[Table]) -> bool:
    """Say whether some job has not the size that is worth most to it: if all have, nothing is left to be solved."""
    return any(table.worth[table.chosen] < table.worth.max() * (1 - _EPSILON) for table in tables)


def _most_useful(table: Table) -> Floats:
    """Return what a job takes beyond its minimum at the size that is worth most."""
    return np.asarray(table.share[int(table.worth.argmax())] - table.share[0])


def _is_full(left: Floats) -> bool:
    return bool(left[0] < 1.0)


def _choice(table: Table, price: Floats) -> Choice:
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
