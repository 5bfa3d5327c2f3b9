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
_WHOLE = ("env", "volumes")
"""Lists whose entries replace each other whole: each has one source, and two of them merged would be none."""


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``over`` on top; neither is changed."""
    result: dict[str, Any] = {key: copy.deepcopy(value) for key, value in base.items()}
    for key, value in over.items():
        known = result.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            result[key] = merged(known, value)
        elif isinstance(known, list) and isinstance(value, list) and key in _KEYS:
            result[key] = _lists(known, value, _KEYS[key], whole=key in _WHOLE)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _lists(base: Sequence[Any], over: Sequence[Any], key: str, *, whole: bool) -> list[Any]:
    if not key:
        return [*copy.deepcopy(list(base)), *(copy.deepcopy(each) for each in over if each not in base)]
    places = {_name(each, key): index for index, each in enumerate(base)} | {None: None}
    result = copy.deepcopy(list(base))
    for each in over:
        place = places.get(_name(each, key))
        if place is None:
            result.append(copy.deepcopy(each))
        else:
            result[place] = copy.deepcopy(each) if whole else merged(result[place], each)
    return result


def _name(entry: Any, key: str) -> str | int | None:
    """Return what tells an entry apart; None if it is none that Kubernetes takes: nothing is merged with it."""
    name = entry.get(key) if isinstance(entry, Mapping) else None
    return name if isinstance(name, str | int) else None
