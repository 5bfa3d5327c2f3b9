"""The plan: a pure function of a snapshot. The same snapshot gives the same plan, whatever the order of its lists.

Minimums in order of priority and arrival (:mod:`.admission`), then sizes by price (:mod:`.priced`, :mod:`.allocate`)
onto the fewest nodes (:mod:`.placement`), changed only where it pays, each with its reason (:mod:`.explain`); last,
who has workers to be replaced goes off their nodes (:mod:`.slow_nodes`).
"""

from __future__ import annotations

from optimus_core.scheduling.priced import priced
from optimus_core.scheduling.slow_nodes import off_slow_nodes
from optimus_core.scheduling.speeds import RateOf, model_rate
from optimus_core.scheduling.types import NOTHING, Decision, JobView, Plan, Snapshot


def plan(snapshot: Snapshot, rate_of: RateOf = model_rate) -> Plan:
    """Return what every job of ``snapshot`` shall have, where, and why.

    Args:
        snapshot: all that may be known.
        rate_of: gives the speed of a job at each size; by default that of the model in the snapshot.
    """
    return off_slow_nodes(snapshot, priced(snapshot, rate_of))


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
