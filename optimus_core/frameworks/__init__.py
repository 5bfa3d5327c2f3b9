"""How the replicas of a job find each other: one pure function of (group, member) per framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from optimus_core.errors import SpecificationError
from optimus_core.frameworks import mxnet, optimus, pytorch, tensorflow, torchrun
from optimus_core.frameworks.contract import Group, Member
from optimus_core.roles import Role

__all__ = ["RESERVED", "Group", "Member", "check_user_environment", "deciders", "environment", "roles"]

RESERVED_PREFIXES = ("OPTIMUS_", "DMLC_", "PET_", "AIRFLOW__")
RESERVED_NAMES = ("TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "NNODES")
RESERVED = (*(f"{prefix}*" for prefix in RESERVED_PREFIXES), *RESERVED_NAMES)
"""What a user's ``env`` may not set, as shown to people."""

_Contract = Callable[[Group, Member], dict[str, str]]
_CONTRACTS: dict[str | None, tuple[_Contract, ...]] = {
    "mxnet": (mxnet.environment,),
    "pytorch": (pytorch.environment,),
    "tensorflow": (tensorflow.environment,),
    "torchrun": (torchrun.environment,),
    None: (pytorch.environment, tensorflow.environment),
}


def environment(framework: str | None, group: Group, member: Member) -> dict[str, str]:
    """Return the variables of one replica: Optimus' own and those of its framework.

    Args:
        framework: None means that nobody said: those of PyTorch and TensorFlow, which have no name in common.
    """
    _check(framework)
    variables = optimus.environment(group, member)
    for contract in _CONTRACTS[framework]:
        variables |= contract(group, member)
    return variables


def roles(framework: str | None, servers: int, workers: int) -> list[tuple[Role, int]]:
    """Return role and index of each replica; MXNet with servers needs a scheduler beside them."""
    _check(framework)
    third = [(Role.SCHEDULER, 0)] if framework == "mxnet" and servers else []
    return [
        *third,
        *((Role.SERVER, index) for index in range(servers)),
        *((Role.WORKER, index) for index in range(workers)),
    ]


def deciders(framework: str | None) -> frozenset[Role]:
    """Return the roles whose exits end the job: servers and schedulers often run until they are stopped."""
    _check(framework)
    return frozenset({Role.WORKER})


def check_user_environment(env: Mapping[str, str] | Iterable[str]) -> None:
    """Refuse variables that Optimus sets itself.

    Raises:
        SpecificationError: some of the names are reserved; the text lists all that are.
    """
    wrong = sorted(name for name in env if name in RESERVED_NAMES or name.startswith(RESERVED_PREFIXES))
    if wrong:
        raise SpecificationError(
            f"env sets {', '.join(wrong)}, which Optimus sets itself or which belongs to Airflow. "
            f"Use other names; reserved are {', '.join(RESERVED)}."
        )


def _check(framework: str | None) -> None:
    if framework not in _CONTRACTS:
        known = ", ".join(sorted(filter(None, _CONTRACTS)))
        raise SpecificationError(f'framework is "{framework}". Write one of {known}, or leave it out.')
