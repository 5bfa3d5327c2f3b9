"""PyTorch's ``env://``: one process per replica, so the world is the workers and each is the first on its node."""

from __future__ import annotations

from optimus_core.frameworks.contract import Group, Member
from optimus_core.roles import Role


def environment(group: Group, member: Member) -> dict[str, str]:
    """Return the variables that ``torch.distributed.init_process_group`` reads; servers get none."""
    if member.role is not Role.WORKER:
        return {}
    master = group.workers[0].endpoint
    return {
        "MASTER_ADDR": master.host,
        "MASTER_PORT": str(master.port),
        "RANK": str(member.index),
        "WORLD_SIZE": str(len(group.workers)),
        "LOCAL_RANK": "0",
        "NNODES": str(len(group.workers)),
    }
