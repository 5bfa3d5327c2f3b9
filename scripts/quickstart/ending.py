"""What ends a quickstart: a process of its own that outlives it, so that nothing else does.

It is told the process ids of Airflow's parts, a line each. When its input ends, since the quickstart has ended in
whatever way, it asks them and the training jobs to stop, and waits until all is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable

import psutil

from optimus_core.engine.engine import Engine
from optimus_core.settings import Settings
from optimus_core.store import LIVE

_PATIENCE = 2
"""Seconds for Airflow to end by itself."""
_LONGEST = 120
"""Seconds for the jobs to end: more than their grace."""


def end(parts: Iterable[int], settings: Settings) -> None:
    """Stop Airflow and the jobs at the same time; then what Airflow may have submitted in its last moments."""
    members = _members(set(parts))
    for process in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    until = time.monotonic() + _PATIENCE
    with contextlib.suppress(Exception):  # it is tried again below
        ask_jobs(Engine(settings))
    while time.monotonic() < until and any(map(_lives, members)):
        time.sleep(0.1)
    for process in {*members, *_members(set(parts))}:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    stop_jobs(Engine(settings))


def _lives(process: psutil.Process) -> bool:
    """Say whether a process still does something; one that its parent has not waited for does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _members(parts: set[int]) -> set[psutil.Process]:
    """Return the parts that are left, what is in their sessions, and what those have started."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getsid(process.pid) in parts:
                found |= {process, *process.children(recursive=True)}
    return found


def stop_jobs(engine: Engine) -> None:
    """Stop all training jobs and wait until none of their replicas is left."""
    until = time.monotonic() + _LONGEST
    while ask_jobs(engine) and time.monotonic() < until:
        time.sleep(0.2)


def ask_jobs(engine: Engine) -> bool:
    """Take a step with each live job towards its end; return whether there is one."""
    with engine.store.transaction() as tx:
        live = [row.id for row in tx.jobs(states=LIVE)]
    for job_id in live:
        engine.request_stop(job_id, by="the end of the quickstart")
        engine.step(job_id)
    return bool(live)


def main() -> None:
    """Wait for the end of input, then end everything."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parts = [int(line) for line in sys.stdin if line.endswith("\n")]
    end(parts, Settings.load())


if __name__ == "__main__":
    main()
