"""Nodes that only kwok plays: they are Ready, and pods on them run without a process."""

from __future__ import annotations

from typing import Any

from tests.cluster.testbed.client import Client
from tests.cluster.testbed.errors import ClusterError

SIZE = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
"""Pods must tolerate it, so that none lands there by chance."""


def create(client: Client, count: int) -> None:
    """Create the nodes fake-0000 and on; those that are there stay as they are."""
    for number in range(count):
        status, answer = client.request("/api/v1/nodes", _node(f"fake-{number:04d}"))
        if status not in (201, 409):
            raise ClusterError(f"fake-{number:04d} was not created: {status} {answer}")


def _node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"type": "kwok", "kubernetes.io/hostname": name},
        },
        "spec": {"taints": [TAINT]},
        "status": {"capacity": SIZE, "allocatable": SIZE},
    }
