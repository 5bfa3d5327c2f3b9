"""Opening the clusters that ``clusters.yaml`` declares."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from optimus_core.cluster.base import Cluster
from optimus_core.cluster.local import LocalCluster
from optimus_core.cluster.nodes import nodes_from_config
from optimus_core.errors import SpecificationError
from optimus_core.settings import Settings, load_clusters


def opener(settings: Settings) -> Callable[[str], Cluster]:
    """Return what opens a declared cluster by name, each once. Undeclared, there is ``local``: this machine."""
    declared = load_clusters(settings.clusters_file) if settings.clusters_file else {}

    @cache
    def open_cluster(name: str) -> Cluster:
        declaration = declared.get(name, {"kind": "local"} if name == "local" else None)
        if declaration is None:
            known = ", ".join(sorted({*declared, "local"}))
            raise SpecificationError(
                f'cluster "{name}" is not declared. Known: {known}. Declare it in {settings.clusters_file}.'
            )
        if declaration["kind"] != "local":
            raise SpecificationError(
                f'cluster "{name}" is of kind "{declaration["kind"]}"; this version runs jobs on kind "local" only.'
            )
        root = Path(settings.home) / "cluster" / name
        return LocalCluster(name, root, nodes_from_config(declaration.get("nodes")))

    return open_cluster
