"""Where the members of local groups listen: ports that nobody else is given."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from optimus_core.cluster.base import Endpoint, Member
from optimus_core.cluster.shim.files import read_json, write_json
from optimus_core.errors import ClusterUnavailable

HOST = "127.0.0.1"
FIRST, LAST = 20000, 32000
"""Below the ports that Linux deals out to clients (32768 and up)."""


class Ports:
    """The ports of all groups, one file each."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def of(self, group: str, members: Sequence[Member]) -> dict[Member, Endpoint]:
        """Return the endpoints of a group; choose those that are not chosen yet."""
        with self._lock():
            path = self.root / f"{group}.json"
            known = read_json(str(path)) or {}
            lacking = [_key(member) for member in members if _key(member) not in known]
            if lacking:
                known |= dict(zip(lacking, self._choose(group, len(lacking)), strict=True))
                write_json(str(path), known)
        return {member: Endpoint(HOST, known[_key(member)]) for member in members}

    def forget(self, job: str) -> None:
        """Give back the ports of a job's groups; where the folder is none, there are none to give back."""
        for path in self._files() if self.root.is_dir() else ():
            if re.fullmatch(re.escape(job) + r"-g\d+", path.stem):
                path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return [path for path in self.root.iterdir() if path.suffix == ".json"]

    def _choose(self, group: str, count: int) -> list[int]:
        taken = {port for path in self._files() for port in (read_json(str(path)) or {}).values()}
        chosen = []
        for port in _candidates(f"{self.root}/{group}"):
            if port not in taken and _is_free(port):
                chosen.append(port)
                if len(chosen) == count:
                    return chosen
        raise ClusterUnavailable(f"No {count} ports are free between {FIRST} and {LAST}. Wait for other jobs to end.")

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        descriptor = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _key(member: Member) -> str:
    return f"{member[0].value}-{member[1]}"


def _candidates(seed: str) -> Iterator[int]:
    """Begin at a place of the group's own, so that clusters that know nothing of each other seldom meet."""
    size = LAST - FIRST
    begin = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big") % size
    return (FIRST + (begin + offset) % size for offset in range(size))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
