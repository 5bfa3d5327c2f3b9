"""What all commands share: the engine, the two ways to print, and how errors end a command."""

from __future__ import annotations

import getpass
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy.exc import InterfaceError, OperationalError

from optimus_core.checks import passable
from optimus_core.engine.engine import Engine
from optimus_core.errors import OptimusError
from optimus_core.settings import Settings
from optimus_core.store import is_unreachable

_PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False, "soft_wrap": True}
"""Names and outputs of jobs are printed as they are, whatever they look like."""
out = Console(**_PLAIN)
err = Console(stderr=True, **_PLAIN)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
ClusterName = Annotated[str, typer.Option("--cluster", help="A cluster of clusters.yaml; by default the configured.")]


def engine() -> Engine:
    """Return the engine of the configured store."""
    return Engine(Settings.load())


def user() -> str:
    """Return who gives the command, for the audit table."""
    try:
        return passable(getpass.getuser())[:250]
    except (KeyError, OSError):
        return "unknown"


def print_any_text() -> None:
    """Let stdout write what its encoding has not, such as half a character in an output, as an escape."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def errors_shown() -> Iterator[None]:
    """Print an error of ours, or a store that can't be reached, as one sentence and exit 1.

    Anything else is a bug and keeps its traceback.
    """
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OptimusError) or is_unreachable(error)):
            raise
        err.print(Text(f"Error: {said(error)}", style="red"))
        raise typer.Exit(1) from error


def said(error: Exception) -> str:
    """Return an error as one sentence; of one of the database without its SQL."""
    if not is_unreachable(error):
        return str(error)
    lines = str(getattr(error, "orig", error)).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    if isinstance(error, OperationalError | InterfaceError):
        return f"the store can't be reached: {reason}"
    return f"the store can't be read: {reason}. Restore a backup, or set [optimus] database_url to another database."


def print_json(data: Any) -> None:
    """Print plain data as JSON."""
    everything = str(out.encoding).lower().startswith("utf")
    typer.echo(json.dumps(data, indent=2, ensure_ascii=not everything, default=str))


def show(as_json: bool, data: Any, human: Callable[[], None]) -> None:
    """Print ``data`` as JSON or call ``human`` to print it for people."""
    if as_json:
        print_json(data)
    else:
        human()


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table in which no text of a job is read as markup."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text("-" if cell is None else str(cell)) for cell in row))
    return made


def number(value: float | None, digits: int = 4) -> str | None:
    """Return a number with few digits."""
    return None if value is None else f"{value:.{digits}g}"
