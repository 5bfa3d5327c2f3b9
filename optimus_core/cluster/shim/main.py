"""Claim the record, run it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from .files import LOCK, SPEC, STATUS, read_json
from .supervisor import Supervisor


def _claim(folder: str) -> int | None:
    """Hold the record's lock for as long as this process lives; None if another supervisor has the record."""
    descriptor = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None if os.path.exists(os.path.join(folder, STATUS)) else descriptor
        if os.path.exists(os.path.join(folder, STATUS)) or not os.path.exists(folder):
            return None
        time.sleep(0.01)


def main(folder: str) -> None:
    """Claim a record and run it."""
    spec = read_json(os.path.join(folder, SPEC))
    if spec is None or _claim(folder) is None:
        return
    Supervisor(folder, spec).run()
