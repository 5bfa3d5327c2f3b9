"""What the benchmarks on the real test cluster share."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import kubernetes.client
import kubernetes.config

from optimus_core.cluster.kubernetes import KubernetesCluster
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.cluster.kubernetes.connection import POOL
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.settings import Settings
from tests.cluster.testbed import Testbed
from tests.cluster.testbed.errors import ClusterError, MissingError
from tests.cluster.testbed.machine import external
from tests.cluster.testbed.session import shared


@contextmanager
def cluster(fake_nodes: int | None = None) -> Iterator[tuple[Path, kubernetes.client.ApiClient, str]]:
    """Give the kubeconfig, a client and a fresh namespace of the test cluster, or of one's own.

    Only the test cluster can have nodes that KWOK plays.
    """
    own = external()
    try:
        if own and fake_nodes is None:
            with _namespace(own) as given:
                yield given
        else:
            with shared(Testbed(fake_nodes=fake_nodes)) as bed, _namespace(bed.kubeconfig) as given:
                yield given
    except (MissingError, ClusterError) as error:
        print(error)
        sys.exit(2)


@contextmanager
def _namespace(kubeconfig: Path) -> Iterator[tuple[Path, kubernetes.client.ApiClient, str]]:
    client = kubernetes.config.new_client_from_config(str(kubeconfig))
    client.configuration.connection_pool_maxsize = POOL
    core, name = kubernetes.client.CoreV1Api(client), f"optimus-bench-{uuid4().hex[:6]}"
    core.create_namespace({"metadata": {"name": name}})
    until(lambda: any(a.metadata.name == "default" for a in core.list_namespaced_service_account(name).items))
    try:
        yield kubeconfig, client, name
    finally:
        core.delete_collection_namespaced_pod(name, grace_period_seconds=0)
        core.delete_namespace(name)


@contextmanager
def engine(client: kubernetes.client.ApiClient, namespace: str, **settings: Any) -> Iterator[Engine]:
    """Give an engine on that cluster, with a store of its own."""
    with tempfile.TemporaryDirectory() as home:
        found = Settings(home=Path(home), cluster="kube", **settings)
        made = KubernetesCluster("kube", Api("kube", client), [namespace])
        yield Engine(found, clusters_from({"kube": made}))


def until(condition: Callable[[], Any], seconds: float = 120, pause: float = 0.05) -> Any:
    """Poll until ``condition()`` is true and return it."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError("it never came to be")
        time.sleep(pause)
    return value


def finish(benchmark: str, value: float, goal: float) -> int:
    """Print the last line; return the exit code."""
    met = value <= goal
    print(json.dumps({"benchmark": benchmark, "value": round(value, 3), "goal": goal, "met": met}))
    return 0 if met else 1
