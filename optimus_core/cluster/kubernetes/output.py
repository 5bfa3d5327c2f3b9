"""Reading a container's log from a cursor on: by time, since the API keeps no positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from optimus_core.cluster.base import OutputLine

_STAMPED = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


@dataclass(frozen=True)
class Cursor:
    """Up to where a log was read: nanoseconds since 1970 of the last line, and how many lines have that time."""

    time: int = 0
    count: int = 0

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """Return the cursor that :meth:`write` gave; the start of the log for None."""
        time, _, count = (text or "0.0").partition(".")
        return cls(int(time), int(count or 0))

    def write(self) -> str:
        """Return the cursor as text."""
        return f"{self.time}.{self.count}"

    @property
    def since(self) -> str | None:
        """What to ask the API for: it knows whole seconds only, so lines come again and are dropped."""
        if not self.time:
            return None
        return datetime.fromtimestamp(self.time // 10**9 - 1, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Piece:
    """What a read brought that had not been read before."""

    lines: tuple[OutputLine, ...]
    cursor: Cursor
    missed: bool
    """The last line of the read before is not there any more: the log was rotated, and lines are lost."""
    complete: bool
    """Nothing was left for the next read."""


def parse(data: bytes, cursor: Cursor, *, cut: bool, ended: bool) -> Piece:
    """Return the new lines of a log that was read from ``cursor.since`` on with timestamps.

    Args:
        data: what the API gave.
        cursor: up to where it is known.
        cut: the API stopped at a limit of bytes: the last line may be a part of one.
        ended: the container has: a last line without an end will not get one.
    """
    whole, _, rest = data.rpartition(b"\n")
    raw = whole.split(b"\n") if whole else []
    if rest and ended and not cut:
        raw.append(rest)
    stamped = _stamped(raw)
    fresh, seen = _fresh(stamped, cursor)
    last = _last(fresh, cursor)
    missed = bool(cursor.time and stamped and seen < cursor.count)
    return Piece(tuple(line for _, line in fresh), last, missed, complete=not cut and not (rest and not ended))


def _stamped(raw: Sequence[bytes]) -> list[tuple[int, OutputLine]]:
    stamped: list[tuple[int, OutputLine]] = []
    for text in raw:
        match = _STAMPED.match(text)
        if match is None:
            continue  # the API's own words, such as "unable to retrieve container logs"
        time = _nanoseconds(match)
        stamped.append((time, OutputLine(time / 1e9, text[match.end() :])))
    return stamped


def _fresh(stamped: Sequence[tuple[int, OutputLine]], cursor: Cursor) -> tuple[list[tuple[int, OutputLine]], int]:
    """Return what stands behind the cursor's line, and how many lines of its very time were seen up to it.

    By place and not by time alone: two streams of one container may come a little out of order.
    """
    seen = 0
    for index, (time, _) in enumerate(stamped):
        if cursor.count == 0:
            return list(stamped), 0
        seen += time == cursor.time
        if seen == cursor.count:
            return list(stamped[index + 1 :]), seen
    return [(time, line) for time, line in stamped if time > cursor.time], seen


def _last(fresh: Sequence[tuple[int, OutputLine]], cursor: Cursor) -> Cursor:
    if not fresh:
        return cursor
    time = fresh[-1][0]
    before = cursor.count if time == cursor.time else 0
    return Cursor(time, before + sum(each == time for each, _ in fresh))


def _nanoseconds(match: re.Match[bytes]) -> int:
    whole = datetime.fromisoformat((match[1] + match[3].replace(b"Z", b"+00:00")).decode())
    return int(whole.timestamp()) * 10**9 + int((match[2] or b"").ljust(9, b"0"))
