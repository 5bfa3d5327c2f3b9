"""The plan by price: sizes from :mod:`.allocate`, then nodes, then a look whether the change is worth it.

Who keeps its size keeps its nodes; the others are placed largest first, best fit. With ``pausing = "never"`` all who
were admitted keep at least their minimum. With ``"auto"`` a job whose remaining work is known, and which has a
confirmed checkpoint if it runs, may have nothing for a while, but not for longer than ``max_paused`` in all. What pools
are guaranteed and may have at most comes before what sizes are worth.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from optimus_core.scheduling.admission import Standing, admit
from optimus_core.scheduling.allocate import Choice, allocate
from optimus_core.scheduling.allocation import share
from optimus_core.scheduling.explain import explain
from optimus_core.scheduling.pausing import is_overdue, make_room, may_wait
from optimus_core.scheduling.placement import shrunk_seats
from optimus_core.scheduling.quotas import Quotas, Whole
from optimus_core.scheduling.request import NOTHING, Quota, Request
from optimus_core.scheduling.rows import Problem, Row, covers, is_known, prepare, sizes_of
from optimus_core.scheduling.settle import after
from optimus_core.scheduling.speeds import Pair, RateOf, model_rate
from optimus_core.scheduling.types import Plan, Snapshot

_ROUNDS = 8
"""How often a plan is planned again until it comes to rest; the sum of worths rises each time."""
_LEAST_GAIN = 1e-6
"""A relative rise of that sum below this is a rounding error."""
_TRIES = 4
"""Larger sizes of a job that are tried on room that is left over."""
_MOST_DOUBLINGS = 10
"""A job's weight doubles with each step of priority, at most so often."""


def priced(snapshot: Snapshot, rate_of: RateOf = model_rate) -> Plan:
    """Return the plan that makes the worth of all sizes large: shortest remaining work first, at a price."""
    problem = prepare(snapshot, rate_of)
    standing, offers = _solve(problem)
    for _ in range(_ROUNDS if _changes(problem, standing) else 0):
        again, _ = _solve(after(problem, standing))
        if again.seats == standing.seats:
            break
        standing = again
    return _with_numbers(explain(snapshot, problem, standing), offers)


def _changes(problem: Problem, standing: Standing) -> bool:
    """Say whether anybody shall have another size or other nodes; if not, the same problem is not solved again."""
    return any(standing.seats[row.name] != row.seats for row in problem.rows)


@dataclass(frozen=True)
class _Offer:
    """A row that may change, its choice, and what each of its sizes is worth."""

    row: Row
    choice: Choice
    worths: dict[Pair, float]
    optional: bool
    """It may have nothing."""


def _solve(problem: Problem) -> tuple[Standing, list[_Offer]]:
    start, quotas = _start(problem), Quotas(problem)
    offers = _offers(problem, start, quotas)
    dealt = _dealt(problem, start, offers) or _adjusted(start, offers, quotas)
    _lend(dealt, quotas)
    _top_up(dealt, offers, quotas)
    chosen = dealt if _is_better(dealt, start, offers, quotas) else start
    _lend(chosen, quotas)
    waiting = [o for o in offers if o.optional and not chosen.seats[o.row.name]]
    shortest = sorted(waiting, key=lambda offer: (-offer.choice.longer, offer.row.turn))
    still = [row for row in chosen.waiting if not chosen.seats[row.name]]
    chosen.waiting = still + [offer.row for offer in shortest]
    return chosen, offers


def _is_better(dealt: Standing, start: Standing, offers: list[_Offer], quotas: Quotas) -> bool:
    """Say whether ``dealt`` keeps what pools may have better than ``start``, or as well, and is worth more."""
    worse = quotas.breach(dealt.size) - quotas.breach(start.size)
    if abs(worse) > _LEAST_GAIN:
        return worse < 0
    return _total(offers, dealt) - _total(offers, start) > _LEAST_GAIN * _total(offers, start)


def _lend(standing: Standing, quotas: Quotas) -> None:
    """Let jobs in on room that is kept for other pools and that those have left over."""
    use = quotas.use(standing.size)
    for row in standing.waiting if quotas else ():
        more = np.array(row.demand(row.floor), dtype=np.int64)
        if standing.seats[row.name] or not quotas.is_below_ceiling(use, row, more):
            continue
        if (seats := standing.room.place(row, row.floor)) is not None:
            standing.put(row, seats)
            standing.forced.add(row.name)
            quotas.change(use, row, NOTHING, row.floor)


