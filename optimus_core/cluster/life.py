"""Whether a local replica lives: what its record says, held against the machine's processes.

A supervisor is known by process id *and* start time, within one boot and one process table, so a number that was
given out anew fools nobody. Whoever finds one dead writes the end down, under the lock that a living one would hold.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from optimus_core.cluster import shim
from optimus_core.cluster.base import Phase, Replica
from optimus_core.cluster.records import UID_VARIABLE, Record
from optimus_core.cluster.shim.files import LOCK, STATUS, message_in, write_json
from optimus_core.cluster.shim.processes import here, pids, stat_of

START_SECONDS = 10.0
"""A supervisor that is not up this long after it was begun never will be: it takes 0.1 s, seconds under load."""
HEAL_SECONDS = 2.0
"""A record that nobody has started by then lost its creator: whoever lists it starts it."""
_PATIENCE = 5.0
_STARTED, _COMPLAINTS = "started", "supervisor.log"
_SHIM = str(Path(shim.__file__).parent / "__main__.py")


def start(folders: Sequence[Path]) -> None:
    """Start the supervisors of records. Twice is harmless: the second one finds the lock held and leaves."""
    for folder in folders:
        (folder / _STARTED).touch()
    command = [sys.executable, "-I", "-S", _SHIM]
    for process in [_spawn([*command, str(folder)], folder / _COMPLAINTS) for folder in folders]:
        process.wait()  # it detaches at once


def _spawn(command: Sequence[str], complaints: Path) -> subprocess.Popen[bytes]:
    nothing, plain = subprocess.DEVNULL, {"PATH": os.environ.get("PATH", os.defpath)}
    with complaints.open("ab") as errors:
        return subprocess.Popen(
            command, env=plain, cwd="/", stdin=nothing, stdout=nothing, stderr=errors, start_new_session=True
        )


def is_started(folder: Path) -> bool:
    """Say whether somebody has started a record's supervisor, or need not any more."""
    return (folder / _STARTED).exists() or (folder / STATUS).exists()


def observe(record: Record) -> Replica:
    """Return the replica as it is now; settle what has ended unseen."""
    status = record.status
    if status is not None and Phase(status["phase"]).ended:
        return record.replica(status)
    origin = status or record.spec["created_by"]
    if is_foreign(origin):
        return record.replica(status, Phase.UNKNOWN)
    if status is not None:
        return record.replica(status) if is_alive(status) else _settle(record, "Lost", _LOST)
    return _observe_unstarted(record)


_LOST = "Its supervisor was killed, or the machine was started anew."


def _observe_unstarted(record: Record) -> Replica:
    if record.stop is not None:
        return _settle(record, "Deleted", "It was asked to stop before it had started.")
    if not _same_table(record.spec["created_by"]):
        return _settle(record, "Lost", _LOST)
    age = _age(record.folder / _STARTED)
    if age is not None and age > START_SECONDS:
        return _settle(record, "StartError", _no_start(record.folder))
    if age is None and time.time() - record.spec["created_at"] > HEAL_SECONDS and _group_is_whole(record):
        start([record.folder])
    return record.replica(record.status)


def _no_start(folder: Path) -> str:
    text = f"Its supervisor did not come up within {START_SECONDS:.0f} s."
    with contextlib.suppress(OSError):
        return f"{text} {(folder / _COMPLAINTS).read_text(errors='replace')[-500:]}".strip()
    return text


def _group_is_whole(record: Record) -> bool:
    return all((record.folder.parent / name).exists() for name in record.spec["group"])


def _age(path: Path) -> float | None:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return None


def is_foreign(origin: Mapping[str, Any]) -> bool:
    """Say whether a process is one of another host, of which nothing can be known here."""
    return not _same_table(origin) and bool(origin["host"] != here()["host"])


def _same_table(origin: Mapping[str, Any]) -> bool:
    now = here()
    return bool(origin["boot"] == now["boot"] and origin["processes"] == now["processes"])


def is_alive(status: Mapping[str, Any]) -> bool:
    """Say whether the very process that wrote ``status`` is there."""
    if not _same_table(status):
        return False
    stat = stat_of(status["pid"])
    return stat is not None and stat[0] not in "ZX" and stat[2] == status["start"]


def _settle(record: Record, reason: str, message: str) -> Replica:
    """Write the end of a replica that has no supervisor; where that is in doubt, it is unknown."""
    with _lock(record.folder) as held:
        status = record.status
        if status is not None and Phase(status["phase"]).ended:
            return record.replica(status)
        if not held or (status is not None and is_alive(status)):
            return record.replica(status, Phase.UNKNOWN if status is not None else Phase.PENDING)
        if not _kill_leftovers(record.uid):
            return record.replica(status, Phase.UNKNOWN)
        text = message_in(str(record.folder)) or message
        end = {"phase": Phase.FAILED.value, "ended_at": time.time(), "reason": reason, "message": text}
        status = (status or {}) | end
        write_json(str(record.folder / STATUS), status)
        return record.replica(status)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
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


def _kill_leftovers(uid: str) -> bool:
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


def ask_to_stop(record: Record) -> None:
    """Wake the supervisor, if it can be reached; it looks for the request by itself within a second otherwise."""
    status = record.status
    if status is None:
        observe(record)
    elif is_alive(status):
        send_if(status["pid"], signal.SIGTERM, partial(is_alive, status))
