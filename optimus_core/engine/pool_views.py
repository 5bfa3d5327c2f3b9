"""How the pools of a cluster stand, for page and API: plain data out of the store and the declarations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optimus_core.engine.context import Context
from optimus_core.engine.snapshot import pool_view
from optimus_core.scheduling.types import Pool
from optimus_core.store import JobRow

Amounts = Mapping[str, int]


def pools_view(
    ctx: Context,
    cluster: str,
    nodes: Sequence[Mapping[str, Any]],
    holding: Iterable[tuple[JobRow, Amounts]],
    waiting: Mapping[str, int],
) -> list[dict[str, Any]]:
    """Return for each declared pool what it is guaranteed, may have at most, holds and borrows; and its jobs.

    Args:
        ctx: the engine's context.
        cluster: its name.
        nodes: what each of its nodes offers: ``ready``, ``allocatable``, ``others``.
        holding: jobs that hold something, with what they hold in all.
        waiting: pool -> how many of its jobs hold nothing and want to.
    """
    declared = {pool.name: pool_view(pool) for pool in ctx.pools(cluster).pools}
    if not declared:
        return []
    held: dict[str, Counter[str]] = defaultdict(Counter)
    jobs: dict[str, set[str]] = defaultdict(set)
    for row, amounts in holding:
        held[row.pool].update(amounts)
        jobs[row.pool].add(row.name)
    capacity = _capacity(nodes)
    names = sorted({*declared, *held, *waiting})
    return [
        _told(declared.get(name, Pool(name=name)), capacity, held[name], len(jobs[name]), waiting.get(name, 0))
        for name in names
    ]


def _told(pool: Pool, capacity: Amounts, held: Amounts, jobs: int, waiting: int) -> dict[str, Any]:
    own, most = pool.limits(capacity)
    return {
        "name": pool.name,
        "guaranteed": {name: amount for name, amount in own.items() if amount},
        "ceiling": dict(most),
        "held": dict(held),
        "borrowed": {name: more for name, amount in held.items() if (more := amount - own.get(name, 0)) > 0},
        "jobs": jobs,
        "waiting": waiting,
    }


def _capacity(nodes: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    whole: Counter[str] = Counter()
    for node in nodes:
        if node["ready"]:
            offered = {name: amount - node["others"].get(name, 0) for name, amount in node["allocatable"].items()}
            whole.update({name: max(0, amount) for name, amount in offered.items()})
    return dict(whole)
