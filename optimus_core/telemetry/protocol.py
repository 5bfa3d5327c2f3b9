"""Optimus' own reports: one JSON object a line, printed by optimus_train."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from optimus_core.telemetry.grammar import Reading
from optimus_core.telemetry.objects import epoch, flatten, number, whole
from optimus_core.telemetry.records import Event, EventKind
from optimus_core.telemetry.text import storable

_DAY, _LAST = 86_400.0, 4e9
"""Seconds: clocks of nodes differ by less; what has no other time to compare with is before the year 2096."""
_OWN = ("optimus", "time", "step", "epoch")


def time_of(fields: dict[str, Any], otherwise: float | None) -> float | None:
    """When the replica wrote the line by its own clock, if that can be; else when it was received."""
    own = fields.get("time")
    if not isinstance(own, int | float) or (time := number(own)) is None or not isfinite(time):
        return otherwise
    possible = abs(time - otherwise) < _DAY if otherwise is not None else 0 <= time < _LAST
    return time if possible else otherwise


def read_report(fields: dict[str, Any], line: int, time: float | None) -> tuple[Reading, list[Event]]:
    """The metrics and events of one line; both empty if its kind is unknown."""
    kind = fields["optimus"]
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    return reader(fields, line, time) if reader else (Reading(), [])


def _report(fields: dict[str, Any], line: int, time: float | None) -> tuple[Reading, list[Event]]:
    reading = Reading(step=whole(fields.get("step")), epoch=epoch(fields.get("epoch")))
    reading.values = list(flatten({name: value for name, value in fields.items() if name not in _OWN}))
    if reading.values or reading.step is None:
        return reading, []
    return reading, [Event(line, EventKind.PROGRESS, f"step {reading.step}", reading.step, time)]


def _last(fields: dict[str, Any], line: int, time: float | None) -> tuple[Reading, list[Event]]:
    """The termination message: the last report, and the step of the last checkpoint."""
    reading, events = _report({n: v for n, v in fields.items() if n != "checkpoint"}, line, time)
    saved = whole(fields.get("checkpoint"))
    if saved is not None:
        events.append(Event(line, EventKind.CHECKPOINT, "", saved, time))
    return reading, events


def _checkpoint(fields: dict[str, Any], line: int, time: float | None) -> tuple[Reading, list[Event]]:
    path = fields.get("path")
    message = storable(path) if isinstance(path, str) else ""
    return Reading(), [Event(line, EventKind.CHECKPOINT, message, whole(fields.get("step")), time)]


def _stopped(fields: dict[str, Any], line: int, time: float | None) -> tuple[Reading, list[Event]]:
    return Reading(), [Event(line, EventKind.STOPPED, "stopped as asked", whole(fields.get("step")), time)]


def _total(fields: dict[str, Any], line: int, time: float | None) -> tuple[Reading, list[Event]]:
    steps = whole(fields.get("steps"))
    if steps is None:
        return Reading(), []
    return Reading(), [Event(line, EventKind.TOTAL, f"{steps} steps in all", None, time, steps)]


_READERS: dict[str, Callable[[dict[str, Any], int, float | None], tuple[Reading, list[Event]]]] = {
    "report": _report,
    "last": _last,
    "checkpoint": _checkpoint,
    "stopped": _stopped,
    "total": _total,
}
