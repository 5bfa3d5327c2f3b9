"""An output of any content -> points and events. It never raises, whatever the bytes.

A text is read by the first of these that knows it: Optimus' own reports, Argo's progress line, one JSON
object or Python dictionary, the default grammar. A pattern of the user's replaces the latter three.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any

from optimus_core.telemetry import protocol
from optimus_core.telemetry.grammar import Reading, is_loss, read
from optimus_core.telemetry.objects import load, read_object
from optimus_core.telemetry.pattern import compile_pattern, read_pattern
from optimus_core.telemetry.records import Event, EventKind, ParseResult, Point, Record
from optimus_core.telemetry.text import LineSplitter, frames

_ARGO = re.compile(r"\s*#argo progress=(\d{1,18})/(\d{1,18})\s*$", re.ASCII).match


class Parser:
    """Reads one replica's output as it comes; one Parser per generation and replica.

    `line` is the number of the last line begun and `unread` counts the lines that told nothing (see
    ParseResult). What a Parser returns depends on the bytes, not on how they are cut into chunks.
    """

    def __init__(self, pattern: str | None = None) -> None:
        self._pattern = None if pattern is None else compile_pattern(pattern)
        self._splitter = LineSplitter()
        self._epoch: float | None = None
        self._visible = self._told = False
        self.line = 1
        self.unread = 0

    def state(self) -> dict[str, Any]:
        """What to keep, as JSON, to go on later at the next line."""
        return {"line": self.line, "unread": self.unread, "epoch": self._epoch}

    @classmethod
    def from_state(cls, state: dict[str, Any], pattern: str | None = None) -> Parser:
        """A Parser that goes on after a whole line at which state() was kept."""
        parser = cls(pattern)
        parser.line, parser.unread, parser._epoch = state["line"], state["unread"], state["epoch"]
        return parser

    def feed(self, data: bytes, time: float | None = None) -> list[Record]:
        """What the lines that these bytes complete tell; `time` is when they were written, if known."""
        return self._read(self._splitter.feed(data), time)

    def finish(self, time: float | None = None) -> list[Record]:
        """What the last line tells, which no line feed has ended."""
        records = self._read(self._splitter.finish(), time)
        self._end_line(begin=False)
        return records

    def parse_line(self, text: str, time: float | None = None) -> list[Record]:
        """What one whole line tells, given as text; it may hold several frames of a bar."""
        records: list[Record] = []
        for frame in frames(text):
            self._frame(frame, time, records)
        self._end_line()
        return records

    def _read(self, texts: Iterable[tuple[str, bool]], time: float | None) -> list[Record]:
        records: list[Record] = []
        for text, ended in texts:
            self._frame(text, time, records)
            if ended:
                self._end_line()
        return records

    def _end_line(self, *, begin: bool = True) -> None:
        self.unread += self._visible and not self._told
        self._visible = self._told = False
        self.line += begin

    def _frame(self, text: str, time: float | None, records: list[Record]) -> None:
        if not text or text.isspace():
            return
        self._visible = True
        if text[0] == "{" or text[0] == " ":
            stripped = text.strip()
            if stripped.startswith("{") and self._object(stripped, time, records):
                return
        if self._pattern is not None:
            self._keep(read_pattern(self._pattern, text), time, records)
        elif text.startswith("#argo") and (argo := _ARGO(text)):
            self._told = True
            records.append(
                Event(self.line, EventKind.PROGRESS, f"{argo[1]}/{argo[2]}", int(argo[1]), time, int(argo[2]))
            )
        else:
            self._keep(read(text), time, records)

    def _object(self, text: str, time: float | None, records: list[Record]) -> bool:
        """Reads an object; False if the text is to be read in another way."""
        if self._pattern is not None and '"optimus"' not in text:
            return False
        if text[1:].lstrip()[:1] not in ('"', "'", "}"):
            return False
        fields = load(text) if text.endswith("}") else None
        if fields is None:
            return not _is_python(text)
        if "optimus" in fields:
            self._report(fields, time, records)
        elif self._pattern is not None:
            return False
        else:
            self._keep(read_object(fields), time, records)
        return True

    def _report(self, fields: dict[str, Any], time: float | None, records: list[Record]) -> None:
        time = protocol.time_of(fields, time)
        reading, events = protocol.read_report(fields, self.line, time)
        self._keep(reading, time, records)
        records.extend(events)
        self._told = self._told or bool(events)

    def _keep(self, reading: Reading, time: float | None, records: list[Record]) -> None:
        if not reading:
            return
        self._told = True
        if reading.header:
            self._epoch = reading.epoch
        epoch = self._epoch if reading.epoch is None else reading.epoch
        for name, value in reading.values:
            if isfinite(value):
                records.append(
                    Point(
                        self.line, name, value, reading.step, epoch, time,
                        reading.per_epoch, reading.steps_per_epoch,
                    )
                )  # fmt: skip
            else:
                kind = EventKind.DIVERGED if is_loss(name) else EventKind.NONFINITE
                records.append(Event(self.line, kind, f"{name} is {value}", reading.step, time))


def _is_python(text: str) -> bool:
    """A whole printed dictionary with values that only its program knows, as tensor(0.25)."""
    return text[1:].lstrip()[:1] == "'" and text.endswith("}")


def parse_file(source: str | Path | bytes, pattern: str | None = None) -> ParseResult:
    """Reads a whole output, given as bytes or as the path of a file."""
    parser = Parser(pattern)
    result = ParseResult()
    records = parser.feed(source if isinstance(source, bytes) else Path(source).read_bytes())
    for record in records + parser.finish():
        if isinstance(record, Point):
            result.points.append(record)
        else:
            result.events.append(record)
    return ParseResult(result.points, result.events, parser.unread)
