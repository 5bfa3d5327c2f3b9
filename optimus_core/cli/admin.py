"""Commands for who runs Optimus: doctor and the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from optimus_core import __version__
from optimus_core.checks import number
from optimus_core.cli.shared import Json, engine, err, errors_shown, out, said, show, table
from optimus_core.engine.engine import Engine
from optimus_core.errors import OptimusError
from optimus_core.resources import total
from optimus_core.settings import Settings, hide_password
from optimus_core.store import is_unreachable, migrate
from optimus_core.store.database import open_database

db = typer.Typer(help="The store: bring it up to date, check it, clean it.", no_args_is_help=True)


@db.command()
def upgrade(as_json: Json = False) -> None:
    """Bring the tables to the version of this release; does nothing where they are."""
    with errors_shown():
        database = open_database(Settings.load().database_url)
        migrate.upgrade(database)
        migrate.check(database)
    show(as_json, {"version": migrate.current(database)}, lambda: out.print(f"at version {migrate.current(database)}"))


@db.command()
def check(as_json: Json = False) -> None:
    """Say whether the tables have the version of this release; exit 1 if not."""
    with errors_shown():
        migrate.check(open_database(Settings.load().database_url))
    show(as_json, {"version": migrate.newest(), "ok": True}, lambda: out.print("the store is up to date"))


@db.command()
def clean(
    days: Annotated[float, typer.Option(help="Delete jobs that ended more than so many days ago.")] = 30,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Delete old ended jobs with their history and their checkpoints."""
    with errors_shown():
        number(days, "--days", least=0, most=10_000, example=30)
        eng = engine()
        question = f"Delete jobs that ended more than {days:g} days ago, their checkpoints too?"
        if not yes and not typer.confirm(question, err=True):
            raise typer.Exit(1)
        count = eng.delete_ended(days)
    show(as_json, {"deleted": count}, lambda: out.print(f"deleted {count} jobs"))


def doctor(as_json: Json = False) -> None:
    """Say what is set up and what is not; exit 1 if something keeps jobs from running."""
    checks: list[dict[str, Any]] = []
    settings = _try(checks, "settings", Settings.load, lambda s: f"home {s.home}")
    eng = None
    if settings is not None:
        eng = _try(checks, "store", lambda: Engine(settings), lambda _: hide_password(settings.database_url))
    if eng is not None:
        name = eng.settings.cluster
        _try(checks, f'cluster "{name}"', lambda: eng.ctx.cluster(name).nodes(), _describe_nodes)
        _try(checks, "rounds", lambda: _round_age(eng), str)
    rows = [("ok" if c["ok"] else "PROBLEM", c["check"], c["detail"]) for c in checks]
    show(as_json, {"version": __version__, "checks": checks}, lambda: out.print(table(("", "what", "detail"), rows)))
    if not all(c["ok"] for c in checks):
        if not as_json:
            err.print("something is not right")
        raise typer.Exit(1)


def _try(checks: list[dict[str, Any]], what: str, act: Callable[[], Any], describe: Callable[[Any], str]) -> Any:
    try:
        found = act()
    except Exception as error:
        if not (isinstance(error, OptimusError | OSError) or is_unreachable(error)):
            raise
        checks.append({"check": what, "ok": False, "detail": said(error)})
        return None
    checks.append({"check": what, "ok": True, "detail": describe(found)})
    return found


def _describe_nodes(nodes: list[Any]) -> str:
    ready = [node for node in nodes if node.ready]
    offered = total(node.allocatable - node.others for node in ready)
    return f"{len(ready)} of {len(nodes)} nodes ready, {offered.describe()} for jobs"


def _round_age(eng: Engine) -> str:
    """Say when the last round was, and raise if one is due and has not come."""
    with eng.store.transaction() as tx:
        row = tx.peek_cluster(eng.settings.cluster)
        now, live = tx.now, bool(tx.jobs(states=("queued", "running", "paused", "stopping"), limit=1))
    if row is None or row.planned_at is None:
        return "no round yet: no job has been submitted"
    age = (now - row.planned_at).total_seconds()
    if live and age > 2 * eng.settings.interval_seconds:
        raise OptimusError(
            f"jobs are live but the last round was {age / 60:.0f} min ago; it is due every "
            f"{eng.settings.interval_seconds / 60:.0f} min. Is the DAG optimus_rebalance paused, or its scheduler down?"
        )
    return f"the last one was {age:.0f} s ago"
