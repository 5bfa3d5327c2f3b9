"""What a pod's status means: a pure function from the API's JSON to a replica.

A pod's phase tells how its processes ended, not why: signs of disruption and a request to stop come first.
Source: kubernetes.io, "Pod Lifecycle" and "Disruptions"; each case was seen on a cluster (tests/cluster/kubernetes).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from optimus_core.cluster.base import OWNER_LABEL, Phase, Replica, Role
from optimus_core.cluster.kubernetes.requests import pod_requests
from optimus_core.pod_rules import MAIN

JOB, GENERATION, ROLE, INDEX = "optimus/job-name", "optimus/generation", "optimus/role", "optimus/index"
STOP_ASKED = "optimus/stop-asked"
"""Annotation: since when the pod is to stop."""
STOP_OVERDUE = 15.0
"""Seconds after the grace period until a stop that had no effect is asked for by deletion."""
UNREACHABLE = 120.0
"""Seconds after its deletion until a pod on a node that is away counts as ended."""

_DISRUPTIONS = {"DeletionByPodGC": "NodeLost", "DeletionByTaintManager": "NodeLost"}
_NEVER_STARTED = ("StartError", "ContainerCannotRun")
_UNSEEN = "ContainerStatusUnknown"
"""The kubelet found no trace of the container: its exit code is made up."""
Pod = Mapping[str, Any]


@dataclass(frozen=True)
class Sight:
    """What else is known when a pod is looked at."""

    now: datetime
    away: frozenset[str] = frozenset()
    """Nodes that are not ready: nothing is known of what runs there."""
    unreachable_seconds: float = UNREACHABLE


@dataclass(frozen=True)
class _End:
    """How a pod's main container ended."""

    phase: Phase
    exit_code: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def replica_of(pod: Pod, sight: Sight) -> Replica:
    """Return a pod of ours as a replica.

    Raises:
        KeyError, ValueError: it has not the labels that ours have.
    """
    metadata, labels = pod["metadata"], pod["metadata"]["labels"]
    spec = pod.get("spec") or {}
    found = _state(pod, sight)
    replica = Replica(
        name=metadata["name"],
        uid=metadata["uid"],
        job=labels[JOB],
        generation=int(labels[GENERATION]),
        role=Role(labels[ROLE]),
        index=int(labels[INDEX]),
        node=spec.get("nodeName") or "",
        resources=pod_requests(spec),
        phase=found.phase,
        terminating=_is_terminating(pod, sight.now),
        ready=found.phase is Phase.RUNNING and _condition(pod, "Ready") == "True",
        exit_code=found.exit_code,
        reason=found.reason,
        message=found.message,
        created_at=moment(metadata.get("creationTimestamp")),
        started_at=found.started_at,
        ended_at=found.ended_at,
        namespace=metadata.get("namespace") or "",
        owner=labels.get(OWNER_LABEL, ""),
    )
    return replica if replica.node else replace(replica, node=planned_node(spec))


def _state(pod: Pod, sight: Sight) -> _End:
    status = pod.get("status") or {}
    phase, container = status.get("phase"), _container(status)
    terminated = (container.get("state") or {}).get("terminated")
    if terminated is not None:
        return _terminated(pod, terminated)
    if phase in ("Succeeded", "Failed"):
        return _ended_without_it(pod)
    if _is_lost(pod, sight):
        return _End(Phase.FAILED, reason="NodeLost", message="its node does not answer", ended_at=sight.now)
    if (pod.get("spec") or {}).get("nodeName") in sight.away:
        return _End(Phase.UNKNOWN, reason="NodeAway", message="its node does not answer")
    running = (container.get("state") or {}).get("running")
    if running is not None:
        return _End(Phase.RUNNING, started_at=moment(running.get("startedAt")))
    reason, message = waiting_for(pod)
    return _End(Phase.PENDING, reason=reason, message=message)


def _terminated(pod: Pod, terminated: Mapping[str, Any]) -> _End:
    code = terminated.get("exitCode")
    disruption, reason = _disruption(pod), terminated.get("reason")
    told = terminated.get("message") or (pod.get("status") or {}).get("message") or _told(pod)
    ended_at = moment(terminated.get("finishedAt"))
    if reason in _NEVER_STARTED or reason == _UNSEEN:
        word = "StartError" if reason in _NEVER_STARTED else "Lost"
        return _End(Phase.FAILED, reason=disruption or word, message=told, ended_at=ended_at)
    return _End(
        Phase.SUCCEEDED if code == 0 and disruption is None else Phase.FAILED,
        exit_code=code,
        reason=disruption or reason,
        message=told,
        started_at=moment(terminated.get("startedAt")),
        ended_at=ended_at,
    )


