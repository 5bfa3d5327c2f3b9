"""What one sees while the jobs run: a live table in a terminal, a line a change elsewhere."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from optimus_core.engine.report import JobReport
from optimus_core.reasons import duration

_COLUMNS = ("job", "state", "servers", "workers", "step", "loss", "done in", "why")
_WORDS = {"blocked": "waits to start"}
"""A phase in other words, for those who have just met it."""
_QUIET_SECONDS = 15
"""Elsewhere than in a terminal each job gets a line at least this often."""


class View:
    """Shows the jobs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._said: dict[int, tuple[tuple[Any, ...], float]] = {}
        self._began = time.monotonic()

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, reports: list[JobReport]) -> None:
        """Show how the jobs stand."""
        if self._live is not None:
            self._live.update(_table(reports))
            return
        for report in reports:
            self._say(report)

    def _say(self, report: JobReport) -> None:
        state = (report.phase, report.servers, report.workers)
        known, at = self._said.get(report.id, ((), 0.0))
        now = time.monotonic()
        if state == known and (report.final or now - at < _QUIET_SECONDS):
            return
        self._said[report.id] = (state, now)
        job, *cells = _cells(report)
        words = ", ".join(f"{name} {cell}" for name, cell in zip(_COLUMNS[2:7], cells[1:6], strict=True) if cell)
        self._console.print(
            f"{now - self._began:6.0f} s  {job}: {_phase(report)}; {words}. {report.reason}", markup=False
        )


def _table(reports: list[JobReport]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column)
    for report in reports:
        table.add_row(*(Text(cell) for cell in _cells(report)))
    return table


def _phase(report: JobReport) -> str:
    return _WORDS.get(report.phase, report.phase)


def _cells(report: JobReport) -> tuple[str, ...]:
    return (
        report.title.partition(".")[2] or report.title,
        _phase(report),
        str(report.servers),
        str(report.workers),
        "" if report.step is None else str(report.step),
        "" if report.loss is None else f"{report.loss:.4g}",
        "" if report.predicted_seconds is None else duration(report.predicted_seconds),
        report.reason,
    )
