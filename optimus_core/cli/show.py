"""Commands that only look: jobs, job, logs, plan."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from optimus_core.cli.shared import ClusterName, Json, engine, errors_shown, number, out, print_json, show, table
from optimus_core.counted import size_text
from optimus_core.engine.engine import Engine
from optimus_core.engine.report import JobReport
from optimus_core.errors import SpecificationError
from optimus_core.reasons import duration, render
from optimus_core.resources import Resources
from optimus_core.scheduling.plan import plan as make_plan
from optimus_core.scheduling.types import Decision, Plan, PoolUse, Size, Snapshot

_COLUMNS = ("job", "state", "servers", "workers", "step", "loss", "done in", "why")
Name = Annotated[str, typer.Argument(help="A job's title, name or id, as `optimus jobs` shows it.")]


def jobs(
    live: Annotated[bool, typer.Option("--live", help="Only jobs that have not ended.")] = False, as_json: Json = False
) -> None:
    """List the jobs with their sizes, progress and reasons."""
    with errors_shown():
        reports = engine().jobs(live=live)
    rows = [_row(report) for report in reports]
    show(as_json, [r.to_dict() for r in reports], lambda: out.print(table(_COLUMNS, rows) if rows else "no jobs yet"))


def _row(r: JobReport) -> tuple[object, ...]:
    left = duration(r.predicted_seconds) if r.predicted_seconds is not None else None
    return (r.title, r.phase, r.servers, r.workers, r.step, number(r.loss), left, r.reason)


def job(name: Name, as_json: Json = False) -> None:
    """Show one job: how it stands, its generations and its history."""
    with errors_shown():
        eng = engine()
        report = eng.job(name)
        details = eng.history(report.id)
    show(as_json, report.to_dict() | details, lambda: _print_job(report, details))


_SAID_ALREADY = ("job", "state", "attempt", "steps", "sizes", "checkpoint_step", "cause")
"""What of a result the report or the generations say as well."""


def _print_job(report: JobReport, details: dict[str, Any]) -> None:
    result = {key: value for key, value in (report.result or {}).items() if key not in _SAID_ALREADY}
    known = report.to_dict() | {"pinned": report.pinned and size_text(**report.pinned), "result": None} | result
    facts = [(key.replace("_", " "), _fact(key, value)) for key, value in known.items() if value not in (None, "")]
    out.print(table(("", ""), facts))
    sizes = [
        (g["number"], g["state"], g["servers"], g["workers"], _moment(g["wanted_at"]), g["why"])
        for g in details["generations"]
    ]
    out.print("\ngenerations", style="bold")
    out.print(table(("number", "state", "servers", "workers", "wanted at (UTC)", "why"), sizes))
    out.print("\nhistory", style="bold")
    events = [(_moment(e["time"]), e["generation"], e["kind"], e["text"]) for e in details["events"]]
    out.print(table(("time (UTC)", "generation", "event", ""), events))


def _fact(key: str, value: Any) -> object:
    """Return a value for people: times and durations with their units, numbers with few digits."""
    if key.endswith("_at") or key == "deadline":
        return _moment(value)
    if key.endswith("_seconds"):
        return duration(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else number(value)
    return value


def _moment(time: str | None) -> str | None:
    """Return an ISO time, which is UTC, to the second."""
    return None if time is None else f"{time[:10]} {time[11:19]}"


def logs(
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    as_json: Json = False,
) -> None:
    """Print the last output of a job's replicas."""
    with errors_shown():
        eng = engine()
        report = eng.job(name)
        if as_json:
            print_json(eng.outputs(report.id))
            return
        _print_logs(eng, report, follow)


