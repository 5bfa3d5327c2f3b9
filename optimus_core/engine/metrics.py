"""What the metrics of a cluster are: plain values out of the store, for whoever emits them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from optimus_core.engine.launch import demand_by_node
from optimus_core.engine.report import phase_of
from optimus_core.errors import OptimusError
from optimus_core.resources import Resources, total
from optimus_core.scheduling.types import Size
from optimus_core.store import ACTIVE, LIVE, GenerationRow, JobRow, Store

PHASES = ("queued", "backing off", "blocked", "starting", "running", "resizing", "pausing", "paused", "stopping")
"""Every phase of a live job; one without jobs is told as 0, since a gauge keeps its last value."""


@dataclass(frozen=True)
class Gauges:
    """How a cluster stands.

    Attributes:
        jobs: phase -> live jobs.
        replicas: ``worker`` and ``server`` -> replicas of generations that may hold room; a scheduler process is none.
        allocated: resource -> what these replicas ask for, as :class:`~optimus_core.resources.Resources` counts it.
        failed_fits: model -> live jobs whose points it could not be fitted to, when they were last fitted.
    """

    jobs: Mapping[str, int]
    replicas: Mapping[str, int]
    allocated: Mapping[str, int]
    failed_fits: Mapping[str, int]


def gauges(store: Store, cluster: str) -> Gauges:
    """Return how ``cluster`` stands now. Asks the store two things and the cluster nothing."""
    with store.transaction() as tx:
        live, holding = tx.jobs(cluster=cluster, states=LIVE), tx.holding(cluster)
    of_job: dict[int, list[GenerationRow]] = defaultdict(list)
    for row, generation in holding:
        of_job[row.id].append(generation)
    active = [(row, generation) for row, generation in holding if generation.state in ACTIVE]
    return Gauges(
        jobs=dict.fromkeys(PHASES, 0) | Counter(phase_of(row, of_job[row.id]) for row in live),
        replicas={
            "worker": sum(generation.workers for _, generation in active),
            "server": sum(generation.servers for _, generation in active),
        },
        allocated=dict(total(_asked(row, generation) for row, generation in active)),
        failed_fits=Counter(model for row in live for model in (row.estimate or {}).get("failed", ())),
    )


def _asked(row: JobRow, generation: GenerationRow) -> Resources:
    """Return what a generation asks for, nothing if its job can't be understood: the others still count."""
    try:
        return total(demand_by_node(row, generation).values())
    except (OptimusError, ArithmeticError, LookupError, TypeError, ValueError):
        return Resources()


def direction(before: Size, after: Size) -> str | None:
    """Return how a size changes: ``grow``, ``shrink``, ``reshape`` (one role grows, the other shrinks) or ``move``.

    None if it is no change of a size but a start.
    """
    if not before:
        return None
    changes = (after.servers - before.servers, after.workers - before.workers)
    if changes == (0, 0):
        return "move"
    if min(changes) >= 0:
        return "grow"
    return "shrink" if max(changes) <= 0 else "reshape"


def prediction_error(row: JobRow) -> float | None:
    """Return ``|predicted - true| / true`` of the time that a job still took, 0 if the prediction was right.

    The prediction is the first of its attempt that was made while it ran and was not young, the time is that from then
    to its end. None unless it has succeeded and there was such a prediction.
    """
    first: dict[str, Any] = (row.estimate or {}).get("first") or {}
    if row.state != "succeeded" or row.ended_at is None or first.get("attempt") != row.attempt:
        return None
    true = (row.ended_at - datetime.fromisoformat(first["at"])).total_seconds()
    return abs(float(first["seconds"]) - true) / true if true > 0 else None
