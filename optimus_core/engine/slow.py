"""What the generations of a job tell of its stragglers: the finding that waits to be acted on, the nodes to avoid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optimus_core.reasons import ReasonCode
from optimus_core.store import GenerationRow, JobRow

FOUND = ReasonCode.STRAGGLER_FOUND.value
"""Code of the cause of a running generation in which a straggler was found."""
MOVED = ReasonCode.STRAGGLER.value
"""Code of the reason of a generation that was made to replace a straggler."""
REPLACE = "replace"
"""What is to be done about a finding: the next plan moves the job off the node."""
_SHOWN = ("kind", "replica", "node", "ratio", "saved_seconds", "restart_seconds")


def finding_of(present: GenerationRow | None) -> dict[str, Any]:
    """Return the numbers of the straggler of a running generation that pays to be replaced; empty if there is none."""
    cause = (present.cause if present is not None else None) or {}
    numbers = cause.get("numbers", {})
    if cause.get("code") != FOUND or numbers.get("action") != REPLACE:
        return {}
    return {name: numbers[name] for name in _SHOWN if name in numbers}


def slow_nodes(row: JobRow, generations: Sequence[GenerationRow]) -> list[str]:
    """Return the nodes where workers of this attempt were slow: as earlier plans avoided them, and as found now."""
    own = [g for g in generations if g.attempt == row.attempt]
    told = [name for g in own for name in str((g.reason or {}).get("numbers", {}).get("avoids", "")).split(", ")]
    found = [str(numbers["node"]) for g in own if "node" in (numbers := finding_of(g))]
    return sorted({*told, *found} - {""})