def _start(problem: Problem) -> Standing:
    """Return the standing in which all have their minimum who must have it and can, and the others what they have.

    Those who were paused for as long as may be come first, before newcomers take the room that is made for them.
    """
    late = {row.name for row in problem.rows if is_overdue(problem, row)}
    if not late:
        return _admitted(problem)
    first = _admitted(problem, not_yet={row.name for row in problem.rows} - late)
    standing = _admitted(after(problem, first))
    standing.forced |= first.forced
    return standing


def _admitted(problem: Problem, not_yet: Collection[str] = ()) -> Standing:
    rows = [
        replace(row, deferred=True)
        if row.present == (0, 0) and (row.name in not_yet or may_wait(problem, row))
        else row
        for row in problem.rows
    ]
    standing = admit(replace(problem, rows=rows))
    make_room(problem, standing)
    return standing


def _offers(problem: Problem, start: Standing, quotas: Quotas) -> list[_Offer]:
    optional = {row.name for row in problem.rows if may_wait(problem, row)}
    rows = [row for row in problem.rows if _is_open(row, start, row.name in optional)]
    room = start.room.total()
    for row in rows:
        room = [r + a for r, a in zip(room, row.demand(start.size(row)), strict=True)]
    requests = [_request(problem, start, row, row.name in optional) for row in rows]
    pools = _pools(problem, start, rows, optional, quotas)
    found = allocate(requests, dict(zip(problem.resources, room, strict=True)), pools=pools)
    return [_Offer(row, found.choices[row.name], found.worths[row.name], row.name in optional) for row in rows]


def _pools(
    problem: Problem, start: Standing, rows: list[Row], optional: set[str], quotas: Quotas
) -> dict[str, Quota] | None:
    """Return what is left of each pool's limits beside the jobs that are not among ``rows``."""
    if not quotas:
        return None
    names = {row.name for row in rows}
    fixed = quotas.use(lambda row: NOTHING if row.name in names else start.size(row))
    least = quotas.use(lambda row: row.floor if row.name in names - optional else NOTHING)
    found = {}
    for name, most in quotas.ceiling.items():
        own = np.maximum(quotas.guaranteed[name] - fixed[name], 0)
        above = np.maximum(most - fixed[name], least[name])  # a minimum that it has is not taken away
        found[name] = Quota(
            dict(zip(problem.resources, own.tolist(), strict=True)),
            dict(zip(problem.resources, above.tolist(), strict=True)),
        )
    return found


def _is_open(row: Row, start: Standing, optional: bool) -> bool:
    if row.held or row.deferred or row.seconds is None:
        return False
    if not start.seats[row.name]:
        return optional
    return not row.still or row.name in start.forced


def _request(problem: Problem, start: Standing, row: Row, optional: bool) -> Request:
    assert row.seconds is not None
    sizes = sizes_of(row, start.size(row))
    demand = np.array(sizes) @ np.array([row.server, row.worker]) + np.array(row.extra)
    seconds = np.array(row.seconds.table(sizes)) / row.trust
    doubt = np.array(row.seconds.doubts(sizes))
    return Request(
        row.name,
        sizes,
        {name: demand[:, column] for column, name in enumerate(problem.resources)},
        seconds,
        np.where(np.isfinite(seconds), seconds, 0.0) * doubt,
        remaining=1.0,
        weight=row.weight * 2.0 ** max(-_MOST_DOUBLINGS, min(_MOST_DOUBLINGS, row.job.priority)),
        present=start.size(row) if row.seats and not start.moved(row) else NOTHING,
        change_cost=row.restart,
        deadline=row.job.deadline - problem.time if row.job.deadline is not None and is_known(row.job) else None,
        may_pause=optional,
        pool=row.job.pool,
        rank=(float(row.job.state != "paused"), -float(row.job.priority), row.job.arrived),
    )


def _total(offers: list[_Offer], standing: Standing) -> float:
    return math.fsum(offer.worths.get(standing.size(offer.row), 0.0) for offer in offers)


def _dealt(problem: Problem, start: Standing, offers: list[_Offer]) -> Standing | None:
    """Place all who change anew, largest first; None if someone can't have the minimum that it must have."""
    standing = start.copy()
    moving = [offer for offer in offers if offer.choice.size != start.size(offer.row)]
    for offer in moving:
        standing.put(offer.row, {})
    for offer in sorted(moving, key=lambda offer: _place_order(problem, offer)):
        if not _place(standing, offer) and not offer.optional:
            return None
    return standing


