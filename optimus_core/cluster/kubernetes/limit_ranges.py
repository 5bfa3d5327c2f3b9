"""What a namespace's LimitRanges add to a pod and keep from it: from the API's JSON, without a call.

The API server does both itself, but its words name neither the LimitRange nor what of a job to change; and where a
quota is in the way as well, it does not say what the pod would have asked for.
Source: kubernetes.io, "Limit Ranges"; order and words as its admission plugin LimitRanger has them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from optimus_core.cluster.kubernetes.requests import pod_limits, pod_requests
from optimus_core.pod_rules import MAIN
from optimus_core.resources import parse_quantity

Object = Mapping[str, Any]
_KINDS = ("initContainers", "containers")


@dataclass(frozen=True)
class _Part:
    """A container, or a pod as a whole: what it asks for and what it may use, by resource."""

    name: str | None
    """None: the whole pod."""
    requests: Object
    limits: Object

    @property
    def shown(self) -> str:
        return "the whole pod" if self.name is None else f'container "{self.name}"'


def with_defaults(spec: Object, ranges: Iterable[Object]) -> dict[str, Any]:
    """Return a pod's specification as it is once the defaults of the namespace are filled in."""
    made = copy.deepcopy(dict(spec))
    for container in _containers(made):
        resources = container["resources"] = dict(container.get("resources") or {})
        limits = dict(resources.get("limits") or {})
        requests = limits | dict(resources.get("requests") or {})
        for _, item in _items(ranges, "Container"):
            limits = dict(item.get("default") or {}) | limits
            requests = dict(item.get("defaultRequest") or {}) | requests
        resources |= {"limits": limits, "requests": requests}
    return made


def breach(spec: Object, ranges: Iterable[Object], role: str) -> str | None:
    """Return why the LimitRanges of its namespace refuse a pod, and what to write; None if they do not.

    Args:
        spec: the pod's specification, before its defaults are filled in.
        ranges: the LimitRange objects.
        role: whose replica it is: ``worker`` or ``server``.
    """
    ranges = list(ranges)
    given = {each["name"]: each for each in _containers(spec)}
    filled = with_defaults(spec, ranges)
    for each in _containers(filled):
        part = _Part(each["name"], each["resources"]["requests"], each["resources"]["limits"])
        known = given[part.name].get("resources") or {}
        told = _above_its_default(part, known.get("limits") or {}, ranges) or _refused(part, ranges, "Container", role)
        if told:
            return told
    whole = _Part(None, pod_requests(filled).to_quantities(), pod_limits(filled).to_quantities())
    return _refused(whole, ranges, "Pod", role)


def _above_its_default(part: _Part, given: Object, ranges: Iterable[Object]) -> str | None:
    """A default limit below what a container asks for makes a pod that can't be."""
    for name, item in _items(ranges, "Container"):
        for kind, limit in (item.get("default") or {}).items():
            asked = part.requests.get(kind)
            if kind not in given and asked is not None and _value(asked) > _value(limit):
                return (
                    f'LimitRange "{name}" gives a container without a limit of {kind} one of {limit}, but {part.shown} '
                    f"asks for {asked}. Write resources.limits.{kind} of it in the pod template, or ask for less."
                )
    return None


def _refused(part: _Part, ranges: Iterable[Object], kind: str, role: str) -> str | None:
    for name, item in _items(ranges, kind):
        for told in (*_too_much(part, item, role), *_too_little(part, item, role), *_too_far(part, item)):
            return f'LimitRange "{name}" {told}'
    return None


def _too_much(part: _Part, item: Object, role: str) -> Iterator[str]:
    for kind, most in (item.get("max") or {}).items():
        limit, asked = part.limits.get(kind), part.requests.get(kind)
        allows = f"allows {part.shown} at most {most} of {kind}"
        if limit is None or not _value(limit):
            yield f"{allows}, but it has no limit. Write resources.limits.{kind} of its containers in the pod template."
        elif asked is not None and _value(asked) > _value(most):
            yield f"{allows}, but it asks for {asked}. {_less(part, role, kind, most)}"
        elif _value(limit) > _value(most):
            yield f"{allows}, but its limit is {limit}. {_less(part, role, kind, most)}"


def _too_little(part: _Part, item: Object, role: str) -> Iterator[str]:
    for kind, least in (item.get("min") or {}).items():
        asked = part.requests.get(kind)
        wants = f"wants {part.shown} to ask for at least {least} of {kind}"
        if asked is None:
            yield f"{wants}, but it asks for none. Write resources.requests.{kind} of its containers."
        elif _value(asked) < _value(least):
            where = _where(part, role, kind)
            yield f"{wants}, but it asks for {asked}. Write at least {least} in {where}."


def _too_far(part: _Part, item: Object) -> Iterator[str]:
    for kind, ratio in (item.get("maxLimitRequestRatio") or {}).items():
        limit, asked = part.limits.get(kind), part.requests.get(kind)
        if limit is None or not asked or not _value(asked) or _value(limit) / _value(asked) > _value(ratio):
            yield (
                f"allows {part.shown} a limit of {kind} of at most {ratio} times what it asks for, but it asks for "
                f"{asked or 'none'} and its limit is {limit or 'none'}. Write both in the pod template."
            )


def _less(part: _Part, role: str, kind: str, most: str) -> str:
    return f"Write at most {most} in {_where(part, role, kind)}."


def _where(part: _Part, role: str, kind: str) -> str:
    """Return where a job says what a part asks for."""
    ours = f"{role}s.{kind}" if kind in ("cpu", "memory") else f'{role}s.devices["{kind}"]'
    if part.name is None:
        return f"{ours} and the containers beside it together"
    return ours if part.name == MAIN else f'resources of "{part.name}" in the pod template'


def _containers(spec: Object) -> list[dict[str, Any]]:
    return [each for kind in _KINDS for each in spec.get(kind) or ()]


def _items(ranges: Iterable[Object], kind: str) -> Iterator[tuple[str, Object]]:
    for each in ranges:
        for item in (each.get("spec") or {}).get("limits") or ():
            if item.get("type") == kind:
                yield each["metadata"]["name"], item


def _value(quantity: Any) -> Fraction:
    return parse_quantity(quantity)
