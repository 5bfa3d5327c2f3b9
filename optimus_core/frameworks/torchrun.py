"""torchrun: the defaults of its options, one agent per worker; it sets RANK and the like in its own children."""

from __future__ import annotations

from optimus_core.frameworks.contract import Group, Member
from optimus_core.roles import Role


def environment(group: Group, member: Member) -> dict[str, str]:
    """Return the variables that torchrun reads in place of options; servers get none."""
    if member.role is not Role.WORKER:
        return {}
    master = group.workers[0].endpoint
    return {
        "PET_NNODES": str(len(group.workers)),
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": str(member.index),
        "PET_MASTER_ADDR": master.host,
        "PET_MASTER_PORT": str(master.port),
    }
