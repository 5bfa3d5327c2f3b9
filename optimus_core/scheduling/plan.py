"""The plan: a pure function of a snapshot. The same snapshot gives the same plan, whatever the order of its lists.

Minimums in order of priority and arrival (:mod:`.admission`), then room by marginal gain (:mod:`.allocation`) onto
the fewest nodes (:mod:`.placement`), changed only where it pays (:mod:`.settle`), each with its reason
(:mod:`.explain`).
"""

from __future__ import annotations

from dataclasses import replace

from optimus_core.scheduling.admission import Standing
from optimus_core.scheduling.explain import explain
from optimus_core.scheduling.rows import Problem, Row, prepare
from optimus_core.scheduling.settle import solve
from optimus_core.scheduling.speeds import RateOf, model_rate
from optimus_core.scheduling.types import NOTHING, Decision, JobView, Plan, Snapshot

_ROUNDS = 4
"""How often a plan is planned again until it comes to rest."""


def plan(snapshot: Snapshot, rate_of: RateOf = model_rate) -> Plan:
    """Return what every job of ``snapshot`` shall have, where, and why.

    Args:
        snapshot: all that may be known.
        rate_of: gives the speed of a job at each size; by default that of the model in the snapshot.
    """
    problem = prepare(snapshot, rate_of)
    standing = _at_rest(problem)
    return explain(snapshot, problem, standing)


def _at_rest(problem: Problem) -> Standing:
    """Return a standing that planning again would leave as it is."""
    standing = solve(problem)
    for _ in range(_ROUNDS):
        again = solve(after(problem, standing))
        if again.seats == standing.seats:
            break
        standing = again
    return standing


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


def apply_plan(snapshot: Snapshot, made: Plan) -> Snapshot:
    """Return the snapshot in which ``made`` has come true: for tests and simulations."""
    decisions = {decision.job: decision for decision in made.decisions}
    return snapshot.model_copy(update={"jobs": [_job_after(job, decisions[job.name]) for job in snapshot.jobs]})


def _job_after(job: JobView, decision: Decision) -> JobView:
    if not decision.changed:
        return job
    state = "running" if decision.size != NOTHING else "paused" if job.state == "running" else job.state
    update = {"size": decision.size, "placement": decision.placement, "state": state}
    return job.model_copy(update={**update, "seconds_at_size": 0.0 if decision.size != NOTHING else None})
