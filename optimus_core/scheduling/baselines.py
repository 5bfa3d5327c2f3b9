"""What Optimus is compared with: the paper's own rule, and rules that know less.

Policies of fixed sizes (FIFO, SRTF, Tetris) give each job the size half-way between its minimum and maximum, or its
minimum if that can never fit. Those of shares (DRF, equal share) and the paper's rule deal all room anew each time.
None of them charges for a change; what keeps its size keeps its nodes where they are free.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from optimus_core.scheduling.admission import Standing
from optimus_core.scheduling.allocation import ONE_REPLICA, share
from optimus_core.scheduling.explain import explain
from optimus_core.scheduling.placement import Room
from optimus_core.scheduling.rows import Problem, Row, pair, prepare
from optimus_core.scheduling.settle import fill
from optimus_core.scheduling.speeds import Pair, RateOf, model_rate
from optimus_core.scheduling.types import Plan, Size, Snapshot

Measure = Callable[[Problem, Standing, Row], float]
"""What a job has already; who has least is next."""


def paper(snapshot: Snapshot, rate_of: RateOf = model_rate) -> Plan:
    """Return the plan of the Optimus paper: minimums in order of arrival, then room by marginal gain, all dealt anew.

    One replica after another, a worker or a server, goes to the job that gains most by it,

        (Q / f(p, w) - Q / f(p, w + 1)) / (demand of the dominant resource, as a share of the cluster)

    for a worker and likewise for a server, times ``young_factor`` for a young job, until none gains or none fits.
    Nothing is charged for a change. Placed as in :mod:`.placement`; sizes that can't be placed whole are shrunk.

    Source: Peng et al. (EuroSys 2018), sections 4 and 5.
    """
    problem = prepare(snapshot, rate_of)
    standing, rows = _minimums(problem)
    fill(problem, standing, rows, ONE_REPLICA)
    for row in rows:
        _settle(standing, row)
    return explain(snapshot, problem, standing)


def fifo(snapshot: Snapshot, rate_of: RateOf = model_rate) -> Plan:
    """Return the plan in which jobs start with fixed sizes in order of arrival, and keep them to their end.

    A job that does not fit holds up all that came after it.
    """
    problem = prepare(snapshot, rate_of)
    standing = _running(problem, problem.rows)
    queue = sorted(_startable(problem), key=lambda row: row.turn)
    whole = _empty(problem)
    for position, row in enumerate(queue):
        _start(standing, row, _fixed(whole, row))
        if not standing.seats[row.name] and whole.place(row, row.floor) is not None:
            standing.waiting += queue[position + 1 :]
            break
    return explain(snapshot, problem, standing)


def srtf(snapshot: Snapshot, rate_of: RateOf = model_rate) -> Plan:
    """Return the plan of shortest remaining time first: fixed sizes, whoever is done first goes first.

    Longer jobs are paused for shorter ones; those of which nothing is known come last.
    """
    problem = prepare(snapshot, rate_of)
    standing = _running(problem, [row for row in problem.rows if row.held])
    whole = _empty(problem)
    sizes = {row.name: _fixed(whole, row) for row in problem.rows}
    wanting = [row for row in problem.rows if not row.held and not row.deferred]
    for row in sorted(wanting, key=lambda row: (_seconds(row, sizes[row.name]), row.turn)):
        size = sizes[row.name]
        if row.seats and size == row.present and standing.room.holds(row, row.seats):
            standing.put(row, row.seats)
        else:
            _start(standing, row, size)
    return explain(snapshot, problem, standing)


def tetris(snapshot: Snapshot, rate_of: RateOf = model_rate) -> Plan:
    """Return the plan of Tetris: fixed sizes; next is who fits the free room best and has least left to do.

    Source: Grandl et al., "Multi-Resource Packing for Cluster Schedulers" (SIGCOMM 2014): the score is the dot product
    of demand and free room, both as shares of the cluster, minus the remaining time, scaled so that both weigh the
    same on average. Nothing that runs is stopped.
    """
    problem = prepare(snapshot, rate_of)
    standing = _running(problem, problem.rows)
    whole = _empty(problem)
    sizes = {row.name: _fixed(whole, row) for row in problem.rows}
    rows = _startable(problem)
    left = {row.name: _seconds(row, sizes[row.name]) for row in rows}
    while rows:
        row = _best_packed(problem, standing, rows, sizes, left)
        rows.remove(row)
        _start(standing, row, sizes[row.name])
    return explain(snapshot, problem, standing)


def equal_share(snapshot: Snapshot, rate_of: RateOf = model_rate) -> Plan:
    """Return the plan in which all jobs have as many workers as each other, as far as room and bounds allow."""
    return _shared(snapshot, rate_of, lambda _, standing, row: float(sum(standing.size(row))))


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
    return _shared(snapshot, rate_of, _share)


def _shared(snapshot: Snapshot, rate_of: RateOf, measure: Measure) -> Plan:
    problem = prepare(snapshot, rate_of)
    standing, rows = _minimums(problem)
    _deal(problem, standing, rows, measure)
    return explain(snapshot, problem, standing)


def _minimums(problem: Problem) -> tuple[Standing, list[Row]]:
    """Return the standing in which all have their minimum who fit, running ones first, and who may have more."""
    standing = _running(problem, [row for row in problem.rows if row.held])
    order = sorted((row for row in problem.rows if not row.held and not row.deferred), key=lambda row: row.turn)
    for row in sorted(order, key=lambda row: row.present == (0, 0)):
        _start(standing, row, row.floor)
    return standing, [row for row in order if standing.seats[row.name]]


def _startable(problem: Problem) -> list[Row]:
    return [row for row in problem.rows if row.present == (0, 0) and not row.deferred]


def _empty(problem: Problem) -> Room:
    return Room.of(problem)


def _fixed(whole: Room, row: Row) -> Pair:
    """Return the size half-way between minimum and maximum; the minimum if that is barred or can never fit."""
    size = ((row.floor[0] + row.ceiling[0]) // 2, (row.floor[1] + row.ceiling[1]) // 2)
    return row.floor if size in row.barred or whole.place(row, size) is None else size


def _seconds(row: Row, size: Pair) -> float:
    return row.seconds(size) if row.seconds is not None else math.inf


def _best_packed(
    problem: Problem, standing: Standing, rows: list[Row], sizes: dict[str, Pair], left: dict[str, float]
) -> Row:
    room = standing.room.total()
    fits = {
        row.name: math.fsum(
            asked / whole * free / whole
            for asked, free, whole in zip(row.demand(sizes[row.name]), room, problem.capacity, strict=True)
            if whole
        )
        for row in rows
    }
    times = [left[row.name] for row in rows if math.isfinite(left[row.name])]
    scale = math.fsum(fits.values()) / len(rows) / (math.fsum(times) / len(times) or 1.0) if times else 0.0

    def score(row: Row) -> float:
        return fits[row.name] - scale * left[row.name] if math.isfinite(left[row.name]) else -math.inf

    return min(rows, key=lambda row: (-score(row), row.turn))


def _running(problem: Problem, kept: list[Row]) -> Standing:
    room = Room.of(problem)
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


def _deal(problem: Problem, standing: Standing, rows: list[Row], measure: Measure) -> None:
    heap = [(measure(problem, standing, row), index) for index, row in enumerate(rows)]
    heapq.heapify(heap)
    while heap:
        _, index = heapq.heappop(heap)
        if _more(standing, rows[index]):
            heapq.heappush(heap, (measure(problem, standing, rows[index]), index))
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
