"""Optimus' own variables: every replica has them, whatever its framework."""

from __future__ import annotations

from collections.abc import Iterable

from optimus_core.frameworks.contract import Group, Member


def environment(group: Group, member: Member) -> dict[str, str]:
    """Return what ``optimus_train`` reads; lists are separated by commas."""
    batch = {} if group.batch_size is None else {"OPTIMUS_BATCH_SIZE": str(group.batch_size)}
    confirmed = {} if group.confirmed_step is None else {"OPTIMUS_CONFIRMED_STEP": str(group.confirmed_step)}
    return (
        batch
        | confirmed
        | {
            "OPTIMUS_JOB": group.job,
            "OPTIMUS_GENERATION": str(group.generation),
            "OPTIMUS_ATTEMPT": str(group.attempt),
            "OPTIMUS_ROLE": member.role.value,
            "OPTIMUS_RANK": str(member.index),
            "OPTIMUS_WORKERS": str(len(group.workers)),
            "OPTIMUS_SERVERS": str(len(group.servers)),
            "OPTIMUS_ADDRESS": member.endpoint.address,
            "OPTIMUS_WORKER_ADDRESSES": _addresses(group.workers),
            "OPTIMUS_SERVER_ADDRESSES": _addresses(group.servers),
            "OPTIMUS_BATCH_PER": group.batch_per,
            "OPTIMUS_CHECKPOINTS": group.checkpoints,
            "OPTIMUS_GRACE_SECONDS": f"{group.grace_seconds:g}",
        }
    )


def _addresses(members: Iterable[Member]) -> str:
    return ",".join(member.endpoint.address for member in members)
