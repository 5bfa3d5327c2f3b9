"""What a job's placement costs it: traffic between nodes is slower than within one."""

from __future__ import annotations

from collections.abc import Mapping

from optimus_core.scheduling.types import Size


def crossing_share(placement: Mapping[str, Size], *, synchronous: bool) -> float:
    """Return the part of a worker's traffic with its parameter servers, or with its ring, that leaves its node.

    A worker on a node with ``p_i`` of the ``p`` servers sends ``1 - p_i / p`` of its gradient to other nodes
    (section 5 of the Optimus paper). Synchronous workers wait for the one with most such traffic; asynchronous ones
    have the average. A job without servers leaves its nodes with all of its ring, or on one node with nothing.

    Args:
        placement: node -> replicas on it.
        synchronous: whether each step waits for all workers.
    """
    servers = sum(size.servers for size in placement.values())
    if not servers:
        return float(sum(size.workers > 0 for size in placement.values()) > 1)
    shares = [(1 - size.servers / servers, size.workers) for size in placement.values() if size.workers]
    if synchronous:
        return max((share for share, _ in shares), default=0.0)
    workers = sum(count for _, count in shares)
    return sum(share * count for share, count in shares) / workers if workers else 0.0
