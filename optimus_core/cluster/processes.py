"""Which of the machine's processes are meant.

A supervisor is known by process id *and* start time, within one boot and one process table, so a number that was
given out anew fools nobody. What a killed one left behind is known by the uid in its environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from optimus_core.cluster.records import UID_VARIABLE
from optimus_core.cluster.shim.files import LOCK
from optimus_core.cluster.shim.processes import here, pids, stat_of

_PATIENCE = 5.0


def is_foreign(origin: Mapping[str, Any]) -> bool:
    """Say whether a process is one of another host, of which nothing can be known here."""
    return not is_same_table(origin) and bool(origin["host"] != here()["host"])


def is_same_table(origin: Mapping[str, Any]) -> bool:
    """Say whether process numbers of then and there mean the same here and now."""
    now = here()
    return bool(origin["boot"] == now["boot"] and origin["processes"] == now["processes"])


def is_alive(status: Mapping[str, Any]) -> bool:
    """Say whether the very process that wrote ``status`` is there."""
    if not is_same_table(status):
        return False
    stat = stat_of(status["pid"])
    return stat is not None and stat[0] not in "ZX" and stat[2] == status["start"]


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[bool]:
    """Hold a record's lock if nobody else does."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # forgotten meanwhile
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def kill_leftovers(uid: str) -> bool:
    """Kill all processes of a replica, known by their environment; say whether none is left."""
    end = time.monotonic() + _PATIENCE
    while left := [pid for pid in pids() if _belongs(pid, uid)]:
        if time.monotonic() > end:
            return False
        for pid in left:
            send_if(pid, signal.SIGKILL, partial(_belongs, pid, uid))
        time.sleep(0.005)
    return True


def _belongs(pid: int, uid: str) -> bool:
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    stat = stat_of(pid)
    return f"{UID_VARIABLE}={uid}".encode() in content.split(b"\0") and stat is not None and stat[0] not in "ZX"


def send_if(pid: int, number: int, is_meant: Callable[[], bool]) -> None:
    """Send a signal to a process if it is the one that is meant, and to no other that takes its number meanwhile."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(pid)
        try:
            if is_meant():
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
