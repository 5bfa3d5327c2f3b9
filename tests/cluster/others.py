"""What other people do on a cluster of tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kubernetes import client

from tests.cluster.testbed import PYTHON_IMAGE


@contextmanager
def full_nodes(core: client.CoreV1Api, space: str) -> Iterator[None]:
    """Other people's pods, so that nothing of 2 cpu has room; gone afterwards."""
    nodes = [node.metadata.name for node in core.list_node().items]
    container = {"name": "main", "image": PYTHON_IMAGE, "command": ["sleep", "600"]}
    asked = container | {"resources": {"requests": {"cpu": "2"}}}
    for node in nodes:
        body = {"metadata": {"name": f"other-{node}"}, "spec": {"nodeName": node, "containers": [asked]}}
        core.create_namespaced_pod(space, body)
    try:
        yield
    finally:
        for node in nodes:
            core.delete_namespaced_pod(f"other-{node}", space, grace_period_seconds=0)
