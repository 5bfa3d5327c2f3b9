"""What ends a quickstart: a process of its own that outlives it, so that nothing else does.

It is told the process ids of Airflow's parts, a line each. When its input ends, since the quickstart has ended in
whatever way, it stops them with all that they have started, then the training jobs, and waits until all is gone.
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

_PATIENCE = 20
"""Seconds for Airflow to end by itself."""
_LONGEST = 120
"""Seconds for the jobs to end: more than their grace."""


def end(parts: Iterable[int], settings: Settings) -> None:
    """Stop Airflow first, or it would try stopped jobs again; then the jobs."""
    _stop_airflow(set(parts))
    stop_jobs(Engine(settings))


def _stop_airflow(parts: set[int]) -> None:
    members = _members(parts)
    for process in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, left = psutil.wait_procs(members, _PATIENCE)
    for process in {*left, *_members(parts)}:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


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
    while time.monotonic() < until:
        with engine.store.transaction() as tx:
            live = [row.id for row in tx.jobs(states=LIVE)]
        if not live:
            return
        for job_id in live:
            engine.request_stop(job_id, by="the end of the quickstart")
            engine.step(job_id)
        time.sleep(0.2)


def main() -> None:
    """Wait for the end of input, then end everything."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parts = [int(line) for line in sys.stdin if line.endswith("\n")]
    end(parts, Settings.load())


if __name__ == "__main__":
    main()
