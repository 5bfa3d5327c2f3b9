"""When to leave: SIGTERM sets a flag, and the script looks at it once a step.

The handler is installed by the first question and not by the import: a script that never asks should die of
SIGTERM as any other program does.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

_requested = threading.Event()
_installed = False


def stop_requested() -> bool:
    """True once this replica has been asked to stop: finish the step, save a checkpoint, exit with 0.

    Ask early, before the slow part of the start. Only the main thread can catch signals, so the first
    question must come from there. All ranks have to leave after the same step, so tell the others: let the
    flag travel with what they exchange in each step.
    """
    if not _installed and threading.current_thread() is threading.main_thread():
        _install()
    return _requested.is_set()


def _install() -> None:
    global _installed
    earlier = signal.getsignal(signal.SIGTERM)

    def handle(number: int, frame: Any) -> None:
        _requested.set()
        if callable(earlier):
            earlier(number, frame)

    signal.signal(signal.SIGTERM, handle)
    _installed = True
