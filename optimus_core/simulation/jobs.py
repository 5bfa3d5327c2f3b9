"""Jobs as they truly are: their curve, their speed, and when they arrive.

The mix of :func:`mixed` has nine kinds of jobs, of the sizes that the nine models of the Optimus paper (EuroSys 2018,
table 1) have among themselves: from minutes to many hours, synchronous and asynchronous. Their coefficients are ours.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from optimus_core import checks
from optimus_core.errors import SpecificationError
from optimus_core.models import SpeedKind, SpeedModel
from optimus_core.scheduling.types import JobView

GIB = 2**30
_COLUMNS = ("timestamp", "duration", "num_gpus")
_SLOTS = 64
"""Largest number of workers of a job of a CSV."""


@dataclass(frozen=True)
class TrueJob:
    """A job and what is true of it, which no policy sees unless it is an oracle."""

    view: JobView
    """As it arrives, at ``view.arrived`` seconds; its speed model is the true one."""
    work: float
    """Steps until its loss is at ``target``."""
    curve: tuple[float, float, float]
    """(b0, b1, b2) of the true loss 1 / (b0 * step + b1) + b2."""

    def loss(self, steps: np.ndarray) -> np.ndarray:
        """Return the true loss at ``steps``, without noise."""
        b0, b1, b2 = self.curve
        return np.asarray(1 / (b0 * steps + b1) + b2)

    @property
    def target(self) -> float:
        """The loss at which it ends."""
        return float(self.loss(np.array(self.work)))


@dataclass(frozen=True)
class Kind:
    """A kind of parameter-server job."""

    name: str
    strategy: Literal["ps_sync", "ps_async"]
    hours: float
    """Alone, with one worker and one server."""
    seconds: tuple[float, ...]
    """Coefficients of its speed model, in seconds; the M of a synchronous one is 1."""


_KINDS = (
    Kind("resnext", "ps_sync", 7.0, (4.0, 0.30, 0.30, 0.010, 0.010)),
    Kind("resnet", "ps_sync", 14.0, (6.0, 0.30, 0.60, 0.020, 0.020)),
    Kind("inception", "ps_sync", 9.0, (5.0, 0.25, 0.50, 0.015, 0.015)),
    Kind("plankton", "ps_async", 1.5, (1.5, 0.10, 0.010, 0.010)),
    Kind("sentences", "ps_async", 0.4, (0.8, 0.15, 0.020, 0.010)),
    Kind("similarity", "ps_async", 0.7, (1.0, 0.20, 0.020, 0.010)),
    Kind("language", "ps_async", 3.0, (1.8, 0.30, 0.020, 0.015)),
    Kind("translation", "ps_sync", 6.0, (3.5, 0.20, 0.80, 0.020, 0.020)),
    Kind("speech", "ps_sync", 11.0, (5.0, 0.35, 0.40, 0.015, 0.015)),
)


def uniform(count: int, span: float, seed: int) -> list[float]:
    """Return ``count`` arrival times spread evenly at random over ``span`` seconds."""
    return sorted(float(t) for t in np.random.default_rng([seed, 1]).uniform(0, span, count))


def poisson(count: int, span: float, seed: int) -> list[float]:
    """Return ``count`` arrivals of a Poisson process that has ``count`` of them in ``span`` seconds on average."""
    gaps = np.random.default_rng([seed, 2]).exponential(span / count, count)
    return [float(t) for t in np.cumsum(gaps)]


def mixed(arrivals: Sequence[float], seed: int) -> list[TrueJob]:
    """Return a job for each arrival, the nine kinds in a random order, each a little different."""
    return of_kinds(_KINDS, arrivals, seed)


def of_kinds(kinds: Sequence[Kind], arrivals: Sequence[float], seed: int) -> list[TrueJob]:
    """Return a job for each arrival, the kinds in a random order, each a little longer or shorter than its kind."""
    rng = np.random.default_rng([seed, 3])
    order = np.concatenate([rng.permutation(len(kinds)) for _ in range(-(-len(arrivals) // len(kinds)))])
    return [
        _of_kind(kinds[kind], place, at, float(rng.uniform(0.8, 1.2)))
        for place, (kind, at) in enumerate(zip(order, arrivals, strict=False))
    ]


def _of_kind(kind: Kind, place: int, at: float, scale: float) -> TrueJob:
    model = speed_model(SpeedKind(kind.strategy), kind.seconds)
    work = 3600 * kind.hours * scale * float(model.predict(1, 1))
    view = JobView(
        name=f"j{place:04}-{kind.name}",
        workload=kind.name,
        state="queued",
        arrived=at,
        strategy=kind.strategy,
        worker_demand={"cpu": 5000, "memory": 10 * GIB},
        server_demand={"cpu": 5000, "memory": 10 * GIB},
        max_workers=16,
        min_servers=1,
        max_servers=16,
        speed=model.to_dict(),
    )
    return TrueJob(view, work, (20.0 / work, 0.3, 0.2))


def speed_model(kind: SpeedKind, seconds: Sequence[float]) -> SpeedModel:
    """Return the speed model with the coefficients ``seconds``."""
    known: dict[str, Any] = {"coefficients": list(seconds), "is_default": False, "sigma": 0.05}
    return SpeedModel.from_dict(SpeedModel.default(kind, batch_size=1).to_dict() | known)


def read_trace(file: Path, most: int | None = None) -> list[TrueJob]:
    """Read the jobs of a CSV with the columns timestamp, duration (seconds) and num_gpus, such as the Philly digest.

    Each is an all-reduce job of GPUs that takes its duration at the size that it had, and may have up to four times
    that. Rows may be in any order; jobs of no duration or no GPU are left out, as there is nothing to decide.

    Args:
        file: the CSV.
        most: how many jobs at most, the earliest.

    Raises:
        SpecificationError: the file can't be read, lacks a column, has an unreadable row, or no job.
    """
    rows = sorted(_rows(file))[:most]
    if not rows:
        raise SpecificationError(f"{file} has no job. Give a row with a duration and num_gpus of more than 0.")
    first = rows[0][0]
    return [_of_row(place, at - first, seconds, gpus) for place, (at, seconds, gpus) in enumerate(rows)]


def _rows(file: Path) -> list[tuple[float, float, int]]:
    try:
        lines = csv.DictReader(file.read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError as error:
        raise SpecificationError(f"{file} can't be read: {error.strerror}. Give a CSV that is there.") from error
    if missing := [column for column in _COLUMNS if column not in (lines.fieldnames or ())]:
        raise SpecificationError(f"{file} lacks the column {missing[0]}. Write {','.join(_COLUMNS)} in its first line.")
    found = [_row(line, f"{file}, line {lines.line_num}") for line in lines]
    return [(at, seconds, gpus) for at, seconds, gpus in found if seconds > 0 and gpus > 0]


def _row(line: dict[str, str | None], where: str) -> tuple[float, float, int]:
    try:
        at = datetime.fromisoformat(line["timestamp"] or "").replace(tzinfo=UTC).timestamp()
        return at, checks.number(float(line["duration"] or ""), "duration", most=1e9), int(line["num_gpus"] or "")
    except ValueError as error:
        raise SpecificationError(
            f"{where} can't be read: {error}. Write such as 2017-10-09 07:01:55,66.0,1."
        ) from error


def _of_row(place: int, at: float, seconds: float, gpus: int) -> TrueJob:
    gpus = min(gpus, _SLOTS)
    model = speed_model(SpeedKind.ALL_REDUCE, (1.0, 0.05, 0.005))
    view = JobView(
        name=f"j{place:06}",
        state="queued",
        arrived=at,
        worker_demand={"nvidia.com/gpu": 1},
        max_workers=min(_SLOTS, 4 * gpus),
        speed=model.to_dict(),
    )
    work = max(1.0, seconds * float(model.predict(0, gpus)))
    return TrueJob(view, work, (20.0 / work, 0.3, 0.2))
