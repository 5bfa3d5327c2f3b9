"""What the generations of a job tell of its stragglers: the finding that is to be acted on, the nodes to avoid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optimus_core.reasons import ReasonCode
from optimus_core.store import GenerationRow, JobRow

FOUND = ReasonCode.STRAGGLER_FOUND.value
"""Code of the cause of a running generation in which stragglers were found."""
MOVED = ReasonCode.STRAGGLER.value
"""Code of the reason of a generation that was made to replace stragglers."""
REPLACED = ReasonCode.STRAGGLER_REPLACED.value
"""Event, and cause of a running generation, that tell what a replacement has brought."""
REPLACE, REPORT = "replace", "report"
"""What is to be done about a finding: the next plan moves the job off their nodes, or nothing."""
_SHOWN = ("slow", "replica", "node", "ratio", "saved_seconds", "restart_seconds")


def found_in(generation: GenerationRow | None) -> dict[str, Any]:
    """Return the numbers of the stragglers of a running generation; empty if there are none."""
    cause = (generation.cause if generation is not None else None) or {}
    return dict(cause.get("numbers", {})) if cause.get("code") == FOUND else {}


def finding_of(present: GenerationRow | None) -> dict[str, Any]:
    """Return what a plan may know of stragglers that are to be replaced; empty if there are none."""
    numbers = found_in(present)
    if numbers.get("action") != REPLACE:
        return {}
    return {name: numbers[name] for name in _SHOWN if name in numbers}


def slow_nodes(row: JobRow, generations: Sequence[GenerationRow]) -> list[str]:
    """Return the nodes where workers of this attempt were slow: as earlier plans avoided them, and as found now."""
    own = [g for g in generations if g.attempt == row.attempt]
    told = [str((g.reason or {}).get("numbers", {}).get("avoids", "")) for g in own]
    found = [str(finding_of(g).get("node", "")) for g in own]
    return sorted({name for names in told + found for name in names.split(", ")} - {""})
