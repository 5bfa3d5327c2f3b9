"""Two pod specifications become one, as ``kubectl patch`` merges them: lists of named things by their names."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "nodeSelectorTerms": "",
    "tolerations": "",
    "ownerReferences": "uid",
}
"""What tells the entries of a list apart. Empty: entries are added. A list that is not here is replaced."""


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``over`` on top; neither is changed."""
    result: dict[str, Any] = {key: copy.deepcopy(value) for key, value in base.items()}
    for key, value in over.items():
        known = result.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            result[key] = merged(known, value)
        elif isinstance(known, list) and isinstance(value, list) and key in _KEYS:
            result[key] = _lists(known, value, _KEYS[key])
        else:
            result[key] = copy.deepcopy(value)
    return result


def _lists(base: Sequence[Any], over: Sequence[Any], key: str) -> list[Any]:
    if not key:
        return [*copy.deepcopy(list(base)), *(copy.deepcopy(each) for each in over if each not in base)]
    by_key = {each.get(key): index for index, each in enumerate(base) if isinstance(each, Mapping)}
    result = copy.deepcopy(list(base))
    for each in over:
        if each.get(key) in by_key:
            result[by_key[each[key]]] = merged(result[by_key[each[key]]], each)
        else:
            result.append(copy.deepcopy(each))
    return result
