"""What the tests start ends with them, even if they are killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

KILLED = """
import os, signal, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from real_airflow import Watcher
part = subprocess.Popen(["sleep", "600"], start_new_session=True)
replica = subprocess.Popen(["sleep", "600"], start_new_session=True, cwd=sys.argv[2])
Watcher(Path(sys.argv[2])).watch(part.pid)
print(part.pid, replica.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_test_leaves_nothing_behind(tmp_path):
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(tmp_path)]
    started = [int(word) for word in subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.split()]
    assert len(started) == 2
    end = time.monotonic() + 60
    while left := [pid for pid in started if _runs(pid)]:
        assert time.monotonic() < end, f"{left} still run"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
