"""A connection to a SQLite file that stays open and does nothing, so that no other is ever the last one.

Whenever the last connection to a file is closed, SQLite writes its log back, waits for the disk and removes the log:
at each transaction of ours, since no connection outlives its use. Source: sqlite.org, "Write-Ahead Logging".
"""

from __future__ import annotations

import atexit
import os
import sqlite3
from contextlib import suppress
from weakref import WeakSet

_anchors: WeakSet[Anchor] = WeakSet()


class Anchor:
    """Holds the file at ``path`` open from the first :meth:`hold` on.

    No connection may be carried into a child process: a fork lets go of the file, the next use holds it again.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        _anchors.add(self)

    def hold(self) -> None:
        """Hold the file, which keeps its log already; without that everything goes on, only slower."""
        if self._connection is not None:
            return
        with suppress(sqlite3.Error):
            made = sqlite3.connect(self._path, timeout=0, check_same_thread=False)
            made.execute("select 1 from sqlite_master").fetchall()  # the log is opened by what reads first
            self._connection = made

    def let_go(self) -> None:
        """Close the connection, if there is one."""
        made, self._connection = self._connection, None
        if made is not None:
            made.close()


def _let_all_go() -> None:
    for anchor in list(_anchors):
        anchor.let_go()


os.register_at_fork(before=_let_all_go)
atexit.register(_let_all_go)
