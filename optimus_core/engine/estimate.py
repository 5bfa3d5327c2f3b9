"""Refit: how much work a job has left and how fast it is at any size, from its own points and its workload's past."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import numpy as np

from optimus_core import __version__
from optimus_core.choices import Converged, Epochs, Loss, Steps
from optimus_core.engine.collect import loss_points, steps_per_epoch
from optimus_core.engine.context import Context
from optimus_core.engine.launch import job_of
from optimus_core.engine.stopping import epoch_length
from optimus_core.job import TrainingJob
from optimus_core.models import ConvergenceModel, CurvePrior, Estimate, SpeedKind, SpeedModel
from optimus_core.scheduling.types import Remaining
from optimus_core.store import JobRow, News, Transaction
from optimus_core.telemetry import Point
from optimus_core.workload import prior_of

_HALF_LIFE_SAMPLES = 30
"""Newer speed samples count more: a sample weighs half of one that is this many samples newer."""
_FEWEST_POINTS = 5
"""Loss points from which a curve is fitted."""
_FARTHEST = 2.0**53
"""Steps beyond which nothing is told apart: whatever was declared, no more are left."""


@dataclass(frozen=True)
class Fit:
    """What is believed of a job."""

    remaining: Remaining
    speed: SpeedModel
    curve: ConvergenceModel | None
    young: bool
    failed: tuple[str, ...] = ()
    """Models that had enough points and could not be fitted: ``convergence``."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as the store keeps it."""
        return {
            "remaining": self.remaining.model_dump(mode="json"),
            "speed": self.speed.to_dict(),
            "curve": self.curve.to_dict() if self.curve is not None else None,
            "young": self.young,
            "failed": list(self.failed),
        }


def work_kind(job: TrainingJob) -> Literal["constant", "workers"]:
    """Return ``workers`` where a step of w workers does w times the work of one, else ``constant``."""
    synchronous = job.strategy.kind in ("ps_sync", "allreduce")
    return "workers" if job.batch_per == "worker" and synchronous and not isinstance(job.stop, Steps) else "constant"


def estimate(ctx: Context, tx: Transaction, row: JobRow) -> Fit:
    """Fit a job's models; where nothing is known yet, they say so."""
    job = job_of(row)
    losses = loss_points(tx, row.id)
    known = tx.peek_workload(row.workload)
    curve = _fit_curve(losses, prior_of(known.curve) if known is not None else None)
    remaining = remaining_work(job, row, curve, losses, known.total_steps if known is not None else None)
    failed = ("convergence",) if curve is None and len(_known(losses)) >= _FEWEST_POINTS else ()
    return Fit(remaining, _fit_speed(tx, row, job), curve, is_young(ctx, tx, row), failed)


def estimate_if_new(ctx: Context, tx: Transaction, row: JobRow, seen: News) -> dict[str, Any]:
    """Return a job's estimate as the store keeps it, fitted anew only if something was learned since the last fit.

    What bears on a fit is written beside it: how much was seen, the job's progress and what is asked for.
    """
    known, mark = row.estimate or {}, [*seen.mark(row), row.step, row.total_steps, _asked(row), __version__]
    if known.get("of") != mark:
        return estimate(ctx, tx, row).to_dict() | {"of": mark, "step": row.step or 0}
    return {**known, "young": is_young(ctx, tx, row)}


def _asked(row: JobRow) -> int:
    return crc32(json.dumps(row.specification, sort_keys=True).encode())


def is_young(ctx: Context, tx: Transaction, row: JobRow) -> bool:
    """Say whether a job has run too short for its estimates to be relied on."""
    return (row.step or 0) < ctx.settings.young_steps or _seconds_run(tx, row) < ctx.settings.young_seconds


def _seconds_run(tx: Transaction, row: JobRow) -> float:
    return (tx.now - row.started_at).total_seconds() if row.started_at is not None else 0.0


def _known(losses: list[Point]) -> list[tuple[float, float]]:
    return [(point.step, point.value) for point in losses if point.step is not None]


def _fit_curve(losses: list[Point], prior: CurvePrior | None) -> ConvergenceModel | None:
    known = _known(losses)
    if len(known) < _FEWEST_POINTS:
        return None
    steps, values = (np.asarray(column, dtype=float) for column in zip(*known, strict=True))
    try:
        return ConvergenceModel(prior=prior).fit(steps, values)
    except ValueError:
        return None  # constant or otherwise telling nothing


def remaining_work(
    job: TrainingJob, row: JobRow, curve: ConvergenceModel | None, losses: list[Point], history: float | None
) -> Remaining:
    """Return the steps left until the job's end, with the best source that there is."""
    done = float(row.step or 0)
    if isinstance(job.stop, Steps):
        return _exactly(min(job.stop.n, _FARTHEST) - done, "declared")
    per_epoch = steps_per_epoch(job) or epoch_length(losses)
    if isinstance(job.stop, Epochs) and per_epoch:
        return _exactly(min(job.stop.n, _FARTHEST) * per_epoch - done, "declared")
    predicted = predicted_end(job, curve, per_epoch)
    if predicted is not None and predicted.value is not None:
        return _until(predicted, done, row.total_steps)
    if row.total_steps:
        return _exactly(row.total_steps - done, "reported")
    if history and history > done:
        return Remaining(value=history - done, low=(history - done) / 2, high=(history - done) * 2, source="history")
    return Remaining()


def predicted_end(job: TrainingJob, curve: ConvergenceModel | None, per_epoch: float | None) -> Estimate | None:
    """Return the step at which a curve meets a job's stop criterion; None if no curve decides, or none is known."""
    if curve is None:
        return None
    if isinstance(job.stop, Loss):
        return curve.step_of_loss(job.stop.below)
    if isinstance(job.stop, Converged) and per_epoch:
        return curve.step_of_convergence(job.stop.threshold, job.stop.patience, per_epoch)
    return None


def _until(end: Estimate, done: float, total: int | None) -> Remaining:
    """Turn an end into what is left; the script's own end comes first if it is sooner."""
    limit = float(total) if total else float("inf")
    value, low, high = (min(x, limit) - done if x is not None else None for x in (end.value, end.low, end.high))
    return Remaining(value=_finite(value), low=_finite(low), high=_finite(high), source="fitted")


def _finite(value: float | None) -> float | None:
    return max(0.0, value) if value is not None and np.isfinite(value) else None


def _exactly(value: float, source: str) -> Remaining:
    left = max(0.0, value)
    return Remaining(value=left, low=left, high=left, source=source)


def _fit_speed(tx: Transaction, row: JobRow, job: TrainingJob) -> SpeedModel:
    model = SpeedModel(SpeedKind(job.strategy.kind), batch_per=job.batch_per, batch_size=job.batch_size)
    samples = tx.speeds(row.workload, row.specification_hash)
    if not samples:
        return SpeedModel.default(SpeedKind(job.strategy.kind), batch_per=job.batch_per, batch_size=job.batch_size)
    ages = np.arange(len(samples))[::-1]
    return model.fit(
        np.array([s.servers for s in samples], dtype=float),
        np.array([s.workers for s in samples], dtype=float),
        np.array([s.steps / s.seconds for s in samples]),
        0.5 ** (ages / _HALF_LIFE_SAMPLES),
    )
