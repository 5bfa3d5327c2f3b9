"""The virtual nodes of a local cluster. What they offer is counted, not enforced."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import psutil

from optimus_core.cluster.base import NodeInfo
from optimus_core.errors import SpecificationError
from optimus_core.resources import Resources

_KNOWN = {"name", "cpu", "memory", "devices", "labels"}


def this_machine(name: str = "local") -> NodeInfo:
    """Return one node with the processors that this process may use, and the machine's memory in whole MiB."""
    memory = psutil.virtual_memory().total >> 20
    return NodeInfo(name, Resources.of(cpu=len(os.sched_getaffinity(0)), memory=f"{memory}Mi"))


def nodes_from_config(config: Sequence[Mapping[str, Any]] | None) -> list[NodeInfo]:
    """Return the nodes as ``clusters.yaml`` lists them: ``{name, cpu, memory, devices, labels}`` each.

    Args:
        config: with nothing in it, there is one node ``local`` with what the machine has. So has a node that
            leaves cpu or memory out.

    Raises:
        SpecificationError: a name is missing or comes twice, a key is unknown, an amount can't be read.
    """
    nodes = [_node(entry, f"nodes[{index}]") for index, entry in enumerate(config or [])]
    names = [node.name for node in nodes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecificationError(f'nodes has "{twice[0]}" twice. Give each node a name of its own.')
    return nodes or [this_machine()]


def _node(entry: Mapping[str, Any], where: str) -> NodeInfo:
    unknown = sorted(set(entry) - _KNOWN)
    if unknown:
        raise SpecificationError(f'{where} has "{unknown[0]}"; it can have {", ".join(sorted(_KNOWN))}.')
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise SpecificationError(f"{where} has no name. Write such as name: node-1.")
    machine = this_machine().allocatable.to_quantities()
    amounts = Resources.of(
        entry.get("cpu", machine["cpu"]), entry.get("memory", machine["memory"]), entry.get("devices"), where
    )
    labels = {str(key): str(value) for key, value in (entry.get("labels") or {}).items()}
    return NodeInfo(name, amounts, labels=labels)
