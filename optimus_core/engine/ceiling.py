"""Whether the pool of a job may ever have what the job asks for at least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from optimus_core.cluster.base import NodeInfo
from optimus_core.counted import size_text
from optimus_core.engine.launch import demand
from optimus_core.engine.snapshot import pool_view
from optimus_core.errors import SpecificationError
from optimus_core.frameworks import roles
from optimus_core.job import TrainingJob
from optimus_core.pools import DeclaredPool
from optimus_core.resources import Resources, total


def ceiling_check(
    job: TrainingJob, pool: DeclaredPool, added: Mapping[str, Mapping[str, int]], nodes: Iterable[NodeInfo]
) -> None:
    """Refuse a job that would wait for its pool for good, even if it were the only one there.

    Args:
        job: the job.
        pool: whose job it is.
        added: by role what the cluster adds to what a replica asks for.
        nodes: all of the cluster. A ceiling in percent is one of what they have when they are empty and ready, so that
            a busy cluster refuses nothing.

    Raises:
        SpecificationError: its minimum is more than the pool's ceiling.
    """
    _, ceiling = pool_view(pool).limits(total(node.allocatable for node in nodes))
    servers, workers = job.servers.min if job.servers is not None else 0, job.workers.min
    count = Counter(role for role, _ in roles(job.framework, servers, workers))
    least = total((demand(job, role) + Resources(added.get(role))) * number for role, number in count.items())
    over = [name for name, most in ceiling.items() if least[name] > most]
    if over:
        raise SpecificationError(
            f'job "{job.name}": its minimum ({size_text(servers, workers)}) asks for {_only(over, least)}; its pool, '
            f'"{pool.name}", may have {_only(over, ceiling)} at most. Write a smaller min, ask for less, name a pool '
            "that may have more, or raise the ceiling in clusters.yaml."
        )


def _only(names: Iterable[str], amounts: Mapping[str, int]) -> str:
    return ", ".join(Resources({name: amounts[name]}).describe() if amounts[name] else f"no {name}" for name in names)
