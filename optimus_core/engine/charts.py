"""What a job's view draws, reckoned by the same fitted models that the rounds plan with: bounded plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np

from optimus_core.choices import Converged, Loss, Steps
from optimus_core.engine.collect import loss_series, steps_per_epoch
from optimus_core.engine.downsample import downsample
from optimus_core.engine.estimate import predicted_end
from optimus_core.engine.launch import job_of
from optimus_core.engine.left import seconds_left
from optimus_core.engine.stopping import epoch_length
from optimus_core.errors import OptimusError
from optimus_core.job import TrainingJob
from optimus_core.models import ConvergenceModel, Estimate, SpeedModel
from optimus_core.store import GenerationRow, JobRow, SeriesRow, Transaction
from optimus_core.telemetry.series import BoundedSeries
from optimus_core.workload import prior_of

_POINTS = 80
"""Steps at which a fitted curve is drawn."""
_AHEAD = 4.0
"""A curve is drawn to so many times the steps seen at most: farther, the past would be a dot."""
_MOST_SIDE = 16
"""Rows and columns of the map of speeds; a wider range is thinned evenly, its ends kept."""
_MOST_RUNS = 5
_MOST_PREDICTIONS = 120
_BAD = (ValueError, TypeError, LookupError, ArithmeticError)
"""What a row of another version may raise: its chart is left out, the rest is shown."""


def note_prediction(
    known: Sequence[Sequence[float | None]], now: datetime, seconds: float | None, remaining: Estimate
) -> list[Sequence[float | None]]:
    """Return what was predicted so far and now: rows (when, seconds left, low, high), times since the epoch.

    The same prediction once more is left out: nothing was learned since. Never more than 120 rows: the older ones are
    thinned by half whenever there are more.
    """
    if seconds is None:
        return list(known)
    row = [now.timestamp(), *finish(seconds, remaining)]
    if known and [*known[-1]][1:] == row[1:]:
        return list(known)
    rows = [*known, row]
    return rows if len(rows) <= _MOST_PREDICTIONS else [*rows[:-1:2], rows[-1]]


def finish(seconds: float, remaining: Estimate) -> tuple[float, float | None, float | None]:
    """Return (seconds, low, high) until the end: the interval of the work that is left, at the speed of now."""
    if not remaining.value:
        return seconds, None, None
    low, high = (each / remaining.value * seconds if each is not None else None for each in remaining[1:])
    return seconds, low, high


def of_job(tx: Transaction, row: JobRow) -> dict[str, Any]:
    """Return a job's charts; what is not known yet is None or empty."""
    known, loss = row.estimate or {}, loss_series(tx, row.id)
    try:
        job = job_of(row)
    except (OptimusError, *_BAD):
        known, job = {}, None
    per_epoch = _or_none(_steps_per_epoch, job, loss)
    return {
        "loss": loss.name if loss is not None else None,
        "curve": _or_none(_curve, job, row, known.get("curve"), per_epoch),
        "earlier": _or_none(_earlier, tx, row) or [],
        "speed": _or_none(_speed_map, job, known.get("speed")),
        "predictions": [[*each] for each in known.get("predictions") or []],
        "finish": _or_none(_finish, row),
        "replica_hours": replica_hours(row, tx.generations(row.id)),
    }


def _or_none(draw: Any, *arguments: Any) -> Any:
    try:
        return draw(*arguments)
    except _BAD:
        return None


def _steps_per_epoch(job: TrainingJob, loss: SeriesRow | None) -> float | None:
    points = BoundedSeries.from_state(loss.state).points() if loss is not None else []
    return steps_per_epoch(job) or epoch_length(points)


def _finish(row: JobRow) -> list[float | None] | None:
    seconds, left = seconds_left(row), (row.estimate or {}).get("remaining") or {}
    if seconds is None:
        return None
    return list(finish(seconds, Estimate(left.get("value"), left.get("low"), left.get("high"))))


