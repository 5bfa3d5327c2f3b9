"""One cluster for several test sessions at once: the last one takes it down, unless it was up before them."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.testbed import cache
from tests.cluster.testbed.bed import Testbed

_MARK = "started-by-tests"
"""A file in the cluster's folder; ``up`` of the command line removes it, to keep the cluster."""


@contextmanager
def shared(bed: Testbed, *, keep: bool = False) -> Iterator[Testbed]:
    """Start the cluster for tests; take it down after them if they started it, nobody else uses it and not ``keep``."""
    cache.root().mkdir(parents=True, exist_ok=True)
    with (cache.root() / f"{bed.sandbox.id}.users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        was_up = bed.alive
        try:
            bed.up()
            if not was_up:
                (bed.folder / _MARK).touch()
            yield bed
        finally:
            if keep:
                adopt(bed)
            elif (not was_up or (bed.folder / _MARK).exists()) and _alone(users.fileno()):
                bed.down()


def adopt(bed: Testbed) -> None:
    """Let the cluster stay up when tests end."""
    (bed.folder / _MARK).unlink(missing_ok=True)


def _alone(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
