"""Process 1 of the cluster's namespaces: makes private mounts, then reaps what is orphaned, for ever.

Run as ``python init.py FOLDER`` by :mod:`tests.cluster.testbed.sandbox`; needs the standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

_PRIVATE = ("/run", "/var/lib", "/var/log")
"""Sockets of shims, fixed folders of CNI and kubelet, links to the logs of pods."""
_CPUS = Path("/sys/devices/system/node")
"""Where kubelet counts processors."""


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _bind(source: Path, target: Path) -> None:
    """Show ``source`` at ``target``, also where that is a link into a folder that we have hidden."""
    target = target.resolve()
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount("--bind", str(source), str(target))


def mount(folder: Path) -> None:
    """Hide the machine's folders from the cluster, and show it what is in ``folder``."""
    for place in _PRIVATE:
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    Path("/run/lock").mkdir()
    for name in ("hosts", "resolv.conf"):
        _bind(folder / name, Path("/etc") / name)
    if (folder / "cpus").exists() and _CPUS.exists():
        _bind(folder / "cpus", _CPUS)


def reap() -> None:
    """Wait for children for ever; a process 1 gets those of others as well."""
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


if __name__ == "__main__":
    mount(Path(sys.argv[1]))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    Path(sys.argv[1], "ready").touch()
    reap()
