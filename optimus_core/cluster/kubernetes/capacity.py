"""What nodes offer and what others than Optimus have asked for: from the API's JSON, without a call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from optimus_core.cluster.base import NodeInfo, Taint
from optimus_core.cluster.kubernetes.requests import amounts, pod_requests
from optimus_core.cluster.kubernetes.status import JOB
from optimus_core.resources import Resources, parse_quantity

PODS = "pods"
"""How many pods a node takes is one of its resources."""
_SCOPES = {"NotTerminating", "NotBestEffort"}
"""Scopes of quotas that replicas are in: they have no deadline before they are asked to stop, and ask for something."""
Object = Mapping[str, Any]


def node_infos(nodes: Iterable[Object], pods: Iterable[Object]) -> list[NodeInfo]:
    """Return what each node offers: others' pods that have not ended are counted, those that terminate too."""
    used: dict[str, Resources] = defaultdict(Resources)
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and not is_ours(pod) and not has_ended(pod):
            used[node] = used[node] + pod_requests(pod["spec"]) + Resources({PODS: 1})
    return [_info(node, used[node["metadata"]["name"]]) for node in nodes]


def _info(node: Object, used: Resources) -> NodeInfo:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    offered = status.get("allocatable") or {}
    return NodeInfo(
        name=metadata["name"],
        allocatable=amounts(offered) + Resources({PODS: _whole(PODS, offered.get(PODS, 0))}),
        others=used,
        labels=dict(metadata.get("labels") or {}),
        ready=is_ready(node) and not spec.get("unschedulable"),
        taints=tuple(
            Taint(each["key"], each.get("value") or "", each.get("effect") or "") for each in spec.get("taints") or ()
        ),
    )


def is_ready(node: Object) -> bool:
    """Say whether the node's kubelet has lately said that it is ready."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def is_ours(pod: Object) -> bool:
    """Say whether a pod is a replica of a job."""
    return JOB in ((pod.get("metadata") or {}).get("labels") or {})


def has_ended(pod: Object) -> bool:
    """Say whether a pod holds nothing any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def short_of(quotas: Iterable[Object], asked: Resources, pods: int, given_back: Resources) -> str | None:
    """Return what of a namespace's quotas does not hold what is asked for, None if all do.

    Args:
        quotas: the ResourceQuota objects.
        asked: what all new pods ask for.
        pods: how many they are.
        given_back: what the pods that go first have asked for.
    """
    for quota in quotas:
        if not _holds_for_replicas(quota.get("spec") or {}):
            continue
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        for name, limit in hard.items():
            kind = name.removeprefix("requests.")
            if kind == "count/pods":
                kind = PODS
            need = pods if kind == PODS else asked[kind]
            if need and (kind in ("cpu", "memory", PODS) or "/" in kind):
                left = _whole(kind, limit) - _whole(kind, used.get(name, "0")) + given_back[kind]
                if need > left:
                    return f'quota "{quota["metadata"]["name"]}" allows {limit} of {name}, and too little is left'
    return None


def _holds_for_replicas(spec: Object) -> bool:
    """Say whether a quota certainly counts replicas; whether one of a priority class does, the API server knows."""
    return not spec.get("scopeSelector") and set(spec.get("scopes") or ()) <= _SCOPES


def _whole(kind: str, quantity: Any) -> int:
    return int(parse_quantity(quantity)) if kind == PODS else amounts({kind: quantity})[kind]
