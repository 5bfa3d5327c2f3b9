"""Following a container's log that is written faster than it can be read now and then.

The kubelet rotates a log, and the API gives its current file only: what was rotated away between two reads is out of
reach. An open stream gets all of it, over any number of rotations. So a log that outruns its reader is followed, by a
thread and a connection of the process that reads it, for as long as somebody takes the lines and it stays that fast.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from urllib3.exceptions import HTTPError

from optimus_core.cluster.base import OutputLine
from optimus_core.cluster.kubernetes.output import Cursor, Piece, Stamped, stamped
from optimus_core.errors import ClusterUnavailable, OptimusError

Open = Callable[[str | None], AbstractContextManager[Iterator[bytes]]]
"""Opens the stream of a log from a time on, as :attr:`Cursor.since` writes it; ends it when it is left."""

FAST = 64 << 10
"""Bytes a second from which a log is followed: a file of 10 MiB, the default, then lasts under three minutes."""
MOST_FOLLOWED = 16
"""Logs that one process follows at a time; those beyond are polled, and their gaps are counted."""
HELD_BYTES = 8 << 20
"""What is kept of a log that nobody takes: then its stream ends, and goes on from there once there is room."""
_UNASKED_SECONDS = 60.0
"""Whose lines nobody takes for so long is not followed any more: another process reads it now, or nobody."""
_WINDOW_SECONDS = 30.0
"""Over how long it is seen whether a log is still written fast."""
_PAUSE = 0.5
"""Seconds between the end of a stream and the next try."""


def is_fast(lines: Sequence[OutputLine]) -> bool:
    """Say whether lines that were read at once were written so fast that the next read may come too late."""
    size = sum(len(line.data) for line in lines)
    return size >= FAST and size >= FAST * (lines[-1].time - lines[0].time)


class Place:
    """Tells new lines of a log that is read again from ``cursor.since`` on from those that were read before."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._found = not cursor.time
        self._skip = 0
        self.missed = False
        """The line that was read last is not there any more."""

    def is_new(self, time: int) -> bool:
        """Say it of the next line, by its nanoseconds."""
        if not self._found:
            if time < self._cursor.time:
                return False
            self._found, self.missed = True, time > self._cursor.time
            self._skip = 0 if self.missed else self._cursor.count
        if self._skip:
            self._skip -= 1
            return False
        return True


