"""Pools as ``clusters.yaml`` declares them: a guaranteed part of a cluster, a ceiling, and whose jobs count for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimus_core import checks
from optimus_core.errors import SpecificationError
from optimus_core.resources import Resources

DEFAULT = "default"
"""The pool of jobs that belong to no other; it may be declared as well."""
_EXAMPLE = "{team-a: {guaranteed: 40%, ceiling: {nvidia.com/gpu: 4}, namespaces: [team-a]}}"
_KEYS = ("guaranteed", "ceiling", "namespaces", "labels")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%", re.ASCII)


@dataclass(frozen=True)
class Amount:
    """Amounts by resource, or one part of everything that the cluster has."""

    of: Mapping[str, int] = field(default_factory=dict)
    """Resource -> whole amount, as in :class:`~optimus_core.resources.Resources`."""
    share: float | None = None
    """Between 0 and 1."""


@dataclass(frozen=True)
class DeclaredPool:
    """What a pool is promised, and which jobs are its own."""

    name: str
    guaranteed: Amount = Amount()
    ceiling: Amount = Amount()
    namespaces: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def owns(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Say whether a job of this namespace, whose pods have these labels, belongs here without saying so."""
        labelled = bool(self.labels) and all(labels.get(key) == value for key, value in self.labels.items())
        return namespace in self.namespaces or labelled

    @property
    def is_open(self) -> bool:
        """Whether any job may name it: it is nobody's by namespace or label."""
        return not self.namespaces and not self.labels


def read_pools(data: object) -> tuple[DeclaredPool, ...]:
    """Read the ``pools`` of a declared cluster.

    Raises:
        SpecificationError: names the pool, what is wrong and what to write.
    """
    pools = tuple(_read(name, given) for name, given in checks.mapping(data, "pools", _EXAMPLE).items())
    shares = [pool.guaranteed.share or 0.0 for pool in pools]
    if sum(shares) > 1 + 1e-9:
        raise SpecificationError(f"pools are guaranteed {sum(shares):.0%} together. Write at most 100% in all.")
    owners: dict[str, str] = {}
    for pool in pools:
        for space in pool.namespaces:
            if space in owners:
                raise SpecificationError(
                    f"pools.{pool.name}.namespaces has {space}, as those of {owners[space]}. Write it in one of them."
                )
            owners[space] = pool.name
    return pools


def _read(name: str, data: object) -> DeclaredPool:
    where = f"pools.{name}"
    checks.text(name, "pools: a name", "team-a", longest=128)
    given = checks.mapping(data, where, "{guaranteed: 40%}")
    checks.keys(given, _KEYS, where)
    spaces = given.get("namespaces", [])
    if not isinstance(spaces, list) or not all(isinstance(space, str) and space for space in spaces):
        raise SpecificationError(f"{where}.namespaces is {checks.shown(spaces)}; it is a list. Write such as [team-a].")
    labels = checks.mapping(given.get("labels", {}), f"{where}.labels", "{team: a}")
    checks.texts(labels, f"{where}.labels")
    own, most = (_amount(given[key], f"{where}.{key}") if key in given else Amount() for key in _KEYS[:2])
    short = [r for r, amount in most.of.items() if own.of.get(r, 0) > amount]
    if short or (own.share or 0) > (1 if most.share is None else most.share):
        of = f" of {short[0]}" if short else ""
        raise SpecificationError(f"{where} is guaranteed more than its ceiling{of}. Write a ceiling of at least that.")
    return DeclaredPool(name, own, most, tuple(spaces), dict(labels))


def _amount(data: object, where: str) -> Amount:
    example = "40% or {cpu: 8, memory: 64Gi, nvidia.com/gpu: 2}"
    if isinstance(data, str):
        match = _PERCENT.fullmatch(data.strip())
        if match is None or float(match[1]) > 100:
            raise SpecificationError(f"{where} is {checks.shown(data)}, which is no part. Write such as {example}.")
        return Amount(share=float(match[1]) / 100)
    given = checks.mapping(data, where, example)
    amounts = Resources.from_quantities(given, where)
    return Amount({name: amounts[name] for name in given})  # a ceiling of 0 is one, too


def pool_of(
    pools: Sequence[DeclaredPool], job: str, named: str, namespace: str, labels: Mapping[str, Any] | None = None
) -> str:
    """Return the pool that a job counts for: the one it names, else the first that owns its namespace or labels.

    Args:
        pools: those of its cluster; none: whatever is named is taken, and means nothing.
        job: its name, for errors.
        named: the pool that it names; ``default`` names none.
        namespace: of its replicas; empty where there are no namespaces.
        labels: of its pods.

    Raises:
        SpecificationError: it names a pool that is not declared, or one that belongs to others.
    """
    if not pools:
        return named
    owner = next((pool.name for pool in pools if pool.owns(namespace, labels or {})), DEFAULT)
    open_to_all = [pool.name for pool in pools if pool.is_open]
    if named in (DEFAULT, owner):
        return owner
    if named in open_to_all:
        return named
    why = "belongs to other namespaces or labels" if named in {pool.name for pool in pools} else "is not declared"
    raise SpecificationError(
        f'job "{job}": its pool is {checks.shown(named)}, which {why}. Leave it out (then it is "{owner}"), '
        f"or write one that is open to all: {', '.join(open_to_all) or 'there is none'}."
    )
