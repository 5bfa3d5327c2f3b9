"""Counts as people read them."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """Return a count with what is counted: ``1 job``, ``1,000 jobs``."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def size_text(servers: int, workers: int) -> str:
    """Return a size for people: ``2 servers, 1 worker``; without servers only its workers."""
    return f"{counted(servers, 'server')}, {counted(workers, 'worker')}" if servers else counted(workers, "worker")
