"""Which cluster KubernetesPodOperator's four connection arguments mean: a declared one, or one declared by them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimus_airflow.pod_arguments import CLUSTER
from optimus_core.errors import SpecificationError

if TYPE_CHECKING:
    from optimus_core.settings import Settings

Json = dict[str, Any]
_WAYS = ("kubernetes_conn_id", "in_cluster", "config_file")
"""Each alone says how a cluster is reached; ``cluster_context`` belongs to the last one."""


def cluster_of(task: Any, settings: Settings, namespace: str | None = None) -> tuple[str, Json | None]:
    """Return the name of the cluster that the arguments mean, empty for the default.

    With it comes how it is reached if nobody has declared it: the caller keeps that, since who drives the job later
    knows its name alone.

    Args:
        task: the operator.
        settings: say where clusters are declared.
        namespace: where the job runs, of a cluster that nobody has declared; None: ``default``.

    Raises:
        SpecificationError: they mean none, or more than one; lists those declared.
    """
    from optimus_core.settings import load_clusters

    asked = {name: getattr(task, name) for name in CLUSTER if getattr(task, name)}
    if not asked:
        return task.cluster or "", None
    said = ", ".join(f"{name}={json.dumps(value)}" for name, value in asked.items())
    if task.cluster:
        raise SpecificationError(f'cluster is "{task.cluster}", and {said} is given as well. Write cluster only.')
    declared = load_clusters(settings.clusters_file)
    found = [name for name, cluster in declared.items() if all(_fits(cluster, key, asked[key]) for key in asked)]
    if len(found) == 1:
        return found[0], None
    ways = [name for name in _WAYS if name in asked]
    if not found and len(ways) == 1 and ("cluster_context" not in asked or ways == ["config_file"]):
        return _on_the_spot(asked, namespace)
    known = "; ".join(f"{name} ({_way(cluster)})" for name, cluster in declared.items())
    what = f"fits {' and '.join(found)}" if found else "fits no declared cluster, and does not say how to reach one"
    raise SpecificationError(
        f"{said} {what}. Declared in {settings.clusters_file or 'no clusters.yaml'}: {known}. "
        'Write such as cluster="NAME", or declare it there; or write one of kubernetes_conn_id, in_cluster=True, and '
        "config_file with or without cluster_context."
    )


def _on_the_spot(asked: Mapping[str, Any], namespace: str | None) -> tuple[str, Json]:
    """Return a declaration, and a name that is the same for the same way: one cluster is planned as one."""
    way = {CLUSTER[name]: value for name, value in asked.items()}
    if "config_file" in way:
        way["config_file"] = str(Path(way["config_file"]).expanduser())
    mark = hashlib.sha256(json.dumps(way, sort_keys=True).encode()).hexdigest()[:8]
    word = asked.get("kubernetes_conn_id") or asked.get("cluster_context") or ""
    word = re.sub(r"[^A-Za-z0-9]+", "-", word).strip("-")[:40]
    usual = "in-cluster" if "in_cluster" in asked else "kubeconfig"
    return f"{word or usual}-{mark}", {"kind": "kubernetes", **way, "namespaces": [namespace or "default"]}


def _fits(cluster: Mapping[str, Any], argument: str, value: Any) -> bool:
    declared = cluster.get(CLUSTER[argument])
    if argument == "config_file" and declared:
        return Path(declared).expanduser() == Path(value).expanduser()
    return bool(declared == value)


def _way(cluster: Mapping[str, Any]) -> str:
    ways = [f"{name}={json.dumps(cluster[key])}" for name, key in CLUSTER.items() if cluster.get(key)]
    return ", ".join(ways) or f"kind {cluster.get('kind')}"
