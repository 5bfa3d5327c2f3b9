"""One pod template on top of another, as KubernetesPodOperator reconciles pods.

Not as :mod:`optimus_core.cluster.merge` does it, after ``kubectl patch``: tolerations and affinity are replaced here.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from optimus_core.pod_rules import MAIN

Json = dict[str, Any]


def base_of(template: Mapping[str, Any]) -> Json:
    """Return the container of a template that trains; empty if it has none."""
    containers = (template.get("spec") or {}).get("containers") or ()
    return next((each for each in containers if each.get("name") == MAIN), {})


def as_base(fields: Json) -> Json:
    return {"spec": {"containers": [{"name": MAIN, **fields}]}}


_MERGED = ("metadata", "spec", "labels", "annotations")
_JOINED: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "envFrom": "",
}
"""Lists that are joined, and what tells their entries apart. What is neither here nor above is replaced whole."""


def layered(base: Mapping[str, Any], over: Mapping[str, Any]) -> Json:
    """Return ``base`` with ``over`` on top, as KubernetesPodOperator reconciles pods; neither is changed."""
    result = copy.deepcopy(dict(base))
    for key, value in over.items():
        known = result.get(key)
        if key in _MERGED and isinstance(known, Mapping) and isinstance(value, Mapping):
            result[key] = layered(known, value)
        elif key in _JOINED and isinstance(known, list) and isinstance(value, list):
            result[key] = _joined(known, value, key)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _joined(base: list[Json], over: list[Json], key: str) -> list[Json]:
    name = _JOINED[key]
    if not name:
        return [*base, *(copy.deepcopy(each) for each in over if each not in base)]
    result = {each.get(name): each for each in base}
    for each in over:
        known = result.get(each.get(name))
        merge = known is not None and key in ("containers", "initContainers")
        result[each.get(name)] = layered(known, each) if known is not None and merge else copy.deepcopy(each)
    return list(result.values())