def _ended_without_it(pod: Pod) -> _End:
    """The pod has ended, and its main container never did: refused by the node, evicted, its node or set-up lost."""
    status = pod.get("status") or {}
    disruption, failed = _disruption(pod), _failed_init(status)
    if disruption is None and failed is not None:
        name, code = failed
        return _End(Phase.FAILED, code, "InitError", f'its init container "{name}" ended with exit code {code}')
    reason = disruption or status.get("reason") or "Lost"
    return _End(Phase.FAILED, reason=reason, message=status.get("message") or _told(pod))


def _failed_init(status: Mapping[str, Any]) -> tuple[str, int] | None:
    for each in status.get("initContainerStatuses") or ():
        terminated = (each.get("state") or {}).get("terminated") or {}
        if terminated.get("exitCode"):
            return str(each.get("name")), int(terminated["exitCode"])
    return None


def _disruption(pod: Pod) -> str | None:
    """Return the word for an end that came from outside, None if there is no sign of one."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return _DISRUPTIONS.get(condition.get("reason"), "Disrupted")
    reason = (pod.get("status") or {}).get("reason")
    if reason in ("Evicted", "NodeLost"):
        return str(reason)
    if reason == "DeadlineExceeded":
        return "Stopped" if stop_asked(pod) else str(reason)
    return None


def _told(pod: Pod) -> str | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "DisruptionTarget":
            return str(condition.get("message"))
    return None


def _is_lost(pod: Pod, sight: Sight) -> bool:
    deleted = moment((pod.get("metadata") or {}).get("deletionTimestamp"))
    if deleted is None or (pod.get("spec") or {}).get("nodeName") not in sight.away:
        return False
    return sight.now - deleted > timedelta(seconds=sight.unreachable_seconds)


def _is_terminating(pod: Pod, now: datetime) -> bool:
    """Say whether it was asked to stop, and that is not so long ago that it must be asked again."""
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return True
    asked = stop_asked(pod)
    if asked is None:
        return False
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    grace = (pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 0
    return ended or now - asked < timedelta(seconds=grace + STOP_OVERDUE)


def stop_asked(pod: Pod) -> datetime | None:
    """Return when we asked it to stop without deleting it, None if we did not."""
    return moment(((pod.get("metadata") or {}).get("annotations") or {}).get(STOP_ASKED))


def waiting_for(pod: Pod) -> tuple[str | None, str | None]:
    """Return the cluster's word and sentence for why a pod has not started; (None, None) if it gives none."""
    status = pod.get("status") or {}
    for each in [*(status.get("initContainerStatuses") or ()), _container(status)]:
        waiting = (each.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
            return waiting["reason"], waiting.get("message")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            making_room = condition.get("reason") == "Unschedulable" and status.get("nominatedNodeName")
            reason = "Preempting" if making_room else condition.get("reason")
            return reason, _gates(pod) or condition.get("message")
    return ("Starting", None) if (pod.get("spec") or {}).get("nodeName") else (None, None)


def _gates(pod: Pod) -> str | None:
    names = [gate.get("name", "") for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
    return f"held by {', '.join(names)}" if names else None


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = status.get("containerStatuses") or ()
    return next((each for each in containers if each.get("name") == MAIN), containers[0] if containers else {})


def _condition(pod: Pod, kind: str) -> str | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((each.get("status") for each in conditions if each.get("type") == kind), None)


def planned_node(spec: Mapping[str, Any]) -> str:
    """Return the node that a pod of ours is bound to by its affinity, empty if it is free.

    The user's own terms stand before ours.
    """
    terms = (
        ((spec.get("affinity") or {}).get("nodeAffinity") or {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {})
        .get("nodeSelectorTerms")
    ) or ()
    for term in terms:
        for each in reversed(term.get("matchFields") or ()):
            if each.get("key") == "metadata.name" and each.get("operator") == "In" and each.get("values"):
                return str(each["values"][0])
    return ""


def moment(text: str | None) -> datetime | None:
    """Return a time of the API, UTC-aware."""
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
