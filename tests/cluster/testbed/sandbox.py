"""The namespaces that a cluster lives in.

One cluster is one set of namespaces (mounts, network, processes) under one process 1, and one folder. To end that
process is to end every other one, those of containers too; the kernel then drops their mounts, bridges, addresses
and nft tables. Only cgroups and the folder are left to remove.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.cluster.testbed import cgroups
from tests.cluster.testbed.errors import ClusterError
from tests.cluster.testbed.layout import Options, State, nodes
from tests.cluster.testbed.shell import PATH, run, until

INIT = Path(__file__).with_name("init.py")


def started(pid: int) -> int | None:
    """Return when a process started, in ticks of the clock; None if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class Sandbox:
    """The namespaces of the cluster in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = f"ot-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
        """Names its network device on the machine and its cgroup."""

    def alive(self, state: State | None) -> bool:
        """Return whether the namespaces of ``state`` are there."""
        return state is not None and started(state.init) == state.started

    def begin(self, options: Options) -> State:
        """Make the namespaces and their network; what they show at /etc must be in the folder."""
        words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        words += [sys.executable, "-I", str(INIT), str(self.folder)]
        with (self.folder / "logs" / "init.log").open("ab") as log:
            launcher = ["sh", "-c", 'setsid "$@" </dev/null >&2 & echo $!', "sh", *words]
            done = subprocess.run(
                launcher, stdout=subprocess.PIPE, stderr=log, check=True, env=_environ(), cwd="/", text=True
            )
        outer = int(done.stdout)
        children = Path(f"/proc/{outer}/task/{outer}/children")
        pid = int(until("process 1 of the cluster", lambda: children.exists() and children.read_text().strip()) or 0)
        state = State(pid, started(pid) or 0, _free_net(), options)
        state.save(self.folder)
        until("the cluster's mounts (see logs/init.log)", lambda: self._ready(state), 20)
        self._network(state)
        return state

    def _ready(self, state: State) -> bool:
        if not self.alive(state):
            raise ClusterError(f"process 1 has ended: {(self.folder / 'logs' / 'init.log').read_text()[-2000:]}")
        return (self.folder / "ready").exists()

    def _network(self, state: State) -> None:
        """One cable to the machine, and a bridge for each node; no route leads out."""
        outside = [f"link add {self.id} type veth peer name host netns {state.init}"]
        outside += [f"addr add {state.net}.1/30 dev {self.id}", f"link set {self.id} up"]
        run("ip", "-batch", "-", stdin="\n".join(outside))
        inside = [f"addr add {state.address}/30 dev host", "link set host up", "link set lo up"]
        for node in nodes(self.folder):
            inside += [f"link add {node.bridge} type bridge", f"addr add {node.gateway}/16 dev {node.bridge}"]
            inside += [f"link set {node.bridge} up"]
        run(*_enter(state), "ip", "-batch", "-", stdin="\n".join(inside))
        run(*_enter(state), "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")

    def launch(self, state: State, name: str, argv: Sequence[str]) -> None:
        """Start a component inside; its output goes to ``logs``."""
        with (self.folder / "logs" / f"{name}.log").open("ab") as log:
            subprocess.run(
                [*_enter(state), "setsid", "--fork", *argv],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, env=_environ(), cwd="/",
            )  # fmt: skip

    def find(self, state: State, argv: Sequence[str]) -> int | None:
        """Return the process that runs exactly ``argv`` inside, as the machine numbers it."""
        wanted = "\0".join(argv).encode() + b"\0"
        for pid in _children(state.init):
            if _command_line(pid) == wanted and started(pid):
                return pid
        return None

    def end(self, state: State | None) -> None:
        """End every process of the cluster and remove all that it left, its folder too."""
        if state is not None and self.alive(state):
            _end(state.init)
        for pid in self._strays():
            _end(pid)
        until(f"the network device {self.id} is gone", self._unplugged)
        cgroups.remove(self.id)
        if f" {self.folder}/" in Path("/proc/self/mountinfo").read_text():
            raise ClusterError(f"something is mounted under {self.folder}, so it is not removed: unmount it")
        until(f"{self.folder} is removed", self._removed)

    def _removed(self) -> bool:
        """Remove the folder; not at the first try when a process that is just ending still writes there."""
        shutil.rmtree(self.folder, ignore_errors=True)
        return not self.folder.exists()

    def _strays(self) -> list[int]:
        """Return launchers and processes 1 that nobody wrote down: those of a start that was cut off."""
        words = f"{INIT}\0{self.folder}\0".encode()
        return [pid for pid in psutil.pids() if pid != os.getpid() and _command_line(pid).endswith(words)]

    def _unplugged(self) -> bool:
        return not Path("/sys/class/net", self.id).exists()


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until(f"process {pid} of the cluster has ended", lambda: started(pid) is None)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _enter(state: State) -> list[str]:
    return ["nsenter", "-t", str(state.init), "-m", "-n", "-p", "--"]


def _environ() -> dict[str, str]:
    """What components see: nothing of proxies and the like."""
    return {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8"}


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _free_net() -> str:
    used = run("ip", "-4", "-o", "addr") + run("ip", "-4", "route")
    return next(net for net in (f"10.99.{number}" for number in range(256)) if f"{net}." not in used)