def _print_logs(eng: Engine, report: JobReport, follow: bool) -> None:
    printed: dict[str, str] = {}
    while True:
        ended = eng.job_by_id(report.id).final
        for output in eng.outputs(report.id):
            key, text = f"{output['replica']}/{output['uid']}", output["tail"]
            fresh = _after(printed.get(key, ""), text)
            printed[key] = text
            for line in fresh.splitlines():
                out.print(f"{output['replica']}: {line}")
        if not follow or ended:
            return
        time.sleep(eng.settings.poll_seconds)


def _after(known: str, text: str) -> str:
    """Return what came since ``known``, of which the begin may have been cut off meanwhile."""
    if text.startswith(known):
        return text[len(known) :]
    mark = known[-200:]
    at = text.rfind(mark)
    return text[at + len(mark) :] if at >= 0 else text


def plan(
    snapshot: Annotated[Path | None, typer.Option(help="Plan a saved snapshot instead of the cluster.")] = None,
    save_snapshot: Annotated[Path | None, typer.Option(help="Write the whole input of this plan to a file.")] = None,
    cluster: ClusterName = "",
    as_json: Json = False,
) -> None:
    """Show what the next round would do and why; changes nothing."""
    with errors_shown():
        seen, decided = _plan(snapshot, cluster)
        if save_snapshot is not None:
            _save(seen, save_snapshot)
    show(as_json, _plan_dict(decided), lambda: _print_plan(decided))


def _print_plan(decided: Plan) -> None:
    rows = [_plan_row(d) for d in decided.decisions]
    out.print(table(_PLAN_COLUMNS, rows) if rows else "no jobs to plan")
    if decided.pools:
        out.print(table(_POOL_COLUMNS, [_pool_row(pool) for pool in decided.pools]))


def _pool_row(pool: PoolUse) -> tuple[object, ...]:
    amounts = (pool.guaranteed, pool.ceiling, pool.held, pool.borrowed)
    return (pool.name, *(Resources(each).describe() if each else None for each in amounts), pool.jobs, pool.waiting)


def _plan(path: Path | None, cluster: str) -> tuple[Snapshot, Plan]:
    if path is None:
        return engine().peek(cluster)
    seen = read_snapshot(path)
    return seen, make_plan(seen)


def read_snapshot(path: Path) -> Snapshot:
    """Return a snapshot that ``optimus plan --save-snapshot`` wrote.

    Raises:
        SpecificationError: it can't be read, or is none.
    """
    try:
        return Snapshot.from_json(path.read_bytes())
    except OSError as error:
        raise SpecificationError(
            f"--snapshot {path} can't be read: {error.strerror}. Give a file that --save-snapshot wrote."
        ) from error
    except SpecificationError as error:
        raise SpecificationError(f"--snapshot {path}: {error}") from error


def _save(seen: Snapshot, path: Path) -> None:
    try:
        path.write_text(seen.to_json(indent=1), encoding="utf-8")
    except OSError as error:
        raise SpecificationError(
            f"--save-snapshot {path} can't be written: {error.strerror}. Give a file in a folder that is there."
        ) from error


_POOL_COLUMNS = ("pool", "guaranteed", "at most", "holds", "borrows", "jobs", "waiting")
_PLAN_COLUMNS = ("job", "now", "wanted", "left", "one more worker saves", "one more server saves", "why")


def _plan_row(d: Decision) -> tuple[object, ...]:
    saved = [
        duration(x) if x is not None else None for x in (d.seconds_saved_by_one_worker, d.seconds_saved_by_one_server)
    ]
    why = d.waits_for or d.reason
    return (d.job, _size(d.present), _size(d.size), number(d.remaining.value), *saved, render(why.code, why.numbers))


def _size(size: Size) -> str:
    return f"{size.servers}+{size.workers}"


def _plan_dict(decided: Plan) -> dict[str, Any]:
    """Return the plan with each job's numbers by the names that the documentation uses."""
    data = decided.to_dict()
    for decision in data["decisions"]:
        why = decision["waits_for"] or decision["reason"]
        decision["text"] = render(why["code"], why["numbers"])
    return data
