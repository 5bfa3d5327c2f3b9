"""Commands on files: parse (what would be read of an output) and fit (what a loss curve predicts)."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from optimus_core import checks
from optimus_core.cli.shared import Json, errors_shown, number, out, show, table
from optimus_core.counted import counted
from optimus_core.errors import SpecificationError
from optimus_core.models import ConvergenceModel, Estimate
from optimus_core.telemetry import ParseResult, StepCounter, parse_file
from optimus_core.telemetry.grammar import is_loss

_LARGEST_STEP = 1e15
_LARGEST_LOSS = 1e100
"""What a fit can square and still print."""


def parse(
    file: Annotated[Path, typer.Argument(help="An output of a training script.")],
    metrics: Annotated[str | None, typer.Option(help="A regular expression with named groups, as in a job.")] = None,
    as_json: Json = False,
) -> None:
    """Show what Optimus would read of an output."""
    with errors_shown():
        result = _parsed(file, metrics)
    show(as_json, result.to_dict(), lambda: _print_parsed(result))


def _parsed(file: Path, metrics: str | None = None) -> ParseResult:
    try:
        return parse_file(file, metrics)
    except OSError as error:
        raise SpecificationError(f"{file} can't be read: {error.strerror}") from error


def _print_parsed(result: ParseResult) -> None:
    rows = [(p.line, p.name, number(p.value, 6), p.step, p.epoch) for p in result.points]
    out.print(table(("line", "metric", "value", "step", "epoch"), rows))
    for event in result.events:
        out.print(f"line {event.line}: {event.kind.value} {event.message}")
    counts = (len(result.points), "point"), (len(result.events), "event"), (result.unread, "line")
    out.print(", ".join(counted(*each) for each in counts) + " told nothing")


def fit(
    file: Annotated[
        Path, typer.Argument(help="CSV with columns step and loss, JSON [[step, loss], ...], or an output.")
    ],
    below: Annotated[float | None, typer.Option(help="Predict when the loss falls below this.")] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw points and curve in the terminal.")] = False,
    as_json: Json = False,
) -> None:
    """Fit the convergence model to a loss curve and say what it predicts."""
    with errors_shown():
        if below is not None:
            checks.number(below, "--below", most=_LARGEST_LOSS, example=0.1)
        steps, losses = _read_curve(file)
        try:
            model = ConvergenceModel().fit(steps, losses)
        except ValueError as error:
            raise SpecificationError(f"{file}: {error}") from error
    data = _fit_dict(model, below)
    show(as_json, data, lambda: _print_fit(data))
    if plot and not as_json:
        _plot(model, steps, losses)


def _read_curve(file: Path) -> tuple[list[float], list[float]]:
    """Read (steps, losses) of any of the three forms."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SpecificationError(f"{file} can't be read: {error.strerror}") from error
    pairs = _from_csv(text) or _from_json(text) or _from_output(file)
    if not pairs:
        raise SpecificationError(f'{file} has no loss. Write a CSV with the columns "step,loss", or give an output.')
    for step, loss in pairs:
        if abs(step) > _LARGEST_STEP or abs(loss) > _LARGEST_LOSS:
            raise SpecificationError(
                f"{file} has the loss {loss:g} at step {step:g}; a step is at most {_LARGEST_STEP:g}, a loss at most "
                f"{_LARGEST_LOSS:g}. Leave that point out."
            )
    return [step for step, _ in pairs], [loss for _, loss in pairs]


def _from_csv(text: str) -> list[tuple[float, float]]:
    rows = csv.DictReader(text.splitlines())
    try:
        if not {"step", "loss"} <= set(rows.fieldnames or ()):
            return []
        return [(float(row["step"]), float(row["loss"])) for row in rows]
    except (TypeError, ValueError, csv.Error):
        return []


def _from_json(text: str) -> list[tuple[float, float]]:
    try:
        return [(float(step), float(loss)) for step, loss in json.loads(text)]
    except (TypeError, ValueError, OverflowError, RecursionError):
        return []


def _from_output(file: Path) -> list[tuple[float, float]]:
    counter = StepCounter()
    points = [(counter.global_step(p), p) for p in _parsed(file).points if is_loss(p.name)]
    return [(float(step), p.value) for step, p in points if step is not None]


def _fit_dict(model: ConvergenceModel, below: float | None) -> dict[str, Any]:
    b0, b1, b2 = model.coefficients_
    end = 2 * model.last_step_
    low, high = model.predict_interval([end])
    data: dict[str, Any] = {
        "curve": {"b0": b0, "b1": b1, "b2": b2, "scale": model.scale_, "form": "scale * (1 / (b0*step + b1) + b2)"},
        "noise": model.noise_,
        "last_step": model.last_step_,
        "floor": model.scale_ * b2,
        "at_twice_the_steps": {
            "step": end,
            "loss": float(model.predict([end])[0]),
            "low": float(low[0]),
            "high": float(high[0]),
        },
    }
    if below is not None:
        reached = model.step_of_loss(below)
        data["below"] = {"loss": below, "known": reached.is_known, **_estimate(reached)}
    return data


def _estimate(end: Estimate) -> dict[str, float | None]:
    values = {"step": end.value, "low": end.low, "high": end.high}
    return {name: value if value is not None and np.isfinite(value) else None for name, value in values.items()}


def _print_fit(data: dict[str, Any]) -> None:
    ahead = data["at_twice_the_steps"]
    out.print(f"loss = {data['curve']['form']}")
    out.print(table(("b0", "b1", "b2", "scale"), [[number(data["curve"][k]) for k in ("b0", "b1", "b2", "scale")]]))
    out.print(
        f"floor {data['floor']:.4g}; at step {ahead['step']:.0f} predicted {ahead['loss']:.4g} "
        f"(80 %: {ahead['low']:.4g} to {ahead['high']:.4g})"
    )
    if "below" in data:
        end = data["below"]
        never = "never, as far as the curve tells" if end["known"] else "can't be known yet"
        said = f"at step {end['step']:.0f}" if end["step"] is not None else never
        out.print(f"below {end['loss']:g}: {said}")


def _plot(model: ConvergenceModel, steps: list[float], losses: list[float]) -> None:
    import plotext

    grid = np.linspace(min(steps), 2 * max(steps), 200)
    figure = plotext.figure
    figure.clear()
    seen, curve = figure.signal(steps, losses), figure.signal(grid.tolist(), model.predict(grid).tolist())
    seen.label("seen")
    curve.lines().label("fit")
    figure.draw(seen)
    figure.draw(curve)
    figure.title("loss by step")
    figure.plot_size(100, 25)
    picture = str(figure.build())
    typer.echo(picture if out.is_terminal else plotext.uncolorize(picture))
