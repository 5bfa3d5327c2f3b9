"""A snapshot made ready for planning: sorted, whole numbers in fixed columns, the bounds of every job settled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import le
from statistics import median

from optimus_core.resources import is_device
from optimus_core.scheduling.request import spread
from optimus_core.scheduling.speeds import Pair, RateOf, Seconds
from optimus_core.scheduling.types import JobView, Node, Placement, PlanSettings, Pool, Size, Snapshot

Vector = tuple[int, ...]
"""Amounts in the order of ``Problem.resources``."""
ENDLESS = 2**60
"""More than there is of anything."""
Seats = dict[str, Pair]
"""Node name -> (servers, workers) there."""
_LEAST_WEIGHT = 1e-12
"""Of a job that would take for ever: it still counts."""


@dataclass(slots=True, eq=False)
class Row:
    """A job in planning. ``floor`` and ``ceiling`` bound its size; both are equal for one that must have that size."""

    job: JobView
    worker: Vector
    server: Vector
    extra: Vector
    present: Pair
    seats: Seats
    floor: Pair
    ceiling: Pair
    held: bool
    """It can't be changed at all."""
    deferred: bool
    """It is not to start yet, or not to run: no size for it now."""
    barred: frozenset[Pair]
    seconds: Seconds | None = None
    weight: float = 1.0
    """What a second of this job counts in the sum that the plan makes small."""
    trust: float = 1.0
    """Factor on its gain, below 1 while its estimates are unreliable."""
    restart: float = 0.0
    """Seconds that a change costs."""
    assumed_seconds: float | None = None
    """What it would take at its minimum, taken from other jobs since its own remaining work is unknown."""
    plain: tuple[bool, bool] = (False, False)
    """Whether its servers, and its workers, ask for no device."""
    still: bool = False
    """Only changed if it must be: nothing is known that speaks for a change, or it has just been changed."""

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def turn(self) -> tuple[bool, int, float, str]:
        """Order in which minimums are given: who was paused for others, then priority, then arrival."""
        return (self.job.state != "paused", -self.job.priority, self.job.arrived, self.job.name)

    def demand(self, size: Pair) -> Vector:
        """Return what ``size`` asks for in all."""
        if size == (0, 0):
            return (0,) * len(self.worker)
        return tuple(
            size[0] * s + size[1] * w + e for s, w, e in zip(self.server, self.worker, self.extra, strict=True)
        )

    def cost(self, size: Pair, moved: bool) -> float:
        """Return the weighted seconds to the end at ``size``, a restart included if it runs and is ``moved``."""
        seconds = self.seconds(size) if self.seconds is not None else 0.0
        return self.weight * (seconds + (self.restart if moved and self.present != (0, 0) else 0.0))


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool in planning."""

    name: str
    guaranteed: Vector
    ceiling: Vector
    """At least the guarantee; ``ENDLESS`` of what has none."""


@dataclass(slots=True)
class Problem:
    """All rows, by name, and what ready nodes offer."""

    resources: list[str]
    settings: PlanSettings
    nodes: list[Node]
    """Ready nodes by name."""
    offers: list[list[int]]
    """What each of them offers to our jobs."""
    rows: list[Row]
    capacity: Vector = field(default=())
    special: list[bool] = field(default_factory=list)
    """Which nodes have a device that others lack: replicas that need none keep off them while there is other room."""
    pools: list[PoolRow] = field(default_factory=list)
    """By name."""
    time: float = 0.0
    """Seconds since the epoch."""

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Return ``amounts`` in the order of the columns."""
        return tuple(amounts.get(name, 0) for name in self.resources)


