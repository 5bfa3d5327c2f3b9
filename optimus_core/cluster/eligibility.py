"""Which nodes a replica may run on, as Kubernetes' scheduler decides it: labels, required node affinity, taints.

Source: kubernetes.io, "Assigning Pods to Nodes" and "Taints and Tolerations".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimus_core.cluster.base import NodeInfo, Taint

_KEEPS_OFF = ("NoSchedule", "NoExecute")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True)
class Needs:
    """What a replica needs of its node: plain data, in the form of a pod's specification."""

    selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that the node must have."""
    tolerations: Sequence[Mapping[str, Any]] = ()
    """Taints that do not keep the replica off."""
    affinity: Sequence[Mapping[str, Any]] = ()
    """Node selector terms, of which the node must match one; none: any node."""

    @classmethod
    def of(cls, selector: Mapping[str, str], pod: Mapping[str, Any]) -> Needs:
        """Collect them from a role's selector and the pod template's specification."""
        spec = pod.get("spec") or {}
        node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        return cls(
            selector=dict(spec.get("nodeSelector") or {}) | dict(selector),
            tolerations=list(spec.get("tolerations") or ()),
            affinity=list(required.get("nodeSelectorTerms") or ()),
        )

    def __bool__(self) -> bool:
        return bool(self.selector or self.affinity)

    def describe(self) -> str:
        """Return the needs for people, such as ``zone=a``."""
        parts = [f"{key}={value}" for key, value in sorted(self.selector.items())]
        parts += ["node affinity"] if self.affinity else []
        return ", ".join(parts)

    def accept(self, node: NodeInfo) -> bool:
        """Say whether a replica with these needs may be placed on ``node``."""
        if any(node.labels.get(key) != value for key, value in self.selector.items()):
            return False
        if self.affinity and not any(_matches(term, node) for term in self.affinity):
            return False
        return all(self._tolerates(taint) for taint in node.taints if taint.effect in _KEEPS_OFF)

    def _tolerates(self, taint: Taint) -> bool:
        return any(_tolerates(toleration, taint) for toleration in self.tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if operator == "Exists":
        return key in ("", taint.key)
    return bool(operator == "Equal" and key == taint.key and (toleration.get("value") or "") == taint.value)


def _matches(term: Mapping[str, Any], node: NodeInfo) -> bool:
    expressions, names = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not names:
        return False  # an empty term matches no node
    return all(_holds(each, node.labels) for each in expressions) and all(
        _holds(each, {"metadata.name": node.name}) for each in names
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    operator = _OPERATORS.get(str(expression.get("operator")))
    value = labels.get(str(expression.get("key")))
    return operator is not None and operator(value, [str(each) for each in expression.get("values") or ()])


def _compared(value: str | None, values: Sequence[str], sign: int) -> bool:
    numbers = [each for each in (value, *values) if each is not None and _INTEGER.fullmatch(each)]
    return len(numbers) == 2 == len(values) + 1 and (int(numbers[0]) - int(numbers[1])) * sign > 0


_OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: _compared(value, values, 1),
    "Lt": lambda value, values: _compared(value, values, -1),
}
