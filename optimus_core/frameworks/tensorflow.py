"""TensorFlow's ``TF_CONFIG``. With parameter servers worker 0 is the chief; with all-reduce all are workers."""

from __future__ import annotations

import json

from optimus_core.frameworks.contract import Group, Member
from optimus_core.roles import Role


def environment(group: Group, member: Member) -> dict[str, str]:
    """Return the cluster as each of its tasks sees it."""
    if member.role is Role.SCHEDULER:
        return {}
    kind, index = _task(group, member)
    value = {"cluster": _cluster(group), "task": {"type": kind, "index": index}}
    return {"TF_CONFIG": json.dumps(value)}


def _cluster(group: Group) -> dict[str, list[str]]:
    workers = [member.endpoint.address for member in group.workers]
    if not group.servers:
        return {"worker": workers}
    servers = [member.endpoint.address for member in group.servers]
    cluster = {"chief": workers[:1], "worker": workers[1:], "ps": servers}
    return {kind: addresses for kind, addresses in cluster.items() if addresses}


def _task(group: Group, member: Member) -> tuple[str, int]:
    if member.role is Role.SERVER:
        return "ps", member.index
    if not group.servers:
        return "worker", member.index
    return ("chief", 0) if member.index == 0 else ("worker", member.index - 1)
