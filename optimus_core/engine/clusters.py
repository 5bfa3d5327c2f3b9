"""Opening the clusters that ``clusters.yaml`` declares."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from optimus_core.cluster.base import Cluster
from optimus_core.cluster.local import LocalCluster
from optimus_core.cluster.nodes import nodes_from_config
from optimus_core.declarations import declaration
from optimus_core.engine.context import ClusterPools
from optimus_core.errors import SpecificationError
from optimus_core.pod_rules import Checkpoints
from optimus_core.pools import read_pools
from optimus_core.settings import Settings, load_clusters
from optimus_core.store import Store

Connect = Callable[[str], Any]
"""Returns the official Kubernetes client of an Airflow connection."""


def opener(settings: Settings, connect: Connect | None = None, store: Store | None = None) -> Callable[[str], Cluster]:
    """Return what opens a declared cluster by name, each once. Undeclared, there is ``local``: this machine.

    Args:
        settings: say where the clusters are declared.
        connect: resolves connections of Airflow; None outside of it.
        store: knows the clusters that jobs have declared on the spot.
    """
    declared = load_clusters(settings.clusters_file) if settings.clusters_file else {}

    @cache
    def open_as(name: str, text: str) -> Cluster:
        return _open(settings, name, json.loads(text), connect)

    def open_cluster(name: str) -> Cluster:
        known_as = declared.get(name) or ({"kind": "local"} if name == "local" else _on_the_spot(store, name))
        if known_as is None:
            known = ", ".join(sorted({*declared, "local"}))
            raise SpecificationError(
                f'cluster "{name}" is not declared. Known: {known}. Declare it in {settings.clusters_file}.'
            )
        return open_as(name, json.dumps(known_as, sort_keys=True))

    return open_cluster


def _on_the_spot(store: Store | None, name: str) -> Mapping[str, Any] | None:
    if store is None:
        return None
    with store.transaction() as tx:
        row = tx.peek_cluster(name)
        return row.declaration if row is not None else None


def declare(store: Store, name: str, given: Mapping[str, Any]) -> None:
    """Keep how a cluster is reached that no file declares, for all who drive its jobs.

    Said again, it may get further namespaces; none is taken away, since jobs may be in it.

    Raises:
        SpecificationError: it can't be reached so.
    """
    wanted = declaration(given)
    with store.transaction() as tx:
        row = tx.cluster(name)
        before = (row.declaration or {}).get("namespaces") or []
        spaces = [*before, *(space for space in wanted["namespaces"] if space not in before)]
        if row.declaration != wanted | {"namespaces": spaces}:
            row.declaration = wanted | {"namespaces": spaces}


def _open(settings: Settings, name: str, declared: Mapping[str, Any], connect: Connect | None) -> Cluster:
    if declared["kind"] == "kubernetes":
        return _kubernetes(name, declared, connect)
    root = Path(settings.home) / "cluster" / name
    return LocalCluster(name, root, nodes_from_config(declared.get("nodes")))


def pools_by_cluster(settings: Settings) -> Callable[[str], ClusterPools]:
    """Return what gives the declared pools of a cluster by its name."""
    declared = load_clusters(settings.clusters_file) if settings.clusters_file else {}

    @cache
    def pools_of(name: str) -> ClusterPools:
        cluster = declared.get(name, {})
        spaces = cluster.get("namespaces") or ["default"]
        return ClusterPools(
            read_pools(cluster.get("pools", {})), spaces[0] if cluster.get("kind") == "kubernetes" else ""
        )

    return pools_of


def _kubernetes(name: str, declaration: Mapping[str, Any], connect: Connect | None) -> Cluster:
    from optimus_core.cluster.kubernetes import KubernetesCluster  # the client takes a second to import
    from optimus_core.cluster.kubernetes.api import Api
    from optimus_core.cluster.kubernetes.connection import connect as connect_as_declared

    connection = declaration.get("airflow_connection")
    if connection is None:
        client = connect_as_declared(name, declaration)
    elif connect is None:
        raise SpecificationError(
            f'cluster "{name}" is reached by the Airflow connection "{connection}", which only tasks of Airflow know. '
            "Declare config_file or in_cluster to use it from elsewhere."
        )
    else:
        client = connect(connection)
    spaces, place = declaration.get("namespaces") or ["default"], declaration.get("checkpoints")
    return KubernetesCluster(name, Api(name, client), spaces, Checkpoints.read(place) if place else None)
