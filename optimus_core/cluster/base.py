"""What Optimus asks of a cluster: the only place that starts or stops anything.

The protocol is cut so that pods fit it as well as processes: replicas have a name that we choose and a uid that the
cluster gives, deletes take a grace period and return at once, outputs are read from a cursor on, and whatever can't
be known is said to be unknown.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from optimus_core.resources import Resources
from optimus_core.roles import Endpoint, Role

__all__ = [
    "CheckpointPlace", "Cluster", "Endpoint", "Member", "NodeInfo", "Output", "OutputLine", "Phase", "Replica",
    "ReplicaSpec", "Role", "Taint",
]  # fmt: skip


OWNER_LABEL = "optimus/job"
"""Label of a replica that tells which row of which store asked for it."""
HELD = "SchedulingGated"
"""Reason of a replica that somebody, such as Kueue, has not let in yet: it waits, and nothing is wrong with it."""


class Phase(StrEnum):
    """How far a replica has come. That it was asked to stop is a flag beside it."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def ended(self) -> bool:
        """Whether none of its processes is left."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


@dataclass(frozen=True)
class ReplicaSpec:
    """One replica that is to be: everything that the cluster needs to start it."""

    name: str
    """Chosen by us and deterministic: creating it twice can't make two."""
    job: str
    generation: int
    role: Role
    index: int
    node: str
    resources: Resources
    command: tuple[str, ...]
    env: Mapping[str, str]
    grace_seconds: float
    """Time from the request to stop (SIGTERM) to the kill."""
    image: str | None = None
    """Ignored where replicas are processes."""
    labels: Mapping[str, str] = field(default_factory=dict)
    working_dir: str | None = None
    """None: the image's, or where replicas are processes the home of their user."""
    namespace: str | None = None
    """Where replicas are pods: None is the cluster's first. Ignored elsewhere."""
    claim: str | None = None
    """The volume claim that holds checkpoints, where replicas are pods."""
    claim_made_of: Mapping[str, str] | None = None
    """What that claim is made of if it is not there: see :class:`CheckpointPlace`."""
    colocated: bool = False
    """All replicas of its job are on one node."""
    pod: Mapping[str, Any] = field(default_factory=dict)
    """Where replicas are pods: the user's template, with a pod's ``metadata`` and ``spec``. Ignored elsewhere."""


@dataclass(frozen=True)
class Replica:
    """One replica as the cluster sees it now. Times are UTC-aware."""

    name: str
    uid: str
    """Given by the cluster: a later replica of the same name has another."""
    job: str
    generation: int
    role: Role
    index: int
    node: str
    resources: Resources
    phase: Phase
    terminating: bool = False
    """It was asked to stop. Stays set after its end."""
    ready: bool = False
    exit_code: int | None = None
    """128 + n when signal n ended it; None before the end, or when nobody saw it."""
    reason: str | None = None
    """A word such as Completed, Error, OOMKilled, Disrupted, NodeLost, Lost or StartError."""
    message: str | None = None
    """What the replica left in its termination message, else what the cluster says about its end."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    namespace: str = ""
    """Empty where there are none."""
    owner: str = ""
    """What its label says of who asked for it; empty if nothing."""


@dataclass(frozen=True)
class Taint:
    """What keeps replicas off a node that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class NodeInfo:
    """A node: what it offers to all, and how much of that others than Optimus have asked for."""

    name: str
    allocatable: Resources
    others: Resources = field(default_factory=Resources)
    labels: Mapping[str, str] = field(default_factory=dict)
    ready: bool = True
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True)
class CheckpointPlace:
    """Where the replicas of a job write checkpoints."""

    root: str | None = None
    """A folder as replicas see it, or a URL; None: the one that the settings name, since they are of this machine."""
    claim: str | None = None
    """The volume claim behind it."""
    made_of: Mapping[str, str] | None = None
    """What the claim is made of if it is the job's own: ``storage_class``, ``size`` and ``mode``. None: it exists."""


@dataclass(frozen=True)
class OutputLine:
    """A line of output without its end, and when it was written, in seconds since 1970 by the replica's node."""

    time: float
    data: bytes


