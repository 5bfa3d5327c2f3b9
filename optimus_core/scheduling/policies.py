"""Policies by name: one interface for the product's own rule and for what it is compared with.

A policy is a pure function of a snapshot. Simulator, benchmarks and ``optimus simulate --policy`` choose one here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from optimus_core import checks
from optimus_core.scheduling import baselines
from optimus_core.scheduling.marginal import marginal_gain
from optimus_core.scheduling.plan import plan
from optimus_core.scheduling.speeds import RateOf, model_rate
from optimus_core.scheduling.types import Plan, Snapshot


class Policy(Protocol):
    """Decides what every job of a snapshot gets: a pure function, the same plan for the same snapshot."""

    def __call__(self, snapshot: Snapshot, rate_of: RateOf = model_rate, /) -> Plan:
        """Return the plan; ``rate_of`` gives the speed of a job at each size, by default by its model."""


POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "optimus": plan,
        "gain": marginal_gain,
        "paper": baselines.paper,
        "drf": baselines.fair_shares,
        "tetris": baselines.tetris,
        "fifo": baselines.fifo,
        "srtf": baselines.srtf,
        "equal": baselines.equal_share,
    }
)
"""Name -> policy. ``gain`` is marginal gain with restarts charged and minimums for everyone."""


def policy(name: str) -> Policy:
    """Return the policy called ``name``.

    Raises:
        SpecificationError: there is no such policy; names those that there are.
    """
    checks.one_of(name, tuple(POLICIES), "policy")
    return POLICIES[name]
