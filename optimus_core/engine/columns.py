"""Where replicas may run, as resources of a plan: a node that may take a kind of replica offers plenty of that kind.

So the planner needs no second notion of what fits; the same holds for how many pods a node takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from optimus_core.cluster.base import NodeInfo, Role
from optimus_core.cluster.eligibility import Needs
from optimus_core.cluster.kubernetes.capacity import PODS
from optimus_core.scheduling.types import Amounts, JobView, Node

_PLENTY = 1_000_000
"""More replicas than a node ever holds."""


class Columns:
    """The resources that stand for something else, of one snapshot."""

    def __init__(self, nodes: Sequence[NodeInfo]) -> None:
        self._nodes = nodes
        self._counts_pods = any(PODS in node.allocatable for node in nodes)
        self._accepting: dict[str, frozenset[str]] = {}
        self._seen: dict[str, frozenset[str]] = {}
        """Needs -> the nodes that they accept: most jobs need the same."""

    def ask(self, view: JobView, needs: Mapping[Role, Needs]) -> JobView:
        """Return the job with what its replicas ask for beside their resources."""
        return view.model_copy(
            update={
                "worker_demand": view.worker_demand | self._extra(needs[Role.WORKER]),
                "server_demand": view.server_demand | self._extra(needs[Role.SERVER]) if Role.SERVER in needs else {},
                "scheduler_demand": view.scheduler_demand and view.scheduler_demand | self._extra(needs[Role.WORKER]),
            }
        )

    def _extra(self, needs: Needs) -> Amounts:
        extra = {PODS: 1} if self._counts_pods else {}
        accepting = self._nodes_for(needs)
        if len(accepting) == len(self._nodes):
            return extra
        name = f"node for {needs.describe() or 'replicas without tolerations'}"
        if self._accepting.setdefault(name, accepting) != accepting:  # the same words for something else
            name += f" ({len(self._accepting)})"
            self._accepting[name] = accepting
        return extra | {name: 1}

    def _nodes_for(self, needs: Needs) -> frozenset[str]:
        key = json.dumps([needs.selector, needs.tolerations, needs.affinity], sort_keys=True)
        if key not in self._seen:
            self._seen[key] = frozenset(node.name for node in self._nodes if needs.accept(node))
        return self._seen[key]

    def offer(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes with what they offer to what was asked for."""
        return [self._offer(node) for node in nodes]

    def _offer(self, node: Node) -> Node:
        extra = {name: _PLENTY for name, accepting in self._accepting.items() if node.name in accepting}
        return node.model_copy(update={"allocatable": node.allocatable | extra})