def prepare(snapshot: Snapshot, rate_of: RateOf) -> Problem:
    """Return the planning problem of a snapshot; the order of its lists does not matter."""
    jobs = sorted(snapshot.jobs, key=lambda job: job.name)
    nodes = sorted((node for node in snapshot.nodes if node.ready), key=lambda node: node.name)
    problem = Problem(_columns(nodes, jobs), snapshot.settings, nodes, [], [])
    for node in nodes:
        others = problem.vector(node.others)
        problem.offers.append([max(0, a - o) for a, o in zip(problem.vector(node.allocatable), others, strict=True)])
    problem.capacity = tuple(sum(column) for column in zip(*problem.offers, strict=True)) or problem.vector({})
    problem.special = _special(nodes)
    problem.time = snapshot.time
    problem.pools = [_pool(problem, pool) for pool in sorted(snapshot.pools, key=lambda pool: pool.name)]
    ready = {node.name for node in nodes}
    problem.rows = [_on_one_node(problem, _row(problem, job, ready, snapshot.time)) for job in jobs]
    _estimate(problem, rate_of)
    return problem


def _columns(nodes: Sequence[Node], jobs: Sequence[JobView]) -> list[str]:
    names = {name for node in nodes for name in node.allocatable}
    for job in jobs:
        names |= {*job.worker_demand, *job.server_demand, *job.scheduler_demand}
    return sorted(names)


def _special(nodes: Sequence[Node]) -> list[bool]:
    """Say of each node whether it has a device that not all have: what is everywhere, such as a network's, is common.

    Whether others use it up does not matter: they may end.
    """
    has = [{name for name, amount in node.allocatable.items() if amount and is_device(name)} for node in nodes]
    common = set.intersection(*has) if has else set()
    return [bool(devices - common) for devices in has]


def _is_plain(demand: Mapping[str, int]) -> bool:
    return not any(amount and is_device(name) for name, amount in demand.items())


def _pool(problem: Problem, pool: Pool) -> PoolRow:
    guaranteed, ceiling = pool.limits(dict(zip(problem.resources, problem.capacity, strict=True)))
    most = tuple(ceiling.get(name, ENDLESS) for name in problem.resources)
    return PoolRow(pool.name, problem.vector(guaranteed), most)


def _row(problem: Problem, job: JobView, ready: set[str], now: float) -> Row:
    present = pair(job.size)
    held = present != (0, 0) and (not job.resizable or not ready.issuperset(job.placement))
    floor, ceiling = (present, present) if held else bounds(job)
    if floor == (0, 0) and present != (0, 0) and job.pinned is None:  # every other size is barred: nobody pauses it
        held, floor, ceiling = True, present, present
    young = problem.settings.young_factor if job.young or not is_known(job) else 1.0
    cost = problem.settings.default_restart_cost if job.restart_cost is None else job.restart_cost
    return Row(
        job=job,
        worker=problem.vector(job.worker_demand),
        server=problem.vector(job.server_demand),
        extra=problem.vector(job.scheduler_demand),
        present=present,
        seats={name: pair(size) for name, size in sorted(job.placement.items())} if present != (0, 0) else {},
        floor=floor,
        ceiling=ceiling,
        held=held,
        deferred=floor == (0, 0) or (present == (0, 0) and job.not_before is not None and job.not_before > now),
        barred=frozenset(pair(size) for size in job.barred),
        trust=young,
        plain=(_is_plain(job.server_demand), _is_plain(job.worker_demand)),
        restart=cost * (1 + problem.settings.min_gain),
    )


def _on_one_node(problem: Problem, row: Row) -> Row:
    """Bound a job that lies on one node by what the emptiest holds of each role beside the minimum of the other."""
    if row.job.colocate and not row.held and row.job.pinned is None:
        (servers, workers), (most_servers, most_workers) = row.floor, row.ceiling
        most = (
            _most(problem, row, [(s, workers) for s in range(servers, most_servers + 1)])[0],
            _most(problem, row, [(servers, w) for w in range(workers, most_workers + 1)])[1],
        )
        row.ceiling = smaller_of(row.ceiling, (max(most[0], row.present[0]), max(most[1], row.present[1])))
    return row


def _most(problem: Problem, row: Row, sizes: Sequence[Pair]) -> Pair:
    """Return the last of ``sizes``, which grow, that one empty node holds; the first if none does."""
    fits = [any(all(map(le, row.demand(size), offer)) for offer in problem.offers) for size in sizes]
    return sizes[max(0, sum(fits) - 1)]


