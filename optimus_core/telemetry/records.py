"""What is read from a replica's output.

A record never holds a NaN or an infinity: those are events. `line` is 1-based and counted by line feeds
only, so that an editor finds it; the many frames of a progress bar share one line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class EventKind(StrEnum):
    """What a line told besides numbers to draw."""

    DIVERGED = "diverged"
    """A loss is NaN or infinite."""
    NONFINITE = "nonfinite"
    """Another metric is NaN or infinite, which happens in healthy runs too (a gradient norm under AMP)."""
    CHECKPOINT = "checkpoint"
    """A checkpoint is complete; the message is its path."""
    PROGRESS = "progress"
    """So many steps are done, and of how many if `total` is known; no metric came with it."""
    TOTAL = "total"
    """The whole job has `total` steps."""
    STOPPED = "stopped"
    """The script stopped because it was asked to."""


@dataclass(frozen=True, slots=True)
class Point:
    """One number of one metric, with the coordinates that its own line, or the header above, gave.

    `step` is what the line says. If `per_epoch` is true it counts from the start of the epoch, as bars and
    batch numbers do; `steps_per_epoch` is then the bar's total if it has one. StepCounter turns such a
    point's coordinates into a step of the whole run.
    """

    line: int
    name: str
    value: float
    step: int | None
    epoch: float | None
    time: float | None = None
    per_epoch: bool = False
    steps_per_epoch: int | None = None

    @property
    def key(self) -> tuple[str, int | None, float | None]:
        """Equal for two points that tell the same thing: a repeated line is stored once."""
        return (self.name, self.step, self.epoch)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a line told, at a step if it says which."""

    line: int
    kind: EventKind
    message: str
    step: int | None = None
    time: float | None = None
    total: int | None = None


Record = Point | Event


@dataclass(frozen=True, slots=True)
class ParseResult:
    """All that a whole output told.

    `unread` counts the lines that have visible text but told nothing: no number, no coordinate, no event.
    Chatter of libraries is among them, so a few are normal; a count that grows with each step is not.
    """

    points: list[Point] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    unread: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "points": [
                {"line": p.line, "name": p.name, "value": p.value, "step": p.step, "epoch": p.epoch}
                for p in self.points
            ],
            "events": [{"line": e.line, "kind": e.kind.value} for e in self.events],
            "unread": self.unread,
        }
