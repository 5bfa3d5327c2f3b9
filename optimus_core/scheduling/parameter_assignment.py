"""Which parameter server holds which parameters: the paper's PAA beside what MXNet and TensorFlow do by default.

A server's time for a step grows with the parameters that it holds and with the update requests that it answers, and
the slowest server is the step's (section 5.3 of the Optimus paper, EuroSys 2018). All functions here are pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from optimus_core import checks
from optimus_core.errors import SpecificationError

MXNET_BIGARRAY_BOUND = 1_000_000
"""Elements from which MXNet slices an array over all servers (``MXNET_KVSTORE_BIGARRAY_BOUND``)."""
_MXNET_PRIME = 9973
"""What MXNet multiplies a key with to choose the server of a small array (``src/kvstore/kvstore_dist.h``)."""
_VERY_SMALL = 0.01
"""A block below this part of the average load counts as a request, not as a load (the paper's 1 %)."""


@dataclass(frozen=True)
class Block:
    """An array of parameters, such as the weights of a layer."""

    name: str
    size: int
    """Parameters in it."""
    key: int | None = None
    """Its key in MXNet's store; None: its place in the order of the names."""


@dataclass(frozen=True)
class Slice:
    """A part of a block on a server; each costs the server one update request a step."""

    block: str
    start: int
    """The first parameter of the block that is in it."""
    size: int


@dataclass(frozen=True)
class Assignment:
    """The slices of each server."""

    method: str
    servers: tuple[tuple[Slice, ...], ...]

    @property
    def loads(self) -> tuple[int, ...]:
        """Parameters per server."""
        return tuple(sum(part.size for part in server) for server in self.servers)

    @property
    def requests(self) -> tuple[int, ...]:
        """Update requests per server and step."""
        return tuple(len(server) for server in self.servers)

    @property
    def spread(self) -> int:
        """Parameters of the fullest server less those of the emptiest."""
        return max(self.loads) - min(self.loads)

    @property
    def request_spread(self) -> int:
        """Requests of the busiest server less those of the idlest."""
        return max(self.requests) - min(self.requests)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            "method": self.method,
            "spread": self.spread,
            "requests": sum(self.requests),
            "request_spread": self.request_spread,
            "servers": [
                {"parameters": load, "slices": [vars(part) for part in server]}
                for load, server in zip(self.loads, self.servers, strict=True)
            ],
        }


class _Filling:
    """Servers that get slices one after the other."""

    def __init__(self, servers: int) -> None:
        self.slices: list[list[Slice]] = [[] for _ in range(servers)]
        self.loads = [0] * servers

    def put(self, server: int, part: Slice) -> None:
        if part.size:
            self.slices[server].append(part)
            self.loads[server] += part.size

    def emptiest(self) -> int:
        return min(range(len(self.loads)), key=lambda s: (self.loads[s], len(self.slices[s])))

    def least_asked(self) -> int:
        return min(range(len(self.loads)), key=lambda s: (len(self.slices[s]), self.loads[s]))

    def done(self, method: str) -> Assignment:
        return Assignment(method, tuple(map(tuple, self.slices)))


