"""What a replica says: one JSON line on standard output for each thing that Optimus should know.

A line is one write, flushed at once, so that it arrives whole and in time. Nothing here may end a training
run: an output that nobody reads any more is given up silently.
"""

from __future__ import annotations

import json
import math
import operator
import os
import sys
import time
from typing import Any, Dict, Optional

from optimus_train.environment import termination_message

_RESERVED = ("optimus", "time")
_NO_METRICS = ("optimus", "time", "step", "checkpoint")
_last: Dict[str, Any] = {}  # the last report, and the step of the last checkpoint


def report(step: int, loss: Any = None, epoch: Any = None, **metrics: Any) -> None:
    """Says that `step` steps are done, with the loss of this step or of the few before it.

    Numbers may be Python's, NumPy's or a framework's scalars. Call it from rank 0 for the loss, each few
    steps; other ranks may leave the loss away, and are then only measured for their speed.
    """
    for name in _RESERVED:
        if name in metrics:
            raise ValueError("report(%s=...): this name is the line's own; choose another one." % name)
    known = {"loss": plain(loss), "epoch": plain(epoch)}
    known.update((name, plain(value)) for name, value in metrics.items())
    known = {name: value for name, value in known.items() if value is not None}
    line = emit("report", step=operator.index(step), **known)
    checkpoint = _last.get("checkpoint")
    _last.clear()
    _last.update(line, checkpoint=checkpoint)
    _leave_message()


def total_steps(n: int) -> None:
    """Says how many steps the whole job has, if the script knows it."""
    emit("total", steps=operator.index(n))


def checkpoint_saved(step: int, path: str) -> None:
    """Says that the checkpoint of `step` is complete and safe."""
    emit("checkpoint", step=step, path=path)
    _last["checkpoint"] = step
    _leave_message()


def checkpoint_missing(confirmed: int, found: Optional[int], folder: str) -> None:
    """Says that a checkpoint that was confirmed is not where this replica looks for it."""
    _write_message(emit("checkpoint_missing", confirmed=confirmed, found=found, folder=folder))


def last_metrics() -> Dict[str, Any]:
    """The numbers of the last report."""
    return {name: value for name, value in _last.items() if name not in _NO_METRICS}


def emit(kind: str, **fields: Any) -> Dict[str, Any]:
    """Prints one line and returns what is in it."""
    line: Dict[str, Any] = {"optimus": kind, "time": round(time.time(), 6)}
    line.update(fields)
    try:
        sys.stdout.write(json.dumps(line, allow_nan=False) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):  # the reader is gone, or the script closed its output
        pass
    return line


def plain(value: Any) -> Any:
    """The value as JSON knows it; what is no number there (NaN, infinity) becomes a word."""
    if value is None or isinstance(value, (str, bool)):
        return value
    try:
        return operator.index(value)
    except TypeError:
        pass
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)[:200]
    return number if math.isfinite(number) else str(number)


def _leave_message() -> None:
    """Writes the last step and loss where they can be read after this replica has ended.

    At each report, since a replica that is killed gets no chance to do it later. The file is often a mount
    of its own, which can be overwritten but not replaced.
    """
    known = {name: _last.get(name) for name in ("time", "step", "loss", "checkpoint")}
    _write_message(dict(known, optimus="last"))


def _write_message(fields: Dict[str, Any]) -> None:
    path = termination_message()
    if path is None:
        return
    data = json.dumps(fields, sort_keys=True).encode()
    try:
        handle = os.open(str(path), os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(handle, data, 0)
            os.ftruncate(handle, len(data))
        finally:
            os.close(handle)
    except OSError:
        pass
