"""The command assign: which parameter server holds which parameters."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Annotated

import typer

from optimus_core import checks
from optimus_core.cli.shared import Json, errors_shown, out, show, table
from optimus_core.counted import counted
from optimus_core.errors import SpecificationError
from optimus_core.scheduling.parameter_assignment import DEFAULTS, Assignment, Block, most_servers, paa
from optimus_core.scheduling.parameter_assignment import assign as assign_blocks


def assign(
    blocks: Annotated[
        Path, typer.Argument(help='CSV with the columns name and size (a number, or a shape such as "64x3x7x7").')
    ],
    servers: Annotated[int, typer.Option(help="Parameter servers.")],
    as_json: Json = False,
) -> None:
    """Cut a model's parameters evenly over parameter servers, beside what MXNet and TensorFlow do."""
    with errors_shown():
        model = read_blocks(blocks)
        best = assign_blocks(model, checks.whole(servers, "--servers", 1, most=10_000))
        others = [method(model, servers) for method in (paa, *DEFAULTS)]
    data = {
        "chosen": best.to_dict(),
        "compared": {each.method: _figures(each) for each in others},
        "most_servers": most_servers(model),
    }
    show(as_json, data, lambda: _print(best, others, len(model)))


def _figures(each: Assignment) -> dict[str, int]:
    return {"spread": each.spread, "requests": sum(each.requests), "request_spread": each.request_spread}


def read_blocks(file: Path) -> list[Block]:
    """Read the blocks of a CSV; the optional column ``key`` has MXNet's keys.

    Raises:
        SpecificationError: the file can't be read, lacks a column, or a size is no number and no shape.
    """
    try:
        rows = csv.DictReader(file.read_text(encoding="utf-8", errors="replace").splitlines())
        if not {"name", "size"} <= set(rows.fieldnames or ()):
            raise SpecificationError(f'{file} lacks a column. Write "name,size" in its first line.')
        return [_block(row, f"{file}, line {rows.line_num}") for row in rows]
    except OSError as error:
        raise SpecificationError(f"{file} can't be read: {error.strerror}") from error
    except csv.Error as error:
        raise SpecificationError(f"{file} is no CSV: {error}. Correct it.") from error


def _block(row: dict[str, str | None], where: str) -> Block:
    key = row.get("key")
    try:
        sides = [int(side) for side in (row["size"] or "").split("x")]
        if min(sides) < 1:
            raise ValueError
        return Block(row["name"] or "", math.prod(sides), int(key) if key else None)
    except ValueError as error:
        given = checks.shown(row["size"]) + (f" and the key {checks.shown(key)}" if key else "")
        raise SpecificationError(
            f"{where}: the size is {given}; a size is a whole number of at least 1 or a shape, a key a whole number. "
            'Write such as 4096 or "64x3x7x7".'
        ) from error


def _print(best: Assignment, others: list[Assignment], blocks: int) -> None:
    rows = [
        (place, f"{load:,}", count) for place, (load, count) in enumerate(zip(best.loads, best.requests, strict=True))
    ]
    out.print(table(("server", "parameters", "requests"), rows))
    for each in others:
        mark = " (chosen)" if each.method == best.method else ""
        figures = (
            f"spread {each.spread:,}, {counted(sum(each.requests), 'request')}, request spread {each.request_spread}"
        )
        out.print(f"{each.method}: {figures}{mark}")
    if len(best.servers) > blocks:
        out.print(f"The model has {counted(blocks, 'block')}: more servers than that are of no use to it.")
