"""A cluster of this machine's processes: no daemon, only records on disk and one small supervisor per replica."""

from __future__ import annotations

import builtins
import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from optimus_core.cluster import life, records
from optimus_core.cluster.base import CheckpointPlace, Endpoint, Member, NodeInfo, Output, Replica, ReplicaSpec, Role
from optimus_core.cluster.nodes import this_machine
from optimus_core.cluster.output import read_lines
from optimus_core.cluster.ports import Ports
from optimus_core.cluster.shim.files import STOP, write_json
from optimus_core.errors import ClusterUnavailable, NameTaken, SpecificationError
from optimus_core.resources import Resources

OUTPUT_LIMIT = 64 << 20
"""Bytes of output that are kept of a replica: hours of a line each step."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class _Unavailable(contextlib.ContextDecorator):
    """Tells an error of the file system as what it means to a caller: nothing is known now."""

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Say it in the protocol's words."""
        if isinstance(error, OSError):
            raise ClusterUnavailable(f"The local cluster's records can't be used now: {error}") from error


class LocalCluster:
    """Replicas are processes on virtual nodes of this machine; they outlive whoever started them.

    Args:
        name: the name under which it is declared.
        root: the folder of its records; every process that gives the same sees the same cluster.
        nodes: what there is to hand out; by default one node with what the machine has.
        output_limit: bytes of output that are kept of each replica.

    Raises:
        ClusterUnavailable: the folder can't be made.
    """

    def __init__(
        self, name: str, root: Path | str, nodes: Sequence[NodeInfo] = (), *, output_limit: int = OUTPUT_LIMIT
    ) -> None:
        self.name = name
        self.root = Path(root).resolve()
        self.output_limit = output_limit
        self._nodes = list(nodes) or [this_machine()]
        self._replicas = self.root / "replicas"
        self._ports = Ports(self.root / "groups")
        with _Unavailable():
            for folder in (self.root, self._replicas, self._ports.root):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def nodes(self) -> builtins.list[NodeInfo]:
        """Return the virtual nodes."""
        return builtins.list(self._nodes)

    @_Unavailable()
    def list(self, job: str | None = None) -> builtins.list[Replica]:
        """Return the replicas of ``job``, or of all jobs, the ended ones too until they are forgotten."""
        return [life.observe(record) for record in self._records(job)]

    def _records(self, job: str | None) -> builtins.list[records.Record]:
        names = sorted(name for name in os.listdir(self._replicas) if not name.startswith("."))
        found = (records.read(self._replicas / name) for name in names)
        return [record for record in found if record is not None and job in (None, record.spec["job"])]

    @_Unavailable()
    def endpoints(self, group: str, members: Sequence[Member]) -> dict[Member, Endpoint]:
        """Return a port of this machine for each member; the same each time."""
        return self._ports.of(group, members)

    def checkpoint_place(
        self, job: str, asked: Mapping[str, str] | None, *, resumable: bool, together: bool = False
    ) -> CheckpointPlace:
        """Return that of the settings: replicas are of this machine."""
        return CheckpointPlace()

    def discard_checkpoints(self, job: str, namespace: str | None) -> bool:
        """Do nothing: no place is made for one job."""
        return False

    def library(self, folder: Path) -> str:
        """Return the folder itself: replicas are of this machine."""
        return str(folder)

    def trial(self, replicas: Sequence[ReplicaSpec]) -> dict[Role, Resources]:
        """Return what they ask for: nothing is added to it."""
        self.check(replicas)
        return {spec.role: spec.resources for spec in replicas}

    @_Unavailable()
    def check(self, replicas: Sequence[ReplicaSpec]) -> None:
        """Look for what would keep these replicas from starting."""
        names = [spec.name for spec in replicas]
        if len(set(names)) < len(names):
            raise SpecificationError("Two replicas of a group have the same name. Give each one of its own.")
        for spec in replicas:
            self._check_one(spec)

    def _check_one(self, spec: ReplicaSpec) -> None:
        known = [node.name for node in self._nodes]
        if not _NAME.fullmatch(spec.name):
            raise SpecificationError(f'"{spec.name}" is no name of a replica: write letters, digits and "-".')
        if spec.node and spec.node not in known:
            raise SpecificationError(f'There is no node "{spec.node}" in cluster {self.name}: {", ".join(known)}.')
        if not spec.command:
            raise SpecificationError(f"{spec.name} has no command. Write such as [python, train.py].")
        if spec.working_dir is not None and not os.path.isdir(spec.working_dir):
            raise SpecificationError(f'{spec.name} starts in "{spec.working_dir}", which is no folder here.')
        for text in (*spec.command, *spec.env.keys(), *spec.env.values()):
            if "\0" in text:
                raise SpecificationError(f"{spec.name} has a NUL in its command or environment. Leave it out.")

    @_Unavailable()
    def create(self, group: str, replicas: Sequence[ReplicaSpec]) -> None:
        """Start a whole group or nothing of it; those that exist already stay as they are."""
        self.check(replicas)
        for spec in replicas:
            self._check_owner(spec)
        made: builtins.list[Path] = []
        try:
            for spec in replicas:
                if self._make(spec, [each.name for each in replicas]):
                    made.append(self._replicas / spec.name)
        except BaseException:
            for folder in made:
                if not life.is_started(folder):
                    self._remove(folder)
            raise
        life.start([path for spec in replicas if not life.is_started(path := self._replicas / spec.name)])

    def _make(self, spec: ReplicaSpec, group: Sequence[str]) -> bool:
        if records.read(self._replicas / spec.name) is not None:
            return False
        if records.write(self._replicas, spec, group, self.output_limit) is not None:
            return True
        self._check_owner(spec)
        return False

    def _check_owner(self, spec: ReplicaSpec) -> None:
        record = records.read(self._replicas / spec.name)
        if record is not None and not record.is_of(spec):
            raise NameTaken(f"{spec.name} exists in cluster {self.name}, made from another specification.")

    @_Unavailable()
    def delete(self, replicas: Sequence[Replica], grace_seconds: float | None = None) -> None:
        """Ask replicas to stop, by uid, and return at once."""
        for replica in replicas:
            record = self._find(replica)
            if record is not None and not life.observe(record).phase.ended:
                _request_stop(record, grace_seconds)

    def _find(self, replica: Replica) -> records.Record | None:
        record = records.read(self._replicas / replica.name)
        return record if record is not None and record.uid == replica.uid else None

    @_Unavailable()
    def output(self, replica: Replica, cursor: str | None, limit_bytes: int = 1 << 20) -> Output:
        """Return lines from ``cursor`` on; a frame of a progress bar is a line too."""
        record = self._find(replica)
        if record is None:
            return Output((), cursor or "0", ended=True)
        ended = life.observe(record).phase.ended  # first: what is written before the end is then seen below
        lines, position, missed, complete = read_lines(record.folder, cursor, limit_bytes)
        return Output(lines, str(position), ended and complete, missed)

    @_Unavailable()
    def forget(self, job: str, before: int | None = None) -> None:
        """Remove the records and outputs of the job's ended replicas, and its ports once none is left."""
        left = before is not None
        for record in self._records(job):
            if before is not None and record.spec["generation"] >= before:
                continue
            if life.observe(record).phase.ended:
                self._remove(record.folder)
            else:
                left = True
        if not left:
            self._ports.forget(job)

    def _remove(self, folder: Path) -> None:
        """Let a record vanish at once, then clear it away."""
        grave = self._replicas / f".{uuid.uuid4().hex}"
        try:
            os.rename(folder, grave)
        except FileNotFoundError:
            return
        shutil.rmtree(grave, ignore_errors=True)


def _request_stop(record: records.Record, grace_seconds: float | None) -> None:
    grace = record.spec["grace_seconds"] if grace_seconds is None else max(0.0, grace_seconds)
    before, deadline = record.stop, time.time() + grace
    try:
        if before is None or deadline < before["deadline"]:
            write_json(str(record.folder / STOP), {"grace_seconds": grace, "deadline": deadline})
    finally:  # where the request can't be written, such as on a full disk, the signal alone stops it
        life.ask_to_stop(record)