def _place_order(problem: Problem, offer: _Offer) -> tuple[float, str]:
    return (-share(offer.row.demand(offer.choice.size), problem.capacity), offer.row.name)


def _place(standing: Standing, offer: _Offer) -> bool:
    """Give a row that has nothing the size of its choice, or the best smaller one that can be placed."""
    if offer.choice.size == NOTHING:
        return False
    for size in _smaller(offer):
        seats = standing.room.place(offer.row, size)
        if seats is not None:
            standing.put(offer.row, seats)
            return True
    return False


def _smaller(offer: _Offer) -> Iterator[Pair]:
    """Yield the chosen size and then those within it, best first."""
    chosen = offer.choice.size
    yield chosen
    within = [size for size in offer.worths if size not in (NOTHING, chosen) and covers(chosen, size)]
    yield from sorted(within, key=lambda size: (-offer.worths[size], size))


def _adjusted(start: Standing, offers: list[_Offer], quotas: Quotas) -> Standing:
    """Shrink where everyone sits first, then let the others grow one after another: nobody loses its minimum."""
    standing = start.copy()
    for offer in offers:
        size = start.size(offer.row)
        if offer.choice.size != size and covers(size, offer.choice.size):
            standing.put(offer.row, _less(standing, offer))
    use = quotas.use(standing.size)
    for offer in sorted(offers, key=lambda offer: (-offer.choice.worth, offer.row.name)):
        size = standing.size(offer.row)
        if size != offer.choice.size and covers(offer.choice.size, size):
            _grow(standing, offer, use, quotas)
    return standing


def _grow(standing: Standing, offer: _Offer, use: dict[str, Whole], quotas: Quotas) -> None:
    """Give a row the size of its choice where nodes and the ceiling of its pool allow."""
    row, own, size = offer.row, standing.seats[offer.row.name], standing.size(offer.row)
    more = np.array(row.demand(offer.choice.size), dtype=np.int64) - np.array(row.demand(size), dtype=np.int64)
    if not quotas.is_below_ceiling(use, row, more):
        return
    standing.put(row, {})
    if not _place(standing, offer):
        standing.put(row, own)
    quotas.change(use, row, size, standing.size(row))


def _top_up(standing: Standing, offers: list[_Offer], quotas: Quotas) -> None:
    """Offer room that could not be used where it lies to all jobs, those with least left to do first."""
    free, use = standing.room.total(), quotas.use(standing.size)
    for offer in sorted(offers, key=lambda offer: (-offer.choice.longer, offer.row.name)):
        row, size, own = offer.row, standing.size(offer.row), standing.seats[offer.row.name]
        room = [f + a for f, a in zip(free, row.demand(size), strict=True)]
        room = quotas.room_below_ceiling(use, row, size, room)
        better = [s for s in _better(offer, size) if all(a <= r for a, r in zip(row.demand(s), room, strict=True))]
        standing.put(row, {})
        seats = next((found for s in better[:_TRIES] if (found := standing.room.place(row, s)) is not None), own)
        standing.put(row, seats)
        if seats is not own:
            free = standing.room.total()
            quotas.change(use, row, size, standing.size(row))


def _better(offer: _Offer, size: Pair) -> list[Pair]:
    """Return the sizes that are worth more than ``size``, best first."""
    least = offer.worths.get(size, 0.0) * (1 + _LEAST_GAIN)
    return sorted((s for s, worth in offer.worths.items() if worth > least), key=lambda s: (-offer.worths[s], s))


def _less(standing: Standing, offer: _Offer) -> dict[str, Pair]:
    seats = standing.seats[offer.row.name]
    return shrunk_seats(seats, offer.choice.size) if offer.choice.size != NOTHING else {}


def _with_numbers(made: Plan, offers: list[_Offer]) -> Plan:
    """Return the plan with what the allocation reckoned with beside each decision."""
    numbers = {
        offer.row.name: {"worth": offer.choice.worth, "price": offer.choice.price, "longer": offer.choice.longer}
        for offer in offers
    }
    decisions = [
        decision.model_copy(update={"allocation": numbers.get(decision.job, {})}) for decision in made.decisions
    ]
    return made.model_copy(update={"decisions": decisions})
