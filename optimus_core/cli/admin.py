"""Commands for who runs Optimus: doctor and the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from optimus_core import __version__
from optimus_core.checks import number
from optimus_core.cli.shared import Json, engine, err, errors_shown, out, said, show, table
from optimus_core.cluster.base import NodeInfo
from optimus_core.counted import counted
from optimus_core.declarations import load_clusters
from optimus_core.engine.engine import Engine
from optimus_core.engine.snapshot import pool_view
from optimus_core.errors import OptimusError
from optimus_core.resources import Resources, total
from optimus_core.settings import Settings, hide_password
from optimus_core.store import Store, is_unreachable, migrate
from optimus_core.store.database import open_database

Finding = dict[str, Any]
"""``check``, ``ok``, ``level`` ("ok", "warning", "problem") and ``detail``; a warning keeps no job from running."""
_SHOWN = {"ok": "ok", "warning": "warning", "problem": "PROBLEM"}

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
    show(as_json, {"deleted": count}, lambda: out.print(f"deleted {counted(count, 'job')}"))


def doctor(as_json: Json = False) -> None:
    """Say what is set up and what is not; exit 1 if something keeps jobs from running."""
    checks: list[Finding] = []
    settings = _try(checks, "settings", Settings.load, lambda s: f"home {s.home}")
    if settings is not None:
        clusters = _try(checks, "clusters", lambda: load_clusters(settings.clusters_file), ", ".join)
        store = _try(
            checks, "store", lambda: Store(settings.database_url), lambda _: hide_password(settings.database_url)
        )
        if clusters is not None and store is not None:
            _look_at_the_cluster(checks, Engine(settings))
    rows = [(_SHOWN[c["level"]], c["check"], c["detail"]) for c in checks]
    show(as_json, {"version": __version__, "checks": checks}, lambda: out.print(table(("", "what", "detail"), rows)))
    if not all(c["ok"] for c in checks):
        if not as_json:
            err.print("something is not right")
        raise typer.Exit(1)


def _look_at_the_cluster(checks: list[Finding], eng: Engine) -> None:
    name = eng.settings.cluster
    nodes = _try(checks, f'cluster "{name}"', lambda: eng.ctx.cluster(name).nodes(), _describe_nodes)
    for pool in eng.ctx.pools(name).pools if nodes else ():
        for resource, (most, own) in pool_view(pool).raised(_offered(nodes)).items():
            detail = (
                f"its ceiling, {_amount(resource, most)}, is below its guarantee, {_amount(resource, own)} of what the "
                "nodes offer now: it may have the latter. Correct one of them in clusters.yaml"
            )
            checks.append(_finding(f'pool "{pool.name}"', "warning", detail))
    _try(checks, "rounds", lambda: _round_age(eng), str)


def _amount(resource: str, amount: int) -> str:
    return Resources({resource: amount}).describe() if amount else f"no {resource}"


def _finding(check: str, level: str, detail: str) -> Finding:
    return {"check": check, "ok": level != "problem", "level": level, "detail": detail}


def _try(checks: list[Finding], what: str, act: Callable[[], Any], describe: Callable[[Any], str]) -> Any:
    try:
        found = act()
    except Exception as error:
        if not (isinstance(error, OptimusError | OSError) or is_unreachable(error)):
            raise
        checks.append(_finding(what, "problem", said(error)))
        return None
    checks.append(_finding(what, "ok", describe(found)))
    return found


def _describe_nodes(nodes: list[NodeInfo]) -> str:
    ready = sum(node.ready for node in nodes)
    return f"{ready} of {counted(len(nodes), 'node')} ready, {_offered(nodes).describe()} for jobs"


def _offered(nodes: list[NodeInfo]) -> Resources:
    return total((node.allocatable - node.others).clamped() for node in nodes if node.ready)


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