def bounds(job: JobView) -> tuple[Pair, Pair]:
    """Return the least and the largest size that a job may have; (0, 0) twice if none is allowed now."""
    if job.pinned is not None:
        return pair(job.pinned), pair(job.pinned)
    served = job.strategy != "allreduce"
    low = (max(1, job.min_servers) if served else 0, job.min_workers)
    high = (max(low[0], job.max_servers) if served else 0, max(low[1], job.max_workers))
    barred = {pair(size) for size in job.barred} - {pair(job.size)}
    return _least_allowed(low, high, barred), high


def _least_allowed(low: Pair, high: Pair, barred: set[Pair]) -> Pair:
    if low not in barred:
        return low
    sizes = ((s, w) for s in range(low[0], high[0] + 1) for w in range(low[1], high[1] + 1))
    allowed = [size for size in sizes if size not in barred]
    return min(allowed, key=lambda size: (sum(size), size), default=(0, 0))


def _estimate(problem: Problem, rate_of: RateOf) -> None:
    rates = {row.name: rate for row in problem.rows if (rate := rate_of(row.job)) is not None}
    for row in problem.rows:
        if row.name in rates:
            row.seconds = Seconds(row.job, rates[row.name], _work(row.job))
    usual = _usual_seconds(problem.rows)
    for row in problem.rows:
        if usual is not None and row.seconds is not None and not is_known(row.job):
            speed = row.seconds.speed(row.floor)
            row.assumed_seconds = usual if speed > 0 else None
            row.seconds = Seconds(row.job, rates[row.name], usual * speed if speed > 0 else _work(row.job))
        _weigh(row, problem.settings)


def is_known(job: JobView) -> bool:
    """Say whether both what is left of a job and its speed in absolute terms are known."""
    return job.remaining.value is not None and not job.speed.get("is_default", False)


def _work(job: JobView) -> float:
    return 1.0 if job.remaining.value is None else job.remaining.value


def _usual_seconds(rows: Sequence[Row]) -> float | None:
    """Return the median of what the jobs that are known would take at their minimum."""
    known = [row.seconds(row.floor) for row in rows if row.seconds is not None and is_known(row.job)]
    return median(finite) if (finite := [seconds for seconds in known if math.isfinite(seconds)]) else None


def _weigh(row: Row, settings: PlanSettings) -> None:
    age = row.job.seconds_at_size
    fresh = row.present != (0, 0) and age is not None and age < settings.min_seconds_at_size
    row.still = row.seconds is None or fresh or bool(row.job.speed.get("is_default", False))
    if row.seconds is not None and settings.remaining_weight:
        seconds = row.seconds(row.floor)
        row.weight = max(max(seconds, 1.0) ** -settings.remaining_weight, _LEAST_WEIGHT)


def sizes_of(row: Row, size: Pair) -> list[Pair]:
    """Return the sizes that are compared, the minimum first; ``size``, which the job has, is among them."""
    (least_s, least_w), (most_s, most_w) = row.floor, row.ceiling
    grid = {(s, w) for s in spread(least_s, most_s) for w in spread(least_w, most_w)} - row.barred
    if size != (0, 0) and covers(size, row.floor):
        grid.add(size)
    return [row.floor, *sorted(grid - {row.floor})]


def covers(size: Pair, floor: Pair) -> bool:
    """Say whether ``size`` has at least the servers and the workers of ``floor``."""
    return size[0] >= floor[0] and size[1] >= floor[1]


def smaller_of(one: Pair, other: Pair) -> Pair:
    """Return the smaller number of each role."""
    return (min(one[0], other[0]), min(one[1], other[1]))


def pair(size: Size) -> Pair:
    """Return a size as (servers, workers)."""
    return (size.servers, size.workers)


def size_of(size: Pair) -> Size:
    """Return (servers, workers) as a size."""
    return Size(servers=size[0], workers=size[1])


def placement_of(seats: Seats) -> Placement:
    """Return seats as a placement."""
    return {name: size_of(seats[name]) for name in sorted(seats)}
