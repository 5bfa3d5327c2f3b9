"""Reading one replica's output: parser, step counter and speed window as one state that is kept between reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from optimus_core.cluster.base import OutputLine
from optimus_core.engine.own_times import OwnTimes
from optimus_core.telemetry import Event, EventKind, Parser, Point, StepCounter


@dataclass(frozen=True)
class Speed:
    """``steps`` steps took ``seconds`` seconds of the replica's own clock, up to ``time``."""

    steps: int
    seconds: float
    time: float


@dataclass
class Reading:
    """What one read brought: points with steps of the whole run, events, speeds, and the steps of all, in order."""

    points: list[tuple[int | None, Point]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    speeds: list[Speed] = field(default_factory=list)


class Reader:
    """Reads on where the last read ended; its state is plain JSON.

    Args:
        pattern: a regular expression instead of the default grammar, or None.
        steps_per_epoch: what the job says of it, or None.
        window: seconds that a speed sample spans at least.
        state: what :meth:`state` gave, or None for a replica that was never read.
    """

    def __init__(
        self, pattern: str | None, steps_per_epoch: int | None, window: float, state: dict[str, Any] | None
    ) -> None:
        state = state or {}
        self._window = window
        self._parser = Parser.from_state(state["parser"], pattern) if "parser" in state else Parser(pattern)
        counter = state.get("counter")
        self._counter = StepCounter.from_state(counter) if counter else StepCounter(steps_per_epoch)
        self._mark: list[float] | None = state.get("mark")
        """Time and step at which the present speed window began."""
        self._last: list[float] | None = state.get("last")
        self._pace_told: dict[str, float] = state.get("pace") or {}
        """``reports``: how often a further step was told; ``seconds`` between them in all, ``longest`` at once."""
        self._own = OwnTimes(window, state.get("own"))

    def state(self) -> dict[str, Any]:
        """Return all that is needed to read on later."""
        return {
            "parser": self._parser.state(),
            "counter": self._counter.state(),
            "mark": self._mark,
            "last": self._last,
            "pace": self._pace_told,
            "own": self._own.state(),
        }

    @property
    def unread(self) -> int:
        """Lines so far from which nothing was read."""
        return self._parser.unread

    def read(self, lines: Sequence[OutputLine]) -> Reading:
        """Read whole lines; never raises, whatever is in them."""
        reading = Reading()
        for line in lines:
            for record in self._parser.parse_line(line.data.decode("utf-8", "replace"), line.time):
                if isinstance(record, Event):
                    if _can_be(record.step) and _can_be(record.total):
                        reading.events.append(record)
                        if record.kind is not EventKind.CHECKPOINT:  # whether it is one is not known here
                            self._pace(record.time, record.step, reading)
                elif _can_be(step := self._counter.global_step(record)):
                    self._own.add(record)
                    reading.points.append((step, record))
                    self._pace(record.time, step, reading)
        return reading

    def _pace(self, time: float | None, step: int | None, reading: Reading) -> None:
        if step is not None:
            reading.steps.append(step)
        if time is None or step is None:
            return
        if self._mark is None or self._last is None or step < self._last[1]:
            self._mark = self._last = [time, step]  # the first report: what came before is the start-up
            return
        if step == self._last[1] or time <= self._last[0]:
            return
        self._keep_pace(time - self._last[0])
        self._last = [time, step]
        if time - self._mark[0] >= self._window:
            reading.speeds.append(Speed(int(step - self._mark[1]), time - self._mark[0], time))
            self._own.add_speed((step - self._mark[1]) / (time - self._mark[0]))
            self._mark = self._last

    def _keep_pace(self, seconds: float) -> None:
        known = self._pace_told or {"reports": 0, "seconds": 0.0, "longest": 0.0}
        self._pace_told = {
            "reports": known["reports"] + 1,
            "seconds": known["seconds"] + seconds,
            "longest": max(known["longest"], seconds),
        }


def _can_be(step: int | None) -> bool:
    """Say whether a step is one: none is negative, and no run makes more than floating numbers tell apart."""
    return step is None or 0 <= step < 2**53
