"""One read of the API for all who ask at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class SharedRead(Generic[_T]):
    """Gives what was read after the asker came; who comes while a read is under way shares the next one.

    So a thousand triggers of one process cost one list at a time, and none of them sees an older state than its own
    list would have shown.

    Args:
        read: reads it.
    """

    def __init__(self, read: Callable[[], _T]) -> None:
        self._read = read
        self._counting, self._reading = threading.Lock(), threading.Lock()
        self._begun = 0
        self._last: tuple[int, _T] | None = None

    def get(self) -> _T:
        """Return the result of a read that began after this call did."""
        with self._counting:
            needed = self._begun + 1
        with self._reading:
            if self._last is not None and self._last[0] >= needed:
                return self._last[1]
            with self._counting:
                self._begun += 1
            self._last = (self._begun, self._read())
            return self._last[1]
