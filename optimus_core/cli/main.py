"""The command ``optimus``."""

from __future__ import annotations

from typing import Annotated

import typer

from optimus_core import __version__
from optimus_core.cli import act, admin, assign, files, run, show, simulate
from optimus_core.cli.shared import print_any_text

app = typer.Typer(
    help="Sizes, resizes and explains distributed training jobs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    run.run, show.jobs, show.job, show.logs, show.plan,
    act.rebalance, act.stop, act.pin, act.unpin, files.parse, files.fit, assign.assign,
    simulate.simulate, simulate.what_if, admin.doctor,
):  # fmt: skip
    app.command()(command)
app.add_typer(admin.db, name="db")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"optimus {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Sizes, resizes and explains distributed training jobs."""
    print_any_text()
