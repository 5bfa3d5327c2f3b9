"""What a pod asks for, counted as Kubernetes' scheduler counts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from optimus_core.resources import Resources, largest, total

_COUNTED_BY_NAME = ("cpu", "memory")


def pod_requests(spec: Mapping[str, Any]) -> Resources:
    """Return the effective requests of a pod's specification.

    The containers and the init containers that keep running (sidecars) together, or if that is more an init container
    with the sidecars before it; what is asked for the pod as a whole instead; and the overhead.
    Source: kubernetes.io, "Sidecar Containers", section "Resource sharing within containers"; KEP-2837.
    """
    return _effective(spec, _asked) + amounts(spec.get("overhead") or {})


def pod_limits(spec: Mapping[str, Any]) -> Resources:
    """Return the effective limits of a pod's specification, which quotas count: of a kind without any limit, zero."""
    found = _effective(spec, _limited)
    overhead = amounts(spec.get("overhead") or {})
    return found + Resources({name: amount for name, amount in overhead.items() if found[name]})


def _effective(spec: Mapping[str, Any], of: Callable[[Mapping[str, Any]], Resources]) -> Resources:
    sidecars, peak = Resources(), Resources()
    for each in spec.get("initContainers") or ():
        if each.get("restartPolicy") == "Always":
            sidecars = sidecars + of(each)
        else:
            peak = largest(peak, sidecars + of(each))
    running = sidecars + total(of(each) for each in spec.get("containers") or ())
    return Resources({**largest(running, peak), **of(spec)})


def amounts(quantities: Mapping[str, Any]) -> Resources:
    """Return Kubernetes' quantities as resources; kinds that nobody hands out by number are left out."""
    kept = {name: value for name, value in quantities.items() if _counts(name)}
    devices = {name: value for name, value in kept.items() if name not in _COUNTED_BY_NAME}
    return Resources.of(cpu=kept.get("cpu", 0), memory=kept.get("memory", 0), devices=devices)


def _counts(name: str) -> bool:
    return name in _COUNTED_BY_NAME or (not name.startswith(("hugepages-", "attachable-volumes-")) and "/" in name)


def _asked(part: Mapping[str, Any]) -> Resources:
    """Return what a container, or a pod as a whole, asks for: its limits where it says nothing else."""
    resources = part.get("resources") or {}
    return amounts(dict(resources.get("limits") or {}) | dict(resources.get("requests") or {}))


def _limited(part: Mapping[str, Any]) -> Resources:
    """Return what a container, or a pod as a whole, may use at most, where it says so."""
    return amounts((part.get("resources") or {}).get("limits") or {})
