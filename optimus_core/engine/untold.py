"""Output on its way to the log of the task that waits for a job: each line is handed out once."""

from __future__ import annotations

from dataclasses import dataclass

from optimus_core.engine.context import Context
from optimus_core.store import OutputRow


@dataclass(frozen=True)
class Untold:
    """What one replica has written and nobody was told of."""

    replica: str
    lines: tuple[str, ...]
    cut: bool
    """Lines before these were written too, more than are kept."""


def untold(ctx: Context, job_id: int) -> list[Untold]:
    """Return what the job's replicas have written since the last call, by whoever, oldest generation first.

    Who dies before he writes it down loses it for the task's log; the store keeps its end.

    Raises:
        One of ``CONFLICTS``: somebody reads or takes it just now; ask again.
    """
    with ctx.store.transaction() as tx:
        return [_take(row) for row in tx.untold(job_id)]


def _take(row: OutputRow) -> Untold:
    fresh, row.told = row.written - row.told, row.written
    text, cut = row.tail[-fresh:], fresh > len(row.tail)
    if cut:
        text = text.partition("\n")[2]  # the first line is the rest of one
    return Untold(row.replica, tuple(text.splitlines()), cut)
