"""What the tests start ends with them, even if they are killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

KILLED = """
import os, signal, subprocess, sys
sys.path.insert(0, sys.argv[1])
from real_airflow import Watcher
part = subprocess.Popen(["sleep", "600"], start_new_session=True)
Watcher().watch(part.pid)
print(part.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_test_leaves_no_part_of_airflow_behind():
    done = subprocess.run([sys.executable, "-c", KILLED, str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True)
    part = int(done.stdout)
    end = time.monotonic() + 30
    while _runs(part):
        assert time.monotonic() < end, "the part still runs"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
