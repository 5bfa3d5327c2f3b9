"""What a namespace's quotas hold: from the API's JSON, without a call.

Source: kubernetes.io, "Resource Quotas".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from optimus_core.cluster.kubernetes.capacity import PODS, whole
from optimus_core.cluster.kubernetes.requests import pod_limits, pod_requests
from optimus_core.resources import Resources, format_amount

_SCOPES = {"NotTerminating", "NotBestEffort"}
"""Scopes of quotas that replicas are in: they have no deadline before they are asked to stop, and ask for something."""
_SHORT = {"cpu": "requests.cpu", "memory": "requests.memory", "count/pods": PODS}
_REQUESTS, _LIMITS = "requests.", "limits."
Object = Mapping[str, Any]


def charge(spec: Object) -> Resources:
    """Return what a pod's specification counts against quotas, by their names: ``requests.cpu``, ``limits.memory``."""
    asked = {f"{_REQUESTS}{name}": amount for name, amount in pod_requests(spec).items()}
    limited = {f"{_LIMITS}{name}": amount for name, amount in pod_limits(spec).items()}
    return Resources(asked | limited | {PODS: 1})


def short_of(quotas: Iterable[Object], asked: Resources, given_back: Resources) -> str | None:
    """Return what of a namespace's quotas does not hold what is asked for, None if all do.

    Args:
        quotas: the ResourceQuota objects.
        asked: the :func:`charge` of all new pods.
        given_back: that of the pods that go first.
    """
    for quota in quotas:
        if not _holds_for_replicas(quota.get("spec") or {}):
            continue
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        for name, limit in hard.items():
            counted = _SHORT.get(name, name)
            if not asked[counted]:
                continue
            kind = counted.removeprefix(_REQUESTS).removeprefix(_LIMITS)
            left = whole(kind, limit) - whole(kind, used.get(name, "0")) + given_back[counted]
            if asked[counted] > left:
                need, free = (format_amount(kind, amount) for amount in (asked[counted], max(0, left)))
                return (
                    f'quota "{quota["metadata"]["name"]}" allows {limit} of {name}, and too little is left: '
                    f"{need} needed, {free} free"
                )
    return None


def _holds_for_replicas(spec: Object) -> bool:
    """Say whether a quota certainly counts replicas; whether one of a priority class does, the API server knows."""
    return not spec.get("scopeSelector") and set(spec.get("scopes") or ()) <= _SCOPES