@dataclass(frozen=True)
class Output:
    """A piece of a replica's output."""

    lines: tuple[OutputLine, ...]
    cursor: str
    """Where to read on. Opaque, small, and good for as long as the replica is listed."""
    ended: bool
    """Nothing will ever follow."""
    missed: bool = False
    """Lines between the given cursor and the first of these were dropped before they could be read."""


Member = tuple[Role, int]
"""Role and index of a replica in its group."""


class Cluster(Protocol):
    """A place where replicas run. Every method may be called again after it failed half-way."""

    @property
    def name(self) -> str:
        """The name under which it is declared."""
        ...

    def nodes(self) -> builtins.list[NodeInfo]:
        """Return the nodes.

        Raises:
            ClusterUnavailable: nothing can be said now.
        """
        ...

    def list(self, job: str | None = None) -> builtins.list[Replica]:
        """Return the replicas of ``job``, or of all jobs, as of one moment.

        Raises:
            ClusterUnavailable: nothing can be said now.
        """
        ...

    def endpoints(self, group: str, members: Sequence[Member]) -> dict[Member, Endpoint]:
        """Return where each member of a group will listen: the same each time that the group is asked about."""
        ...

    def checkpoint_place(
        self, job: str, asked: Mapping[str, str] | None, *, resumable: bool, together: bool = False
    ) -> CheckpointPlace:
        """Return where a job's checkpoints lie.

        Args:
            job: the job's name.
            asked: what the job says of it.
            resumable: whether it keeps any.
            together: whether all its replicas lie on one node.

        Raises:
            SpecificationError: it keeps some and there is no place for them.
        """
        ...

    def library(self, folder: Path) -> str:
        """Return where replicas will find a folder of this machine that they are all given to import from."""
        ...

    def trial(self, replicas: Sequence[ReplicaSpec]) -> dict[Role, Resources]:
        """Return what one replica of each role really asks for, with all that the cluster itself adds to it.

        Args:
            replicas: one or two of each role; they need not be on a node yet.

        Raises:
            SpecificationError: they never would be accepted as they are. Whether they are now, it does not say.
            ClusterUnavailable: nothing can be said now.
        """
        ...

    def check(self, replicas: Sequence[ReplicaSpec]) -> None:
        """Try without starting anything whether these replicas would be accepted.

        Raises:
            SpecificationError: they never would be as they are.
            ClusterRefusesNow: a quota or the like is in the way; they may be accepted later.
            ClusterUnavailable: nothing can be said now.
        """
        ...

    def create(self, group: str, replicas: Sequence[ReplicaSpec]) -> None:
        """Start a whole group or nothing of it; those that exist already stay as they are.

        Raises:
            NameTaken: a name is in use by something else; nothing new was started.
            SpecificationError: the cluster refuses a replica; nothing new was started.
            ClusterRefusesNow: it does so for the time being; nothing new was started.
            ClusterUnavailable: nothing can be said now; call again.
        """
        ...

    def delete(self, replicas: Sequence[Replica], grace_seconds: float | None = None) -> None:
        """Ask replicas to stop, by uid; return at once. Those that have ended or are absent are left alone.

        Args:
            grace_seconds: instead of what the specification says; a later call can only shorten it.
        """
        ...

    def output(self, replica: Replica, cursor: str | None, limit_bytes: int = 1 << 20) -> Output:
        """Return output from ``cursor`` on (None: from the start), at most about ``limit_bytes`` of it.

        Never raises for a replica that is absent: it has ended and has no lines.
        """
        ...

    def discard_checkpoints(self, job: str, namespace: str | None) -> bool:
        """Remove the place for checkpoints that was made for a job alone; return whether there was one.

        Raises:
            ClusterUnavailable: nothing can be said now.
        """
        ...

    def forget(self, job: str, before: int | None = None) -> None:
        """Remove what is left of the job's ended replicas, outputs included.

        Args:
            job: the job.
            before: only those of earlier generations than this one.
        """
        ...
