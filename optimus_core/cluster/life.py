"""Whether a local replica lives: what its record says, held against the machine's processes.

Whoever finds a supervisor dead writes the end down, under the lock that a living one would hold, so that a verdict
stands once it was given.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from optimus_core.cluster import shim
from optimus_core.cluster.base import Phase, Replica
from optimus_core.cluster.processes import is_alive, is_foreign, is_same_table, kill_leftovers, lock, send_if
from optimus_core.cluster.records import Record
from optimus_core.cluster.shim.files import STATUS, message_in, write_json

START_SECONDS = 10.0
"""A supervisor that is not up this long after it was begun never will be: it takes 0.1 s, seconds under load."""
HEAL_SECONDS = 2.0
"""A record that nobody has started by then lost its creator: whoever lists it starts it."""
OVERDUE_SECONDS = 15.0
"""A supervisor that has not ended its replica this long after the deadline is stuck (it was stopped, or waits for a
disk): whoever looks ends both. It takes up to 10 s itself to kill and to read the last output."""
_DEATH_SECONDS = 1.0
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
        return _observe_overdue(record, status) if is_alive(status) else _settle(record, "Lost", _LOST)
    return _observe_unstarted(record)


_LOST = "Its supervisor was killed, or the machine was started anew."
_STUCK = "Its supervisor did not end it in time, so that both were killed."


def _observe_overdue(record: Record, status: dict[str, Any]) -> Replica:
    """Return a replica whose supervisor lives; end both if it has not done what it was asked to do long ago."""
    stop = record.stop
    if stop is None or time.time() < stop["deadline"] + OVERDUE_SECONDS:
        return record.replica(status)
    send_if(status["pid"], signal.SIGKILL, partial(is_alive, status))
    end = time.monotonic() + _DEATH_SECONDS
    while is_alive(status) and time.monotonic() < end:
        time.sleep(0.005)
    return _settle(record, "Lost", _STUCK)


def _observe_unstarted(record: Record) -> Replica:
    if record.stop is not None:
        return _settle(record, "Deleted", "It was asked to stop before it had started.")
    if not is_same_table(record.spec["created_by"]):
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


def _settle(record: Record, reason: str, message: str) -> Replica:
    """Write the end of a replica that has no supervisor; where that is in doubt, it is unknown."""
    with lock(record.folder) as held:
        status = record.status
        if status is not None and Phase(status["phase"]).ended:
            return record.replica(status)
        if not held or (status is not None and is_alive(status)):
            return record.replica(status, Phase.UNKNOWN if status is not None else Phase.PENDING)
        if not kill_leftovers(record.uid):
            return record.replica(status, Phase.UNKNOWN)
        text = message_in(str(record.folder)) or message
        end = {"phase": Phase.FAILED.value, "ended_at": time.time(), "reason": reason, "message": text}
        status = (status or {}) | end
        write_json(str(record.folder / STATUS), status)
        return record.replica(status)


def ask_to_stop(record: Record) -> None:
    """Wake the supervisor, if it can be reached; it looks for the request by itself within a second otherwise."""
    status = record.status
    if status is None:
        observe(record)
    elif is_alive(status):
        send_if(status["pid"], signal.SIGTERM, partial(is_alive, status))
