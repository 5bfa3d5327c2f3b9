"""Who may be paused or wait for shorter jobs, and who may no longer.

A job may have nothing for a while if what it has left is known and, if it runs, a checkpoint of it is confirmed. Once
it has been paused for ``max_paused`` seconds in all, less what coming back takes, it must have its minimum again: those
with most left to do that may be paused make room for it. The same is done for a job whose remaining work is not known,
if they have at least the cluster's median left, which is what such a job counts as. Jobs of pools that borrow make room
for one that is within the guarantee of its own pool, however little they have left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from optimus_core.scheduling.admission import Standing
from optimus_core.scheduling.quotas import Quotas, Whole
from optimus_core.scheduling.rows import Problem, Row, Seats, is_known
from optimus_core.scheduling.speeds import Pair
from optimus_core.scheduling.types import JobView, PlanSettings

Spell = tuple[float, float]
"""Seconds that a job was paused, and then had at least its minimum."""


def paused_in_all(spells: Iterable[Spell]) -> float:
    """Return the seconds that a job has been paused in all since it last held its minimum for good.

    It holds it for good once it has had it for as long as it had been paused: one that comes back for a moment only
    does not begin anew.
    """
    paused = 0.0
    for away, held in spells:
        paused += away
        if held >= paused:
            paused = 0.0
    return paused


def may_wait(problem: Problem, row: Row) -> bool:
    """Say whether a job may have nothing: be paused if it runs, else wait for shorter ones."""
    job, settings = row.job, problem.settings
    if settings.pausing == "never" or row.held or row.still or job.pinned is not None or not is_known(job):
        return False
    if job.state != "queued" and seconds_left(settings, job) <= 0:
        return False
    return row.present == (0, 0) or (job.has_checkpoint and job.resizable)


def is_overdue(problem: Problem, row: Row) -> bool:
    """Say whether a job is paused and must have its minimum again."""
    return row.job.state == "paused" and seconds_left(problem.settings, row.job) <= 0


def seconds_left(settings: PlanSettings, job: JobView) -> float:
    """Return for how long a job may still be paused; the stop of others and its own start take a restart each."""
    cost = settings.default_restart_cost if job.restart_cost is None else job.restart_cost
    return settings.max_paused - job.paused_seconds - 2 * cost


def make_room(problem: Problem, standing: Standing) -> None:
    """Pause who may be for those that wait and must have their minimum, as few as will do."""
    if problem.settings.pausing == "never":
        return
    quotas = Quotas(problem)
    for row in sorted(standing.waiting, key=lambda row: (not is_overdue(problem, row), row.turn)):
        use = quotas.use(standing.size)
        able = _able(problem, standing, row, quotas, use)
        seats = _pause_for(standing, row, able, partial(quotas.allows, use, row))
        if seats is not None:
            standing.put(row, seats)
            standing.forced.add(row.name)
            standing.waiting.remove(row)


def _able(problem: Problem, standing: Standing, row: Row, quotas: Quotas, use: Mapping[str, Whole]) -> list[Row]:
    """Return who may be paused for ``row``: of pools that borrow first, then those with most left to do."""
    able = [
        other
        for other in problem.rows
        if standing.seats[other.name] and other.present != (0, 0) and may_wait(problem, other)
    ]
    borrowing = quotas.borrowers(use)
    lends = quotas.is_guaranteed(use, row)
    if not is_overdue(problem, row):
        least = _left(row) if row.assumed_seconds is None else row.assumed_seconds
        shorter = {o.name for o in able if o.job.priority <= row.job.priority and _left(o) >= least}
        back = {o.name for o in able if lends and o.job.pool in borrowing - {row.job.pool}}
        own = {o.name for o in able if not quotas or o.job.pool in {*borrowing, row.job.pool}}
        able = [o for o in able if o.name in back | (shorter & own)]
    return sorted(able, key=lambda o: (o.job.pool not in borrowing, o.job.priority, -_left(o), o.name))


def _left(row: Row) -> float:
    return row.seconds(row.floor) if row.seconds is not None else 0.0


def _pause_for(
    standing: Standing, row: Row, able: list[Row], allowed: Callable[[Sequence[tuple[Row, Pair]]], bool]
) -> Seats | None:
    """Take the seats of so many of ``able`` that the minimum of ``row`` fits; None, and nothing taken, if it can't.

    ``allowed`` says whether its pool may have that minimum without the given rows.
    """
    trial = standing.room.copy()
    taken: list[Row] = []

    def fits() -> bool:
        return allowed([(other, standing.size(other)) for other in taken]) and trial.place(row, row.floor) is not None

    for other in able:
        if fits():
            break
        trial.give(other, standing.seats[other.name])
        taken.append(other)
    if not fits():
        return None
    for other in list(reversed(taken)):  # who need not be
        trial.take(other, standing.seats[other.name])
        taken.remove(other)
        if not fits():
            trial.give(other, standing.seats[other.name])
            taken.append(other)
    for other in taken:
        standing.put(other, {})
        standing.forced.add(other.name)
    return standing.room.place(row, row.floor)
