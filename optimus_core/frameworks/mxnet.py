"""ps-lite, which MXNet's ``dist_*`` stores and BytePS speak: a scheduler introduces servers and workers."""

from __future__ import annotations

from optimus_core.frameworks.contract import Group, Member
from optimus_core.roles import Role


def environment(group: Group, member: Member) -> dict[str, str]:
    """Return the variables that ps-lite reads; without a scheduler there is no ps-lite and there are none."""
    if group.scheduler is None:
        return {}
    root = group.scheduler.endpoint
    worker = {"DMLC_WORKER_ID": str(member.index)} if member.role is Role.WORKER else {}  # only BytePS reads it
    return worker | {
        "DMLC_ROLE": member.role.value,
        "DMLC_NUM_WORKER": str(len(group.workers)),
        "DMLC_NUM_SERVER": str(len(group.servers)),
        "DMLC_PS_ROOT_URI": root.host,
        "DMLC_PS_ROOT_PORT": str(root.port),
        "DMLC_NODE_HOST": member.endpoint.host,
    }
