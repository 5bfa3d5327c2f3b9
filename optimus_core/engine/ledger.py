"""What is free: allocatable - asked for by others - seen of ours (terminating included) - granted and not seen."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

from optimus_core.cluster.base import NodeInfo, Replica
from optimus_core.engine.launch import demand_by_node
from optimus_core.engine.verdict import ALIVE
from optimus_core.resources import Resources, largest
from optimus_core.store import ACTIVE, GenerationRow, JobRow

_log = logging.getLogger(__name__)

ByNode = dict[str, Resources]


def observed(replicas: Iterable[Replica]) -> dict[str, ByNode]:
    """Return job -> node -> what its live replicas hold."""
    seen: dict[str, ByNode] = defaultdict(dict)
    for replica in replicas:
        if replica.phase in ALIVE:
            held = seen[replica.job].get(replica.node, Resources())
            seen[replica.job][replica.node] = held + replica.resources
    return dict(seen)


def granted(holding: Iterable[tuple[JobRow, GenerationRow]]) -> dict[str, ByNode]:
    """Return job -> node -> the most that one of its started generations asks for."""
    given: dict[str, ByNode] = defaultdict(dict)
    for row, generation in holding:
        if generation.state in ACTIVE:
            for node, asked in _demand(row, generation).items():
                given[row.name][node] = largest(given[row.name].get(node, Resources()), asked)
    return dict(given)


def _demand(row: JobRow, generation: GenerationRow) -> ByNode:
    """Return what a generation asks for; nothing beside what is seen of a job whose row can't be understood."""
    try:
        return demand_by_node(row, generation)
    except (ValueError, TypeError, LookupError, ArithmeticError):
        _log.exception("what job %s asks for can't be understood", row.name)
        return {}


def room_for(job: str, nodes: Iterable[NodeInfo], seen: Mapping[str, ByNode], given: Mapping[str, ByNode]) -> ByNode:
    """Return node -> what ``job`` may fill: its own replicas are gone by then, all others' room stays theirs."""
    room = {node.name: node.allocatable - node.others for node in nodes if node.ready}
    for other in sorted({*seen, *given} - {job}):
        for node in room:
            held = largest(seen.get(other, {}).get(node, Resources()), given.get(other, {}).get(node, Resources()))
            room[node] = room[node] - held
    return room


def missing(need: ByNode, room: ByNode) -> dict[str, str] | None:
    """Return the first node where ``need`` does not fit, with what is needed and free there; None if all fits."""
    for node, asked in sorted(need.items()):
        free = room.get(node, Resources())
        if not asked.fits_in(free):
            return {"node": node, "needed": asked.describe(), "free": free.clamped().describe()}
    return None
