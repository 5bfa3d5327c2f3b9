"""The replicas of a job as its view shows them: where each runs, how fast it is, and what it wrote last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from optimus_core.engine.launch import job_of, place_members
from optimus_core.errors import OptimusError
from optimus_core.names import replica_name
from optimus_core.store import GenerationRow, JobRow, Transaction
from optimus_core.store.views import newest_outputs

MOST_REPLICAS = 50
MOST_TAIL = 4000
"""Characters of a replica's last output."""
_BAD = (OptimusError, ArithmeticError, LookupError, TypeError, ValueError, StopIteration)
"""What a row of another version may raise: its nodes are left out, the rest is shown."""


def replicas_of(tx: Transaction, row: JobRow, generations: Iterable[GenerationRow]) -> list[dict[str, Any]]:
    """Return the replicas of the newest generations that have written something, oldest first."""
    seen = newest_outputs(tx, row.id, MOST_REPLICAS)
    numbers = {output.generation for output in seen}
    nodes = {k: v for g in generations if g.number in numbers for k, v in _nodes(row, g).items()}
    return [
        {
            "replica": output.replica,
            "generation": output.generation,
            "ended": output.ended,
            "node": nodes.get(output.replica),
            "steps_per_second": _speed(output.reader or {}),
            "tail": output.tail[-MOST_TAIL:],
        }
        for output in seen
    ]


def _nodes(row: JobRow, generation: GenerationRow) -> dict[str, str]:
    try:
        placed = place_members(job_of(row), generation)
    except _BAD:
        return {}
    return {replica_name(row.name, role.value, index, generation.number): node for role, index, node in placed}


def _speed(reader: Mapping[str, Any]) -> float | None:
    """Return the median of a replica's latest speeds, in steps a second; None before the first."""
    speeds = (reader.get("own") or {}).get("speeds") or []
    return median(speeds) if speeds else None
