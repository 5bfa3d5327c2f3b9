"""The plan by marginal gain: the paper's rule with restarts charged, so that constant load comes to rest.

Minimums in order of priority and arrival (:mod:`.admission`), then room by marginal gain (:mod:`.allocation`) onto
the fewest nodes (:mod:`.placement`), changed only where it pays (:mod:`.settle`).
"""

from __future__ import annotations

from optimus_core.scheduling.admission import Standing
from optimus_core.scheduling.explain import explain
from optimus_core.scheduling.rows import Problem, prepare
from optimus_core.scheduling.settle import after, solve
from optimus_core.scheduling.speeds import RateOf, model_rate
from optimus_core.scheduling.types import Plan, Snapshot

_ROUNDS = 4
"""How often a plan is planned again until it comes to rest."""


def marginal_gain(snapshot: Snapshot, rate_of: RateOf = model_rate) -> Plan:
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
