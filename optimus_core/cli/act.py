"""Commands that change something: rebalance, stop, pin, unpin. Each is kept in the audit table with its user."""

from __future__ import annotations

from typing import Annotated

import typer

from optimus_core.cli.shared import ClusterName, Json, engine, errors_shown, out, show, user
from optimus_core.cli.show import Name
from optimus_core.counted import counted
from optimus_core.engine.drive import drive_to_end
from optimus_core.engine.report import JobReport


def rebalance(cluster: ClusterName = "", as_json: Json = False) -> None:
    """Plan now, without waiting for the next round, and take a step with each job that nobody drives any more."""
    with errors_shown():
        made = engine()
        report = made.round(cluster)
        made.upkeep(cluster)
    changes = [vars(change) for change in report.changes] if report is not None else []
    data = {"planned": report is not None, "changes": changes}
    text = (
        f"{counted(len(changes), 'job')} {'changes' if len(changes) == 1 else 'change'}"
        if report is not None
        else "somebody else is planning just now"
    )
    show(as_json, data, lambda: out.print(text))


def stop(name: Name, as_json: Json = False) -> None:
    """Stop a job: it may save its work, then nothing of it is left."""
    with errors_shown():
        made = engine()
        report = made.stop(name, user())
        if made.is_forsaken(report.id):
            drive_to_end(made, report.id)
            report = made.job_by_id(report.id)
    _show(report, as_json)


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
