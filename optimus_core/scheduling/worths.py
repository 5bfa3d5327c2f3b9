"""What a second of each size of each job is worth, and what it takes of the cluster; see :mod:`.allocate`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from optimus_core.scheduling.request import NOTHING, Request, Size
from optimus_core.scheduling.space import EPSILON as _EPSILON
from optimus_core.scheduling.space import Floats

HORIZON = 900.0
"""Seconds over which a change has to pay: what comes later will be decided anew."""
URGENT = 4.0
"""At most so many times its weight counts a job that would miss its deadline: two steps of priority, so that it gets
more than its equals, and nobody is starved for it."""


@dataclass
class Table:
    """One job's sizes with (0, 0) before them if it may wait: worths and shares of every resource."""

    request: Request
    sizes: list[Size]
    worth: Floats
    share: Floats
    """(sizes, resources)"""
    longer: float
    chosen: int = 0
    hull: list[int] = field(default_factory=list)


def shares_of(request: Request, resources: Sequence[str], capacity: Mapping[str, float]) -> Floats:
    """Return sizes by resources: what each size takes, as shares of the cluster; infinite of what is not there."""
    table = np.zeros((len(request.sizes), len(resources)))
    for column, resource in enumerate(resources):
        if resource in request.demand:
            asked, whole = np.asarray(request.demand[resource]), capacity.get(resource, 0.0)
            table[:, column] = asked / whole if whole > 0 else np.where(asked > 0, np.inf, 0.0)
    return table


def tables_of(requests: Sequence[Request], shares: Sequence[Floats], makespan: float) -> list[Table]:
    """Return a table for each request; those of unknown remaining work count as one of median length."""
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


def _table(request: Request, worth: Floats, share: Floats, longer: float) -> Table:
    """Return what a job may choose from; one whose remaining work is unknown only has its minimum, or its present."""
    rows = list(range(len(request.sizes)))
    if request.remaining is None:
        rows = [0] if request.present not in request.sizes else [list(request.sizes).index(request.present)]
    sizes, worth, share = [request.sizes[i] for i in rows], worth[rows], share[rows]
    fits = np.flatnonzero(np.isfinite(share).all(axis=1))
    sizes, worth, share = [sizes[i] for i in fits], worth[fits], share[fits]
    if not sizes or (request.may_pause and request.remaining is not None):
        none = np.zeros((1, share.shape[1]))
        return Table(request, [NOTHING, *sizes], np.append(0.0, worth), np.vstack([none, share]), longer)
    return Table(request, sizes, worth, share, longer)
