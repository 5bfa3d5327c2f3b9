"""From minimums to sizes: two plans, one that only grows and one that deals anew, and the better of them.

What counts is the sum over all jobs of the seconds to their end, plus a restart for each running job that changes.
A change of a running job that does not pay for its restart is taken back, and what it would have used is dealt again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from optimus_core.scheduling.admission import Standing, admit
from optimus_core.scheduling.allocation import FURTHER, Path, Steps, grow, share
from optimus_core.scheduling.placement import shrunk_seats
from optimus_core.scheduling.rows import Problem, Row, Seats, smaller_of
from optimus_core.scheduling.speeds import Pair

_REPAIRS = 3
"""How often room that could not be used where it lies is offered to others."""
_REVISIONS = 6
"""How often changes that don't pay are taken back before all that are not needed are."""


def solve(problem: Problem) -> Standing:
    """Return where every job shall sit."""
    start = admit(problem)
    grown = _grow_only(problem, start)
    if not any(row.present != (0, 0) for row in _movable(problem, start, set())):
        return grown
    dealt = _deal_anew(problem, start)
    return dealt if dealt is not None and _difference(problem, dealt, grown) < 0 else grown


def _difference(problem: Problem, one: Standing, other: Standing) -> float:
    """Return by how many weighted seconds ``one`` is worse than ``other``."""
    return math.fsum(_row_difference(row, one, other) for row in problem.rows)


def _row_difference(row: Row, one: Standing, other: Standing) -> float:
    if one.seats[row.name] == other.seats[row.name] or not one.seats[row.name] or not other.seats[row.name]:
        return 0.0
    costs = [row.cost(standing.size(row), standing.moved(row)) for standing in (one, other)]
    if math.isinf(costs[0]) or math.isinf(costs[1]):
        return 0.0 if costs[0] == costs[1] else math.copysign(1e18, costs[0] - costs[1])
    return costs[0] - costs[1]


def _movable(problem: Problem, standing: Standing, frozen: set[str]) -> list[Row]:
    """Return the rows that may change: those that had to change anyway, and running ones not frozen or still."""
    return [
        row
        for row in problem.rows
        if standing.seats[row.name]
        and not row.held
        and row.name not in frozen
        and (not row.still or row.name in standing.forced)
    ]


def _grow_only(problem: Problem, start: Standing) -> Standing:
    """Return the standing in which free room is given out and nobody loses any."""
    frozen: set[str] = set()
    for _ in range(_REVISIONS):
        standing = start.copy()
        fill(problem, standing, _movable(problem, standing, frozen))
        idle = {row.name for row in problem.rows if not _pays(row, standing)}
        if not idle:
            return standing
        frozen |= idle
    standing = start.copy()
    frozen = {row.name for row in problem.rows if not start.moved(row)}
    fill(problem, standing, _movable(problem, standing, frozen))
    return standing


def _pays(row: Row, standing: Standing) -> bool:
    """Say whether a job is unchanged, was changed because it had to be, or saves more than its restart."""
    if row.name in standing.forced or not standing.moved(row):
        return True
    return row.cost(standing.size(row), True) < row.cost(row.present, False)


def _deal_anew(problem: Problem, start: Standing) -> Standing | None:
    """Return the standing in which all begin at their minimum and all room is dealt; None if that comes to no end."""
    frozen: set[str] = set()
    for _ in range(_REVISIONS):
        standing = start.copy()
        rows = _movable(problem, standing, frozen)
        _cut_back(problem, standing, rows)
        fill(problem, standing, rows)
        _restore(standing, rows)
        idle = {row.name for row in rows if not _pays(row, standing) and not _feeds(row, standing)}
        if not idle:
            return standing
        frozen |= idle
    return None


def _cut_back(problem: Problem, standing: Standing, rows: Iterable[Row]) -> None:
    """Take from each row what it would not get if all room were dealt from the minimums on."""
    rows = list(rows)
    free = standing.room.total()
    for row in rows:
        more, floor = row.demand(standing.size(row)), row.demand(row.floor)
        free = [f + m - b for f, m, b in zip(free, more, floor, strict=True)]
    paths = grow(rows, {row.name: row.floor for row in rows}, free, problem.capacity)
    for row in rows:
        size = standing.size(row)
        less = smaller_of(paths[row.name][-1], size)
        if less != size and less not in row.barred:
            standing.put(row, shrunk_seats(standing.seats[row.name], less))


def _restore(standing: Standing, rows: Iterable[Row]) -> None:
    """Give rows that changed for no gain of theirs their present seats back, where nobody has taken them."""
    for row in rows:
        if row.seats and not _pays(row, standing):
            _take_back(standing, row)


def _take_back(standing: Standing, row: Row) -> None:
    seats = standing.seats[row.name]
    standing.put(row, {})
    standing.put(row, row.seats if standing.room.holds(row, row.seats) else seats)


def _feeds(row: Row, standing: Standing) -> bool:
    """Say whether a job that loses by its change gives room to others."""
    size = standing.size(row)
    return size != row.present and smaller_of(size, row.present) == size


def fill(problem: Problem, standing: Standing, rows: list[Row], steps: Steps = FURTHER) -> None:
    """Let ``rows`` grow from what they have by marginal gain, and place them; what can't be placed is offered again."""
    for _ in range(_REPAIRS):
        starts = {row.name: standing.size(row) for row in rows}
        paths = grow(rows, starts, standing.room.total(), problem.capacity, steps)
        grown = sorted(
            (row for row in rows if len(paths[row.name]) > 1),
            key=lambda row: (share(row.demand(paths[row.name][-1]), problem.capacity), row.name),
        )
        stuck = {row.name for row in grown if not _enlarge(standing, row, paths[row.name])}
        if not stuck:
            return
        rows = [row for row in rows if row.name not in stuck]


def _enlarge(standing: Standing, row: Row, path: Path) -> bool:
    """Give a job the largest size of its path that can be placed; say whether that is the last one."""
    own = standing.seats[row.name]
    standing.put(row, {})
    if seats := _seats_for(standing, row, path[-1]):
        standing.put(row, seats)
        return True
    best, low, high = own, 0, len(path) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if seats := _seats_for(standing, row, path[middle]):
            best, low = seats, middle
        else:
            high = middle
    standing.put(row, best)
    return False


def _seats_for(standing: Standing, row: Row, size: Pair) -> Seats | None:
    if size == row.present and standing.room.holds(row, row.seats):
        return row.seats
    return standing.room.place(row, size)


def after(problem: Problem, standing: Standing) -> Problem:
    """Return the problem in which ``standing`` has come true."""
    rows = [_row_after(row, standing) for row in problem.rows]
    return replace(problem, rows=rows)


def _row_after(row: Row, standing: Standing) -> Row:
    seats, size = standing.seats[row.name], standing.size(row)
    if seats == row.seats:
        return row
    held = row.held or (size != (0, 0) and not row.job.resizable)
    floor, ceiling = (size, size) if held else (row.floor, row.ceiling)
    return replace(row, present=size, seats=seats, held=held, floor=floor, ceiling=ceiling)
