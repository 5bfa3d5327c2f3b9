"""The files of a record."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any

SPEC, STATUS, STOP, LOCK, TERMINATION = "spec.json", "status.json", "stop.json", "lock", "termination"
MESSAGE_LIMIT = 4096
"""Bytes of a termination message that are kept, as of a pod's."""


def read_json(path: str) -> dict[str, Any] | None:
    """Return the object in a file, None if there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_json(path: str, value: dict[str, Any]) -> None:
    """Replace a file's content at once: a reader sees the old or the new, never half of it."""
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}"
    try:
        with open(temporary, "w", encoding="utf-8", opener=_private) as file:
            json.dump(value, file)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def message_in(folder: str) -> str | None:
    """Return the end of the termination message that the replica left, None if it left none."""
    try:
        with open(os.path.join(folder, TERMINATION), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MESSAGE_LIMIT))
            return file.read(MESSAGE_LIMIT).decode("utf-8", "replace").strip() or None
    except OSError:
        return None