def _curve(job: TrainingJob, row: JobRow, fitted: dict[str, Any] | None, per_epoch: float | None) -> Any:
    """Return the fit as rows (step, loss, low, high), with the end that it predicts and what ends the training."""
    if fitted is None:
        return None
    model = ConvergenceModel.from_dict(fitted)
    end = predicted_end(job, model, per_epoch) or _declared_end(job, row)
    seen = max(model.last_step_, 1.0)
    likely = end.value if end.value is not None and math.isfinite(end.value) else seen
    steps = np.linspace(seen / _POINTS, min(max(likely * 1.1, seen * 1.2), seen * _AHEAD), _POINTS)
    low, high = model.predict_interval(steps, points=True)
    rows = np.column_stack([steps, model.predict(steps), low, high])
    return {
        "rows": rows[np.isfinite(rows).all(axis=1)].tolist(),
        "end": [each if each is not None and math.isfinite(each) else None for each in end],
        "never": end.value is not None and math.isinf(end.value),
        "threshold": _threshold(job, model, end),
        "criterion": _criterion(job),
        "prior_share": model.prior_share_,
    }


def _declared_end(job: TrainingJob, row: JobRow) -> Estimate:
    steps = float(job.stop.n) if isinstance(job.stop, Steps) else row.total_steps
    return Estimate(steps, steps, steps) if steps else Estimate()


def _threshold(job: TrainingJob, model: ConvergenceModel, end: Estimate) -> float | None:
    """Return the loss at which training ends: the one asked for, or where the curve comes to rest."""
    if isinstance(job.stop, Loss):
        return job.stop.below
    if isinstance(job.stop, Converged) and end.value is not None and math.isfinite(end.value):
        return float(model.predict(end.value))
    return None


def _criterion(job: TrainingJob) -> str:
    if isinstance(job.stop, Loss):
        return f"ends with a loss below {job.stop.below:.4g}"
    if isinstance(job.stop, Converged):
        return (
            f"converged when {job.stop.patience} epochs in a row change the loss by less than {job.stop.threshold:.2%}"
        )
    return f"ends after {job.stop.n:,} {job.stop.key}" if job.stop is not None else "ends when the script does"


def _earlier(tx: Transaction, row: JobRow) -> list[list[list[float]]]:
    """Return the curves of earlier runs of the workload, newest last, as points (step, loss)."""
    known = tx.peek_workload(row.workload)
    prior = prior_of(known.curve) if known is not None else None
    runs = prior.runs() if prior is not None else []
    return [[list(p) for p in downsample(list(zip(*run, strict=True)), _POINTS)] for run in runs[-_MOST_RUNS:]]


def _speed_map(job: TrainingJob, fitted: dict[str, Any] | None) -> Any:
    """Return the speed at each size that the job allows as rows (servers, workers, steps a second, low, high)."""
    if fitted is None:
        return None
    model = SpeedModel.from_dict(fitted)
    servers = _range(job.servers.min, job.servers.max) if job.servers is not None else [0]
    workers = _range(job.workers.min, job.workers.max)
    p, w = (axis.ravel() for axis in np.meshgrid(servers, workers, indexing="ij"))
    low, high = model.predict_interval(p, w)
    return {
        "servers": servers,
        "workers": workers,
        "rows": np.column_stack([p, w, model.predict(p, w), low, high]).tolist(),
        "guessed": model.is_default_,
    }


def _range(low: int, high: int) -> list[int]:
    return sorted({round(each) for each in np.linspace(low, high, min(high - low + 1, _MOST_SIDE))})


def replica_hours(row: JobRow, generations: Sequence[GenerationRow]) -> float:
    """Return what a job has used: hours that its workers and servers were held, over all its generations."""
    last = row.ended_at or row.stepped_at
    seconds = 0.0
    for each in generations:
        until = each.gone_at or last
        if each.starting_at is not None and until is not None:
            seconds += max(0.0, (until - each.starting_at).total_seconds()) * (each.servers + each.workers)
    return round(seconds / 3600, 4)
