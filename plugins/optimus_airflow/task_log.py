"""What the replicas of a job write goes to the log of its task, while they write it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimus_core.engine.engine import Engine
    from optimus_core.engine.untold import Untold

MOST_LINES = 200
"""Lines that are written at once; of more the newest."""
LINES_A_SECOND = 2.0
"""Lines that are written in the long run."""
_SECONDS = 5.0
"""Between two looks, so that a job that writes all the time costs a transaction now and then only."""


class TaskLog:
    """Writes new output of a job's replicas to a log, each line once, not more than people can read.

    Args:
        log: where to.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._room, self._last = float(MOST_LINES), time.monotonic() - _SECONDS

    def tell(self, engine: Engine, job_id: int, *, last: bool = False) -> None:
        """Write what is new; without it the job goes on all the same.

        Args:
            engine: knows the job.
            job_id: the job's id in the store.
            last: the job has ended: look now.
        """
        seconds = time.monotonic() - self._last
        if seconds < _SECONDS and not last:
            return
        self._last += seconds
        self._room = min(self._room + seconds * LINES_A_SECOND, float(MOST_LINES))
        try:
            lines = shown(engine.untold(job_id), MOST_LINES if last else int(self._room))
        except Exception:  # noqa: BLE001 - the store is busy, say: it comes with the next look
            self._log.log(logging.WARNING if last else logging.DEBUG, "Output can't be read", exc_info=True)
            return
        self._room -= len(lines)
        for line in lines:
            self._log.info("%s", line)


def shown(outputs: Sequence[Untold], most: int) -> list[str]:
    """Return the newest lines of each replica after its name, and how many came before: ``most`` or one a replica."""
    each, lines = most // max(1, len(outputs)), []
    for output in outputs:
        fresh = output.lines
        if len(fresh) > each or output.cut:
            fresh = fresh[len(fresh) - max(0, min(each - 1, len(fresh))) :]
            count = "many" if output.cut else len(output.lines) - len(fresh)
            lines.append(f"[{output.replica}] ... {count} lines left out: `optimus logs` and the page show the last")
        lines += [f"[{output.replica}] {line}" for line in fresh]
    return lines