class Follower:
    """Follows one log from ``cursor`` on, over broken connections, until it is closed or nobody asks.

    What was taken counts as read only when the next call names the cursor behind it; else it is given once more.

    Args:
        open_stream: opens the log's stream.
        cursor: up to where it was read.
        held_bytes: how much of it is kept at most.
    """

    def __init__(self, open_stream: Open, cursor: Cursor, held_bytes: int = HELD_BYTES) -> None:
        self._open, self._held = open_stream, held_bytes
        self._change = threading.Condition()
        self._read, self._end = cursor, cursor
        """Up to where lines were taken for good, and up to where they have come in."""
        self._given: Piece | None = None
        self._lines: deque[tuple[Stamped, bool]] = deque()
        """Lines that wait, and whether some before them were missed."""
        self._size = 0
        self._window = (time.monotonic(), 0)
        self._asked = time.monotonic()
        self.closed = False
        self._thread = threading.Thread(target=self._run, name="optimus-follow", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether its thread still runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Follow no more; the thread ends with the next bytes or within the time of a silent read."""
        with self._change:
            self.closed = True
            self._change.notify_all()

    def take(self, cursor: Cursor, limit_bytes: int, wait: float = 0.0) -> Piece | None:
        """Return the lines behind ``cursor``.

        Args:
            cursor: up to where they were read: that of the last call, or of the piece that it gave.
            limit_bytes: about how many at most.
            wait: seconds to wait for a line if there is none.

        Returns:
            None if it does not follow any more, or was read by somebody else meanwhile.
        """
        with self._change:
            self._asked = time.monotonic()
            if self._given is not None and cursor == self._given.cursor:
                self._read, self._given = cursor, None
            if cursor != self._read:
                self.closed = True
                return None
            if self._given is None:
                self._change.wait_for(lambda: self._lines or self.closed, wait)
                self._given = self._gather(limit_bytes)
            return self._given or (None if self.closed else Piece((), cursor, missed=False, complete=False))

    def _gather(self, limit_bytes: int) -> Piece | None:
        """Take lines out, up to where some are missing."""
        taken: list[Stamped] = []
        size, missed = 0, bool(self._lines and self._lines[0][1])
        while self._lines and size < limit_bytes and not (taken and self._lines[0][1]):
            line, _ = self._lines.popleft()
            taken.append(line)
            size += len(line[1].data)
        self._size -= size
        self._close_if_slow(size)
        self._change.notify_all()
        if not taken:
            return None
        return Piece(tuple(line for _, line in taken), self._read.after(taken), missed, complete=False)

    def _close_if_slow(self, size: int) -> None:
        since, total = self._window[0], self._window[1] + size
        seconds = time.monotonic() - since
        self._window = (since, total)
        if seconds >= _WINDOW_SECONDS and not self._lines:
            self.closed = self.closed or total < FAST / 2 * seconds
            self._window = (time.monotonic(), 0)

    def _run(self) -> None:
        while self._goes_on():
            try:
                with self._open(self._end.since) as chunks:
                    self._take_in(chunks)
            except (ClusterUnavailable, HTTPError, OSError):
                pass  # it goes on where it was
            except OptimusError:
                break  # the pod is gone
            with self._change:
                self._change.wait_for(lambda: self.closed, _PAUSE)
                self._change.wait_for(lambda: self.closed or self._size < self._held / 2, _UNASKED_SECONDS)
        self.close()

    def _goes_on(self) -> bool:
        return not self.closed and time.monotonic() - self._asked < _UNASKED_SECONDS

    def _take_in(self, chunks: Iterator[bytes]) -> None:
        place, rest = Place(self._end), b""
        for chunk in chunks:
            whole, end, rest = (rest + chunk).rpartition(b"\n")
            if end:
                self._add(stamped(whole.split(b"\n")), place)
            if self._size + len(rest) > self._held or not self._goes_on():
                return

    def _add(self, lines: Sequence[Stamped], place: Place) -> None:
        with self._change:
            fresh = []
            for line in lines:
                if place.is_new(line[0]):
                    self._lines.append((line, place.missed))
                    fresh.append(line)
                    self._size += len(line[1].data)
                    place.missed = False
            self._end = self._end.after(fresh)
            self._change.notify_all()


class Followers:
    """The logs that this process follows, by the uid of their replica; at most ``most`` of them."""

    def __init__(self, most: int = MOST_FOLLOWED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: dict[str, Follower] = {}

    def begin(self, uid: str, open_stream: Open, cursor: Cursor) -> None:
        """Follow a log from ``cursor`` on, if there is room for one more."""
        with self._lock:
            self._known = {key: each for key, each in self._known.items() if each.alive or not each.closed}
            if uid not in self._known and len(self._known) < self._most:
                self._known[uid] = Follower(open_stream, cursor)

    def take(self, uid: str, cursor: Cursor, limit_bytes: int, wait: float = 0.0) -> Piece | None:
        """Return what :meth:`Follower.take` does; None too for a log that is not followed."""
        with self._lock:
            follower = self._known.get(uid)
        piece = follower.take(cursor, limit_bytes, wait) if follower is not None else None
        if follower is not None and piece is None:
            self.end(uid)
        return piece

    def end(self, uid: str) -> None:
        """Follow a log no more."""
        with self._lock:
            follower = self._known.pop(uid, None)
        if follower is not None:
            follower.close()

    def __len__(self) -> int:
        return len(self._known)
