"""Which process is which, and the calls to the kernel that Python's ``os`` lacks."""

from __future__ import annotations

import contextlib
import functools
import os

SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl(2)."""


@functools.cache
def here() -> dict[str, str]:
    """Return what tells this machine, its boot and its process table from others."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return {"host": os.uname().nodename, "boot": boot, "processes": os.readlink("/proc/self/ns/pid")}


def stat_of(pid: int) -> tuple[str, int, int] | None:
    """Return state, parent and start (in clock ticks since boot) of a process, None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return (fields[0].decode(), int(fields[1]), int(fields[19])) if len(fields) > 19 else None


def pids() -> list[int]:
    """Return the numbers of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(root: int) -> list[int]:
    """Return the live processes below ``root``."""
    stats = {pid: stat for pid in pids() if (stat := stat_of(pid)) is not None}
    children: dict[int, list[int]] = {}
    for pid, (_, parent, _) in stats.items():
        children.setdefault(parent, []).append(pid)
    found, todo = [], list(children.get(root, []))
    while todo:
        pid = todo.pop()
        todo.extend(children.get(pid, []))
        if stats[pid][0] not in "ZX":
            found.append(pid)
    return found


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def send(pid: int, number: int) -> None:
    """Send a signal to a process (or, negative, to a group) that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
