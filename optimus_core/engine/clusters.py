"""Opening the clusters that ``clusters.yaml`` declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from optimus_core.cluster.base import Cluster
from optimus_core.cluster.local import LocalCluster
from optimus_core.cluster.nodes import nodes_from_config
from optimus_core.errors import SpecificationError
from optimus_core.pod_rules import Checkpoints
from optimus_core.settings import Settings, load_clusters

Connect = Callable[[str], Any]
"""Returns the official Kubernetes client of an Airflow connection."""


def opener(settings: Settings, connect: Connect | None = None) -> Callable[[str], Cluster]:
    """Return what opens a declared cluster by name, each once. Undeclared, there is ``local``: this machine.

    Args:
        settings: say where the clusters are declared.
        connect: resolves connections of Airflow; None outside of it.
    """
    declared = load_clusters(settings.clusters_file) if settings.clusters_file else {}

    @cache
    def open_cluster(name: str) -> Cluster:
        declaration = declared.get(name, {"kind": "local"} if name == "local" else None)
        if declaration is None:
            known = ", ".join(sorted({*declared, "local"}))
            raise SpecificationError(
                f'cluster "{name}" is not declared. Known: {known}. Declare it in {settings.clusters_file}.'
            )
        if declaration["kind"] == "kubernetes":
            return _kubernetes(name, declaration, connect)
        root = Path(settings.home) / "cluster" / name
        return LocalCluster(name, root, nodes_from_config(declaration.get("nodes")))

    return open_cluster


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
