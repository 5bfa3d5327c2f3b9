"""What is made in the cluster for a job: one object per job, one and a service per generation, and the pods.

Owner references tie them together: without the object of its generation a pod is collected, however late it was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import optimus_train
from optimus_core.cluster.base import ReplicaSpec
from optimus_core.cluster.kubernetes.status import GENERATION, INDEX, JOB, ROLE
from optimus_core.cluster.merge import merged
from optimus_core.pod_rules import MAIN
from optimus_core.resources import format_amount

Json = dict[str, Any]
MANAGED = {"app.kubernetes.io/managed-by": "optimus"}
SELECTOR = ",".join(f"{key}={value}" for key, value in MANAGED.items())
LIBRARY = "/opt/optimus"
"""Where replicas find ``optimus_train``."""
CHECKPOINTS = "/mnt/optimus-checkpoints"
"""Where replicas find the claim for checkpoints."""
SCRATCH = "/tmp/optimus-checkpoints"
"""Where replicas write that keep no checkpoints: inside the container, and lost with it."""
_VOLUME, _CLAIM = "optimus-library", "optimus-checkpoints"
_LONGEST_LABEL = 63


def job_labels(job: str) -> dict[str, str]:
    """Return the labels of all that belongs to a job."""
    return MANAGED | {"app.kubernetes.io/name": "optimus-job", "app.kubernetes.io/instance": job, JOB: job}


def job_object(job: str, labels: Mapping[str, str]) -> Json:
    """Return the ConfigMap that owns all of a job; it carries ``optimus_train`` for its replicas."""
    return _config_map(job, _short(labels) | job_labels(job)) | {"data": dict(library())}


@cache
def library() -> Mapping[str, str]:
    """Return the files of ``optimus_train``."""
    folder = Path(next(iter(optimus_train.__path__)))
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}


def group_object(group: str, job: str, generation: int, owner: Json) -> Json:
    """Return the ConfigMap that owns the pods of a generation."""
    made = _config_map(group, job_labels(job) | {GENERATION: str(generation)})
    made["metadata"]["ownerReferences"] = [reference(owner)]
    return made


def _config_map(name: str, labels: Mapping[str, str]) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": dict(labels)}}


def _short(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if len(value) <= _LONGEST_LABEL}


def reference(owner: Json) -> Json:
    """Return the owner reference to an object that the API gave."""
    return {
        "apiVersion": owner.get("apiVersion") or "v1",
        "kind": owner.get("kind") or "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": False,
    }


def claim_name(job: str) -> str:
    """Return the name of the claim that is made for a job's checkpoints."""
    return f"{job}-checkpoints"


def claim(spec: ReplicaSpec, made_of: Mapping[str, str]) -> Json:
    """Return the claim for the checkpoints of one job. It has no owner: it outlives the job's pods and its end."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": spec.claim, "labels": job_labels(spec.job)},
        "spec": {
            "accessModes": [made_of["mode"]],
            "storageClassName": made_of["storage_class"],
            "resources": {"requests": {"storage": made_of["size"]}},
        },
    }


def service(group: str, job: str, generation: int, owner: Json) -> Json:
    """Return the headless service that gives the pods of a generation stable names before they are ready."""
    labels = job_labels(job) | {GENERATION: str(generation)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": group, "labels": labels, "ownerReferences": [reference(owner)]},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB: job, GENERATION: str(generation)},
        },
    }


def pod(spec: ReplicaSpec, group: str, owner: Json | None) -> Json:
    """Return the pod of a replica: what the user's template says, and what Optimus needs on top of it.

    Args:
        spec: the replica; ``spec.pod`` is the template.
        group: the service's name.
        owner: the object of its generation; None for a trial.
    """
    labels = job_labels(spec.job) | {
        "app.kubernetes.io/component": str(spec.role),
        GENERATION: str(spec.generation),
        ROLE: str(spec.role),
        INDEX: str(spec.index),
    }
    ours: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": spec.name,
            "labels": _short(spec.labels) | labels,
            "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                "karpenter.sh/do-not-disrupt": "true",
            },
            "ownerReferences": [reference(owner)] if owner is not None else [],
        },
        "spec": _pod_spec(spec, group),
    }
    made = merged(spec.pod, ours)
    _bind(made["spec"], spec.node)
    made["spec"]["containers"].sort(key=lambda each: each["name"] != MAIN)
    return made


def _pod_spec(spec: ReplicaSpec, group: str) -> Json:
    files = [{"key": name, "path": f"optimus_train/{name}"} for name in library()]
    return {
        "restartPolicy": "Never",
        "hostname": spec.name,
        "subdomain": group,
        "terminationGracePeriodSeconds": max(1, ceil(spec.grace_seconds)),
        "containers": [_container(spec)],
        "volumes": [{"name": _VOLUME, "configMap": {"name": spec.job, "items": files}}, *_claim(spec)],
    }


def _container(spec: ReplicaSpec) -> Json:
    container: Json = {
        "name": MAIN,
        "command": list(spec.command),
        "args": [],
        "env": [{"name": name, "value": value} for name, value in sorted(_environment(spec).items())],
        "resources": _resources(spec),
        "volumeMounts": [{"name": _VOLUME, "mountPath": LIBRARY, "readOnly": True}],
    }
    if spec.claim is not None:
        container["volumeMounts"].append({"name": _CLAIM, "mountPath": CHECKPOINTS})
    if spec.image is not None:
        container["image"] = spec.image
    if spec.working_dir is not None:
        container["workingDir"] = spec.working_dir
    return container


def _claim(spec: ReplicaSpec) -> list[Json]:
    if spec.claim is None:
        return []
    return [{"name": _CLAIM, "persistentVolumeClaim": {"claimName": spec.claim}}]


def _environment(spec: ReplicaSpec) -> dict[str, str]:
    return dict(spec.env) | {"OPTIMUS_TERMINATION_MESSAGE": "/dev/termination-log"}


def _resources(spec: ReplicaSpec) -> Json:
    """Ask for everything; limit memory and devices, and leave idle CPU to who can use it."""
    asked = {name: format_amount(name, amount) for name, amount in spec.resources.items()}
    return {"requests": asked, "limits": {name: amount for name, amount in asked.items() if name != "cpu"}}


def _bind(spec: Json, node: str) -> None:
    """Let the scheduler put the pod on the node of the plan and nowhere else."""
    if not node:
        return
    affinity = _inside(_inside(spec, "affinity"), "nodeAffinity")
    required = _inside(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    terms = required["nodeSelectorTerms"] = required.get("nodeSelectorTerms") or [{}]
    for term in terms:
        chosen = {"key": "metadata.name", "operator": "In", "values": [node]}
        term["matchFields"] = [*(term.get("matchFields") or ()), chosen]


def _inside(part: Json, name: str) -> Json:
    """Return a part of it, made if it is not there or left empty, as YAML does with a bare key."""
    part[name] = part.get(name) or {}
    inside: Json = part[name]
    return inside
