"""What the ends of a generation's replicas mean: a pure function of their last seen states.

Signs of disruption come before exit codes: a replica that was evicted and saved its work may well have exited 0.
Success needs proof; whatever is in doubt is gone on with from the checkpoint, where a finished job ends at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from optimus_core.cluster.base import Phase, Replica, Role
from optimus_core.telemetry.objects import whole
from optimus_core.telemetry.text import storable

ALIVE = (Phase.PENDING, Phase.RUNNING, Phase.UNKNOWN)
"""Phases of a replica that may still do something; unknown frees no room and starts nothing."""
_DISRUPTED = {
    "Disrupted": "evicted", "Evicted": "evicted", "NodeLost": "lost", "Lost": "lost", "OOMKilled": "oom",
    "DeadlineExceeded": "killed",
}  # fmt: skip
MISSING = "checkpoint_missing"
"""Class of failure, and word of ``optimus_train``: a confirmed checkpoint is not where a replica looks for it."""
_GRAVITY = (MISSING, "lost", "evicted", "oom", "killed", "user_error")
"""Peers of a replica that died often fail too: the first of these that is seen explains the others."""
PEER_LOST = 75
"""Exit code (EX_TEMPFAIL) by which a script says that it ended since a peer was lost: any other failure explains it."""


class Outcome(StrEnum):
    """What is to be done about a generation."""

    GOING_ON = "going_on"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """An outcome; for a failure its class (each has its own retries) and the replica that shows it best."""

    outcome: Outcome
    failure: str | None = None
    numbers: dict[str, str | int | float] = field(default_factory=dict)


def judge(replicas: Sequence[Replica], expected: int, deciders: frozenset[Role]) -> Verdict:
    """Judge a generation that nobody asked to stop.

    Args:
        replicas: those of the generation that the cluster lists.
        expected: how many there must be; a missing one was deleted by somebody else.
        deciders: the roles whose exits decide.
    """
    failures = [(replica, kind) for replica in replicas if (kind := failure_of(replica, deciders)) is not None]
    if failures:
        replica, kind = min(failures, key=lambda pair: (*_gravity(*pair), pair[0].name))
        return Verdict(Outcome.FAILED, kind, _describe(replica))
    if len(replicas) < expected:
        return Verdict(Outcome.FAILED, "lost", {"replicas": len(replicas), "expected": expected})
    deciding = [replica for replica in replicas if replica.role in deciders]
    if deciding and all(_proves_success(replica) for replica in deciding):
        return Verdict(Outcome.SUCCEEDED)
    return Verdict(Outcome.GOING_ON)


def failure_of(replica: Replica, deciders: frozenset[Role]) -> str | None:
    """Return the class of failure that a replica shows, None while it may still succeed."""
    if replica.phase in ALIVE:
        return "evicted" if replica.terminating else None
    if replica.exit_code == 0 and replica.reason == "OOMKilled":
        return None  # a child was killed and the script went on: no failure
    if replica.reason in _DISRUPTED:
        return _DISRUPTED[replica.reason]
    if replica.exit_code == 0:
        return "evicted" if replica.terminating and replica.role in deciders else None
    if replica.exit_code is None:
        return "user_error" if replica.reason == "StartError" else "lost"
    if replica.terminating:
        return "evicted"  # somebody asked it to stop: however it ended then, it would have gone on
    if _missing_checkpoint(replica):
        return MISSING
    if replica.exit_code == PEER_LOST:
        return "lost"
    return "killed" if replica.exit_code < 0 or replica.exit_code >= 128 else "user_error"


def _missing_checkpoint(replica: Replica) -> dict[str, str | int | float]:
    """Return what a replica has said of a checkpoint that it misses, empty if it said no such thing."""
    try:
        told = json.loads(replica.message or "")
    except ValueError:
        return {}
    if not isinstance(told, dict) or told.get("optimus") != MISSING:
        return {}
    confirmed, found = (whole(told.get(name)) for name in ("confirmed", "found"))
    known: dict[str, str | int | float] = {} if confirmed is None else {"confirmed": confirmed}
    newest = "none" if found is None else f"of step {found}"
    return known | {"folder": storable(str(told.get("folder")))[:300], "newest": newest}


def _gravity(replica: Replica, kind: str) -> tuple[bool, int]:
    only_a_peer_was_lost = kind == "lost" and replica.exit_code == PEER_LOST and replica.reason not in _DISRUPTED
    return only_a_peer_was_lost, _GRAVITY.index(kind)


def _proves_success(replica: Replica) -> bool:
    return replica.phase is Phase.SUCCEEDED and replica.exit_code == 0


def _describe(replica: Replica) -> dict[str, str | int | float]:
    numbers: dict[str, str | int | float] = {"replica": replica.name, "node": replica.node}
    numbers |= _missing_checkpoint(replica)
    if replica.exit_code is not None:
        numbers["exit_code"] = replica.exit_code
    if replica.reason:
        numbers["cluster_reason"] = replica.reason
    if replica.message and '"optimus"' not in replica.message:  # a script's last report is for programs
        numbers["message"] = replica.message[-500:]
    return numbers
