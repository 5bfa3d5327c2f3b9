"""What Optimus is compared with: plans that know nothing of convergence and speed.

Both keep what runs as it is placed, start jobs in order of arrival while they fit, and never shrink anything for a
new job, except fair shares, which deal all room anew whenever asked.
"""

from __future__ import annotations

import heapq

from optimus_core.scheduling.admission import Standing
from optimus_core.scheduling.allocation import share
from optimus_core.scheduling.explain import explain
from optimus_core.scheduling.placement import Room
from optimus_core.scheduling.rows import Problem, Row, pair, prepare
from optimus_core.scheduling.speeds import Pair, RateOf, model_rate
from optimus_core.scheduling.types import Plan, Size, Snapshot


def equal_sizes(snapshot: Snapshot, size: Size, rate_of: RateOf = model_rate) -> Plan:
    """Return the plan in which every job gets ``size`` within its bounds, for good, first come first served."""
    problem = prepare(snapshot, rate_of)
    standing = _running(problem, problem.rows)
    for row in sorted(problem.rows, key=lambda row: row.turn):
        if row.present == (0, 0) and not row.deferred:
            _start(standing, row, _within(row, pair(size)))
    return explain(snapshot, problem, standing)


def fair_shares(snapshot: Snapshot, rate_of: RateOf = model_rate) -> Plan:
    """Return the plan of dominant resource fairness: who has the smallest dominant share gets the next replicas.

    Source: Ghodsi et al., "Dominant Resource Fairness" (NSDI 2011). Each next worker of a job with parameter servers
    comes with a server while its bounds allow it. A job whose shares can't be placed keeps what was found before.
    """
    problem = prepare(snapshot, rate_of)
    standing = _running(problem, [row for row in problem.rows if row.held])
    order = sorted((row for row in problem.rows if not row.held and not row.deferred), key=lambda row: row.turn)
    for row in sorted(order, key=lambda row: row.present == (0, 0)):
        _start(standing, row, row.floor)
    _deal(problem, standing, [row for row in order if standing.seats[row.name]])
    return explain(snapshot, problem, standing)


def _running(problem: Problem, kept: list[Row]) -> Standing:
    room = Room([node.name for node in problem.nodes], problem.offers, len(problem.resources))
    standing = Standing(room, {row.name: {} for row in problem.rows})
    for row in kept:
        standing.put(row, row.seats)
    return standing


def _start(standing: Standing, row: Row, size: Pair) -> None:
    seats = standing.room.place(row, size)
    if seats is None:
        standing.waiting.append(row)
    else:
        standing.put(row, seats)


def _within(row: Row, size: Pair) -> Pair:
    servers, workers = (
        min(max(amount, low), high) for amount, low, high in zip(size, row.floor, row.ceiling, strict=True)
    )
    return (servers, workers)


def _deal(problem: Problem, standing: Standing, rows: list[Row]) -> None:
    heap = [(_share(problem, standing, row), index) for index, row in enumerate(rows)]
    heapq.heapify(heap)
    while heap:
        _, index = heapq.heappop(heap)
        if _more(standing, rows[index]):
            heapq.heappush(heap, (_share(problem, standing, rows[index]), index))
    for row in rows:
        _settle(standing, row)


def _share(problem: Problem, standing: Standing, row: Row) -> float:
    return share(row.demand(standing.size(row)), problem.capacity)


def _more(standing: Standing, row: Row) -> bool:
    size, own = standing.size(row), standing.seats[row.name]
    larger = (min(size[0] + 1, row.ceiling[0]), min(size[1] + 1, row.ceiling[1]))
    if larger == size or larger in row.barred:
        return False
    standing.put(row, {})
    seats = standing.room.place(row, larger)
    standing.put(row, own if seats is None else seats)
    return seats is not None


def _settle(standing: Standing, row: Row) -> None:
    """Keep the present nodes of a job whose size has come out the same, if they are free."""
    if row.seats and standing.size(row) == row.present and standing.moved(row):
        own = standing.seats[row.name]
        standing.put(row, {})
        standing.put(row, row.seats if standing.room.holds(row, row.seats) else own)
