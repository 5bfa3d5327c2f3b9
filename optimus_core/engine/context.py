"""What every part of the engine needs: the store, the settings, the clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from optimus_core.cluster.base import Cluster
from optimus_core.errors import SpecificationError
from optimus_core.pools import DeclaredPool
from optimus_core.settings import Settings
from optimus_core.store import Store


@dataclass(frozen=True)
class ClusterPools:
    """The declared pools of a cluster, and the namespace of jobs that name none; empty where there are none."""

    pools: tuple[DeclaredPool, ...] = ()
    namespace: str = ""


@dataclass(frozen=True)
class Context:
    """The store, the settings, and the clusters by name, opened when first used, with their pools."""

    store: Store
    settings: Settings
    open_cluster: Callable[[str], Cluster]
    pools: Callable[[str], ClusterPools] = lambda name: ClusterPools()

    def cluster(self, name: str) -> Cluster:
        """Return the cluster called ``name``.

        Raises:
            SpecificationError: no such cluster is declared.
        """
        return self.open_cluster(name)

    def has_passed(self, since: datetime | None, seconds: float) -> bool:
        """Say whether more than so many seconds have passed since a moment, by the store's clock; not since None."""
        with self.store.transaction() as tx:
            return since is not None and tx.now - since > timedelta(seconds=seconds)


def clusters_from(known: Mapping[str, Cluster]) -> Callable[[str], Cluster]:
    """Return an opener over clusters that are open already."""

    def open_cluster(name: str) -> Cluster:
        if name not in known:
            raise SpecificationError(
                f'cluster "{name}" is not declared. Known: {", ".join(sorted(known))}. Declare it in clusters.yaml.'
            )
        return known[name]

    return open_cluster