def paa(blocks: Sequence[Block], servers: int) -> Assignment:
    """Assign blocks by the paper's algorithm: largest first, with the average load as every server's room.

    A very small block goes to the server with the fewest requests; one up to the average to the server with the least
    room that still holds it, else to the one with most room; a larger one is sliced into parts of at most the average.

    Raises:
        SpecificationError: there is no block or server, a block is empty, or a name is given twice.
    """
    _check(blocks, servers)
    total = sum(block.size for block in blocks)
    filling = _Filling(servers)
    for block in sorted(blocks, key=lambda b: (-b.size, b.name)):
        if block.size * servers > total:
            for part in _cut(block, -(-block.size * servers // total)):
                filling.put(filling.emptiest(), part)
        elif block.size * servers < _VERY_SMALL * total:
            filling.put(filling.least_asked(), Slice(block.name, 0, block.size))
        else:
            filling.put(_best_fit(filling, block.size, total), Slice(block.name, 0, block.size))
    return filling.done("paa")


def _best_fit(filling: _Filling, size: int, total: int) -> int:
    """Return the fullest server that has room below the average, or the emptiest; equals: who has fewer requests."""
    count = len(filling.loads)
    holding = [s for s in range(count) if (filling.loads[s] + size) * count <= total]
    if not holding:
        return filling.emptiest()
    return max(holding, key=lambda s: (filling.loads[s], -len(filling.slices[s])))


def mxnet(blocks: Sequence[Block], servers: int) -> Assignment:
    """Assign blocks as MXNet's KVStore does: small ones by a hash of their place, large ones evenly over all servers.

    A key that is not given is the block's place in the order of the names, as gluon's Trainer counts; gluon also counts
    arrays that no server holds, such as running means.

    Raises:
        SpecificationError: as :func:`paa`.
    """
    _check(blocks, servers)
    filling = _Filling(servers)
    for place, block in enumerate(sorted(blocks, key=lambda b: b.name)):
        key = place if block.key is None else block.key
        if block.size < MXNET_BIGARRAY_BOUND:
            filling.put(key * _MXNET_PRIME % servers, Slice(block.name, 0, block.size))
        else:
            for server, part in enumerate(_cut(block, servers)):
                filling.put(server, part)
    return filling.done("mxnet")


def tensorflow(blocks: Sequence[Block], servers: int) -> Assignment:
    """Assign blocks as TensorFlow's ``replica_device_setter`` does: whole, in their order, round-robin.

    Raises:
        SpecificationError: as :func:`paa`.
    """
    _check(blocks, servers)
    filling = _Filling(servers)
    for place, block in enumerate(blocks):
        filling.put(place % servers, Slice(block.name, 0, block.size))
    return filling.done("tensorflow")


DEFAULTS: tuple[Callable[[Sequence[Block], int], Assignment], ...] = (mxnet, tensorflow)
"""What frameworks do on their own."""


def assign(blocks: Sequence[Block], servers: int) -> Assignment:
    """Return the best of PAA and the defaults: the fullest server holds least, then the fewest requests.

    Loads that differ by under 1 % of the average count as equal, so that no block is cut for next to nothing.

    Raises:
        SpecificationError: as :func:`paa`.
    """
    made = [method(blocks, servers) for method in (paa, *DEFAULTS)]
    average = sum(block.size for block in blocks) / servers
    least = min(max(each.loads) for each in made)
    near = [each for each in made if max(each.loads) <= least + _VERY_SMALL * average]
    return min(near, key=lambda each: (sum(each.requests), max(each.loads), each.request_spread))


def most_servers(blocks: Sequence[Block]) -> int:
    """Return how many servers a model can use at most: one for each of its blocks."""
    return max(1, len(blocks))


def _cut(block: Block, parts: int) -> list[Slice]:
    """Return ``parts`` slices of a block whose sizes differ by at most one."""
    bounds = [(2 * block.size * i + parts) // (2 * parts) for i in range(parts + 1)]
    return [Slice(block.name, begin, end - begin) for begin, end in itertools.pairwise(bounds)]


def _check(blocks: Sequence[Block], servers: int) -> None:
    checks.whole(servers, "servers", 1)
    if not blocks:
        raise SpecificationError("there are no blocks to assign. Give at least one, such as Block('dense', 1000).")
    seen: set[str] = set()
    for block in blocks:
        checks.whole(block.size, f"the size of block {checks.shown(block.name)}", 1, 1000, most=2**53)
        if block.name in seen:
            raise SpecificationError(f"the block {checks.shown(block.name)} is given twice. Give each its own name.")
        seen.add(block.name)
        if block.key is not None:
            checks.whole(block.key, f"the key of block {checks.shown(block.name)}", 0)
