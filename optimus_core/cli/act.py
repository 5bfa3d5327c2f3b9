"""Commands that change something: rebalance, stop, pin, unpin. Each is kept in the audit table with its user."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from optimus_core.cli.shared import ClusterName, Json, engine, errors_shown, out, show, user
from optimus_core.cli.show import Name
from optimus_core.engine.engine import Engine
from optimus_core.engine.report import JobReport

_LONGEST = 300.0
"""Seconds for which a job that nobody drives is driven to its end."""


def rebalance(cluster: ClusterName = "", as_json: Json = False) -> None:
    """Plan now, without waiting for the next round, and take a step with each job that nobody drives any more."""
    with errors_shown():
        made = engine()
        report = made.round(cluster)
        made.upkeep(cluster)
    changes = [vars(change) for change in report.changes] if report is not None else []
    data = {"planned": report is not None, "changes": changes}
    text = f"{len(changes)} jobs change" if report is not None else "somebody else is planning just now"
    show(as_json, data, lambda: out.print(text))


def stop(name: Name, as_json: Json = False) -> None:
    """Stop a job: it may save its work, then nothing of it is left."""
    with errors_shown():
        made = engine()
        report = made.stop(name, user())
        if made.is_forsaken(report.id):
            report = _driven(made, report.id)
    _show(report, as_json)


def _driven(made: Engine, job_id: int) -> JobReport:
    """Drive a job to its end in the place of a driver that has died."""
    end = time.monotonic() + _LONGEST
    while not (step := made.step(job_id)).final and time.monotonic() < end:
        time.sleep(min(step.look_again, 1.0))
    return made.job_by_id(job_id)


def pin(
    name: Name,
    workers: Annotated[int, typer.Option(help="Workers that the job shall have.")],
    servers: Annotated[int | None, typer.Option(help="Parameter servers; by default the job's minimum.")] = None,
    as_json: Json = False,
) -> None:
    """Give a job a fixed size until it is unpinned."""
    with errors_shown():
        report = engine().pin(name, user(), workers=workers, servers=servers)
    _show(report, as_json)


def unpin(name: Name, as_json: Json = False) -> None:
    """Let Optimus size a job again."""
    with errors_shown():
        report = engine().unpin(name, user())
    _show(report, as_json)


def _show(report: JobReport, as_json: bool) -> None:
    text = f"{report.title}: {report.phase}. {report.reason}"
    show(as_json, report.to_dict(), lambda: out.print(text))
