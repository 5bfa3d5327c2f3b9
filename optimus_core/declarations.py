"""The clusters that a file declares, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimus_core import checks
from optimus_core.errors import SpecificationError
from optimus_core.pod_rules import Checkpoints
from optimus_core.pools import read_pools
from optimus_core.resources import Resources

LOCAL: Mapping[str, dict[str, Any]] = {"local": {"kind": "local"}}
"""What is declared if nobody declares a cluster: processes on this machine."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


def load_clusters(path: str | Path | None) -> dict[str, dict[str, Any]]:
    """Read the declared clusters.

    Args:
        path: ``clusters.yaml``; None means that nobody declared one: then there is this machine, as ``local``.

    Returns:
        By name: ``{"kind": "local", "nodes": [...]}`` or ``{"kind": "kubernetes", ...}``. A local cluster without
        nodes is this machine.

    Raises:
        SpecificationError: names the file, the cluster, what is wrong and what to write.
    """
    if path is None:
        return {name: dict(cluster) for name, cluster in LOCAL.items()}
    data = checks.read_file(path, "clusters file", "local: {kind: local}")
    clusters = {}
    for name, cluster in data.items():
        try:
            if not _NAME.fullmatch(name):
                raise SpecificationError(
                    "its name is also that of a folder: up to 63 letters, digits, dots, dashes and underscores, "
                    "the first a letter or digit. Write such as local."
                )
            clusters[name] = declaration(cluster)
        except SpecificationError as error:
            raise SpecificationError(f"{path}: cluster {checks.shown(name)}: {error}") from error.__cause__
    if not clusters:
        raise SpecificationError(f"{path}: it declares no cluster. Write such as local: {{kind: local}}")
    return clusters


def declaration(data: object) -> dict[str, Any]:
    """Read how one cluster is declared.

    Raises:
        SpecificationError: it can't be so; says what to write.
    """
    given = dict(checks.mapping(data, "its content", "{kind: local}"))
    kinds = {"local": _local, "kubernetes": _kubernetes}
    if "kind" not in given:
        raise SpecificationError("it has no kind. Write kind: local or kind: kubernetes.")
    checks.one_of(given["kind"], kinds, "kind")
    kinds[given["kind"]](given)
    if "pools" in given:
        read_pools(given["pools"])
    return given


def _local(given: Mapping[str, Any]) -> None:
    checks.keys(given, ("kind", "nodes", "pools"), "a local cluster")
    example = '[{name: n1, cpu: "4", memory: 8Gi}]'
    nodes = given.get("nodes", [{"name": "n1", "cpu": 1, "memory": 1}])
    if not isinstance(nodes, list) or not nodes:
        raise SpecificationError(f"nodes is {checks.shown(nodes)}; it is a list. Write such as {example}")
    seen: set[str] = set()
    for index, node in enumerate(nodes):
        where = f"nodes[{index}]"
        checks.keys(checks.mapping(node, where, example), ("name", "cpu", "memory", "devices", "labels"), where)
        for key in ("name", "cpu", "memory"):
            if node.get(key) is None:
                raise SpecificationError(f'{where} has no "{key}". Write such as {example}')
        name = checks.text(node["name"], f"{where}.name", "n1")
        if name in seen:
            raise SpecificationError(f'{where}.name is "{name}", as that of another node. Write another name.')
        seen.add(name)
        devices = checks.mapping(node.get("devices", {}), f"{where}.devices", '{"nvidia.com/gpu": 1}')
        Resources.of(node["cpu"], node["memory"], devices, where)
        for label, value in checks.mapping(node.get("labels", {}), f"{where}.labels", "{zone: a}").items():
            if not isinstance(value, str):
                raise SpecificationError(
                    f'{where}.labels["{label}"] is {checks.shown(value)}; it is a text. Write it in quotes.'
                )


def _kubernetes(given: Mapping[str, Any]) -> None:
    checks.keys(
        given,
        ("kind", "in_cluster", "config_file", "context", "airflow_connection", "namespaces", "checkpoints", "pools"),
        "a Kubernetes cluster",
    )
    for key, example in (("config_file", "~/.kube/config"), ("context", "kind"), ("airflow_connection", "kubernetes")):
        if key in given:
            checks.text(given[key], key, example)
    if not isinstance(given.get("in_cluster", False), bool):
        raise SpecificationError(f"in_cluster is {checks.shown(given['in_cluster'])}; write true or false.")
    ways = [key for key in ("in_cluster", "config_file", "airflow_connection") if given.get(key)]
    if len(ways) != 1:
        raise SpecificationError(
            f"it is reached by {' and '.join(ways) or 'nothing'}; there is one way. "
            "Write in_cluster: true, config_file: ~/.kube/config, or airflow_connection: kubernetes."
        )
    if "context" in given and ways != ["config_file"]:
        raise SpecificationError(f"context belongs to config_file, not to {ways[0]}. Leave it out.")
    if "checkpoints" in given:
        Checkpoints.read(given["checkpoints"])
    spaces = given.get("namespaces", ["default"])
    if not isinstance(spaces, list) or not spaces or not all(isinstance(space, str) and space for space in spaces):
        raise SpecificationError(f"namespaces is {checks.shown(spaces)}; it is a list. Write such as [training].")
