"""The record of a local replica: a folder that any process can read, claimed by giving it its final name."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from optimus_core.cluster.base import OWNER_LABEL, Phase, Replica, ReplicaSpec, Role
from optimus_core.cluster.shim.files import SPEC, STATUS, STOP, TERMINATION, read_json, write_json
from optimus_core.cluster.shim.processes import here
from optimus_core.resources import Resources

UID_VARIABLE = "OPTIMUS_REPLICA_UID"
"""In the environment of every process of a replica: whose it is, whatever became of its supervisor."""
_INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
_CHECKED = "fingerprint"


@dataclass(frozen=True)
class Record:
    """A record folder and the specification in it."""

    folder: Path
    spec: Mapping[str, Any]

    @property
    def uid(self) -> str:
        """The replica's uid."""
        return str(self.spec["uid"])

    @property
    def status(self) -> dict[str, Any] | None:
        """What its supervisor wrote last."""
        return read_json(str(self.folder / STATUS))

    @property
    def stop(self) -> dict[str, Any] | None:
        """The request to stop, if there is one."""
        return read_json(str(self.folder / STOP))

    def is_of(self, spec: ReplicaSpec) -> bool:
        """Say whether it was made from ``spec``."""
        return bool(self.spec[_CHECKED] == fingerprint(spec))

    def replica(self, status: Mapping[str, Any] | None, phase: Phase | None = None) -> Replica:
        """Return the replica as ``status`` tells it, or in ``phase``."""
        spec, status = self.spec, status or {}
        phase = phase or Phase(status.get("phase", Phase.PENDING))
        return Replica(
            name=spec["name"],
            uid=spec["uid"],
            job=spec["job"],
            generation=spec["generation"],
            role=Role(spec["role"]),
            index=spec["index"],
            node=spec["node"],
            resources=Resources(spec["resources"]),
            phase=phase,
            terminating=self.stop is not None,
            ready=phase is Phase.RUNNING,
            exit_code=status.get("exit_code"),
            reason=status.get("reason"),
            message=status.get("message"),
            created_at=_moment(spec["created_at"]),
            started_at=_moment(status.get("started_at")),
            ended_at=_moment(status.get("ended_at")),
            owner=spec["labels"].get(OWNER_LABEL, ""),
        )


def read(folder: Path) -> Record | None:
    """Return the record in a folder, None if there is none that can be read."""
    spec = read_json(str(folder / SPEC))
    return Record(folder, spec) if spec and "uid" in spec and _CHECKED in spec else None


def fingerprint(spec: ReplicaSpec) -> str:
    """Return a hash of all that was asked for: the same specification is the same replica."""
    plain = asdict(spec) | {"resources": dict(spec.resources), "env": dict(spec.env), "labels": dict(spec.labels)}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def write(root: Path, spec: ReplicaSpec, group: Iterable[str], output_limit: int) -> Path | None:
    """Make the record of a replica under ``root``; None if its name is taken by then."""
    uid = uuid.uuid4().hex
    draft, folder = root / f".{uid}", root / spec.name
    draft.mkdir(mode=0o700)
    values = asdict(spec) | {"resources": dict(spec.resources), "labels": dict(spec.labels)}
    values.pop("env")
    created = {"uid": uid, "created_at": time.time(), "created_by": here(), _CHECKED: fingerprint(spec)}
    more = {"group": sorted(group), "environment": environment(spec, uid, folder), "output_limit": output_limit}
    try:
        write_json(str(draft / SPEC), values | created | more)
        os.rename(draft, folder)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not folder.exists():
            raise
        return None
    return folder


def environment(spec: ReplicaSpec, uid: str, folder: Path) -> dict[str, str]:
    """Return the whole environment of a replica: a few plain variables of ours, and what the specification names."""
    plain = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    locale = {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    own = {UID_VARIABLE: uid, "OPTIMUS_TERMINATION_MESSAGE": str(folder / TERMINATION)}
    return {"PATH": os.defpath} | plain | locale | dict(spec.env) | own


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
