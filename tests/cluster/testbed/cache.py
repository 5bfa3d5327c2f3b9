"""What is made once and kept outside the checkout: programs and images.

Each thing is a folder named by what it is and by the hash of all that makes it, so an old one is never wrong, only
unused. It is made in a draft beside it and renamed when whole; a file lock keeps two commands from making it twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.testbed.shell import say


def root() -> Path:
    """Return the folder of all that is kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "optimus-testbed"


def digest(*parts: str | bytes) -> str:
    """Return a short hash of what makes a thing."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.encode() if isinstance(part, str) else part)
        whole.update(b"\0")
    return whole.hexdigest()[:16]


@contextmanager
def locked(file: Path, what: str) -> Iterator[None]:
    """Hold the lock ``file``; say so when another command holds it, and wait."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another command: {what}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def path(name: str, key: str) -> Path:
    """Return where a thing is, or would be."""
    return root() / f"{name}-{key}"


def made(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of a thing, made by ``make(draft)`` if it is not there yet."""
    target = path(name, key)
    if target.exists():
        return target
    with locked(root() / f"{name}.lock", f"it makes {name}"):
        if not target.exists():
            draft = root() / f".draft-{name}-{key}"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            make(draft)
            draft.rename(target)
    return target
