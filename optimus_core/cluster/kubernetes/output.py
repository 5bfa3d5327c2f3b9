"""Reading a container's log from a cursor on: by time, since the API keeps no positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from optimus_core.cluster.base import OutputLine

_STAMPED = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")
Stamped = tuple[int, OutputLine]
"""A line and its nanoseconds since 1970."""


@dataclass(frozen=True)
class Cursor:
    """Up to where a log was read: a place, since lines may share a time or come a little out of order."""

    time: int = 0
    """Nanoseconds since 1970 of the latest line that was read."""
    count: int = 0
    """How many lines were read from the first line of that time on, those before :attr:`since` left out."""

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
        return datetime.fromtimestamp(self._second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if self.time else None

    @property
    def _second(self) -> int:
        return self.time // 10**9 - 1

    def after(self, fresh: Sequence[Stamped]) -> Cursor:
        """Return the cursor behind these lines, which stand behind those that were read."""
        latest = max((time for time, _ in fresh), default=0)
        if latest <= self.time:
            return replace(self, count=self.count + sum(time >= self._second * 10**9 for time, _ in fresh))
        moved, times = Cursor(latest), [time for time, _ in fresh]
        return replace(moved, count=sum(time >= moved._second * 10**9 for time in times[times.index(latest) :]))


@dataclass(frozen=True)
class Piece:
    """What a read brought that had not been read before."""

    lines: tuple[OutputLine, ...]
    cursor: Cursor
    missed: bool
    """What was read last is not there any more: the log was rotated, and lines may be lost."""
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
    found = stamped(raw)
    complete = not cut and not (rest and not ended)
    times = [time for time, _ in found]
    if not cursor.time or cursor.time in times:
        place = times.index(cursor.time) + cursor.count if cursor.time else 0
        fresh, missed = found[place:], False
    else:
        missed = bool(found) and (not cut or max(times) > cursor.time)
        fresh = [each for each in found if each[0] > cursor.time]
    return Piece(tuple(line for _, line in fresh), cursor.after(fresh), missed, complete)


def stamped(raw: Sequence[bytes]) -> list[Stamped]:
    """Return the lines that have a time; what else stands there is the API's own, or a part of a line."""
    found: list[Stamped] = []
    for text in raw:
        match = _STAMPED.match(text)
        if match is None:
            continue  # the API's own words, such as "unable to retrieve container logs"
        time = _nanoseconds(match)
        found.append((time, OutputLine(time / 1e9, text[match.end() :])))
    return found


def _nanoseconds(match: re.Match[bytes]) -> int:
    whole = datetime.fromisoformat((match[1] + match[3].replace(b"Z", b"+00:00")).decode())
    return int(whole.timestamp()) * 10**9 + int((match[2] or b"").ljust(9, b"0"))
