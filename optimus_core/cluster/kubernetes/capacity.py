"""What nodes offer and what others than Optimus have asked for: from the API's JSON, without a call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from optimus_core.cluster.base import NodeInfo, Taint
from optimus_core.cluster.kubernetes.requests import amounts, pod_requests
from optimus_core.resources import Resources, parse_quantity

PODS = "pods"
"""How many pods a node takes is one of its resources."""
Object = Mapping[str, Any]


def node_infos(nodes: Iterable[Object], pods: Iterable[Object]) -> list[NodeInfo]:
    """Return what each node offers, and what pods of others ask for of it that have not ended, terminating ones too.

    Args:
        nodes: the nodes.
        pods: the pods of others.
    """
    used: dict[str, Resources] = defaultdict(Resources)
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and not has_ended(pod):
            used[node] = used[node] + pod_requests(pod["spec"]) + Resources({PODS: 1})
    return [_info(node, used[node["metadata"]["name"]]) for node in nodes]


def _info(node: Object, used: Resources) -> NodeInfo:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    offered = status.get("allocatable") or {}
    return NodeInfo(
        name=metadata["name"],
        allocatable=amounts(offered) + Resources({PODS: whole(PODS, offered.get(PODS, 0))}),
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


def has_ended(pod: Object) -> bool:
    """Say whether a pod holds nothing any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def whole(kind: str, quantity: Any) -> int:
    """Return a quantity of the API as it is counted."""
    return int(parse_quantity(quantity)) if kind == PODS else amounts({kind: quantity})[kind]
