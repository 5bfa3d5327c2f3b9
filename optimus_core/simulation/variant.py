"""What would be planned if the cluster were another: a snapshot changed, and both plans beside each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from optimus_core import checks
from optimus_core.errors import SpecificationError
from optimus_core.scheduling.plan import plan
from optimus_core.scheduling.types import Node, Snapshot


def varied(
    snapshot: Snapshot,
    *,
    more_nodes: int = 0,
    priorities: Mapping[str, int] | None = None,
    without: Collection[str] = (),
) -> Snapshot:
    """Return ``snapshot`` with ``more_nodes`` like its largest node, other priorities, and jobs withdrawn.

    Raises:
        SpecificationError: a job is not there, or there is no node to add another of.
    """
    checks.whole(more_nodes, "the number of further nodes", 0, most=100_000)
    priorities = priorities or {}
    for name in (*priorities, *without):
        checks.one_of(name, [job.name for job in snapshot.jobs], "the job")
    jobs = [
        job.model_copy(update={"priority": priorities.get(job.name, job.priority)})
        for job in snapshot.jobs
        if job.name not in without
    ]
    nodes = [*snapshot.nodes, *_further(snapshot, more_nodes)]
    return snapshot.model_copy(update={"jobs": jobs, "nodes": nodes})


def _further(snapshot: Snapshot, count: int) -> list[Node]:
    if not count:
        return []
    if not snapshot.nodes:
        raise SpecificationError("the cluster has no node to add another of. Give a snapshot with a node.")
    largest = max(snapshot.nodes, key=lambda node: (sorted(node.allocatable.items()), node.name))
    taken = {node.name for node in snapshot.nodes}
    names = (name for place in range(count + len(taken)) if (name := f"what-if-{place}") not in taken)
    return [
        largest.model_copy(update={"name": name, "others": {}, "ready": True})
        for name, _ in zip(names, range(count), strict=False)
    ]


def compare(snapshot: Snapshot, other: Snapshot) -> list[dict[str, Any]]:
    """Return for each job of ``snapshot`` its planned size and seconds until it is done, and those of ``other``."""
    then = {decision.job: decision for decision in plan(other).decisions}
    rows = []
    for now in plan(snapshot).decisions:
        other_decision = then.get(now.job)
        rows.append(
            {
                "job": now.job,
                "size": now.size.model_dump(),
                "seconds": now.predicted_seconds,
                "size_then": other_decision.size.model_dump() if other_decision else None,
                "seconds_then": other_decision.predicted_seconds if other_decision else None,
            }
        )
    return rows
