"""What a sensor waits for: that a job has ended or come so far, or meets a criterion that could stop it as well."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from optimus_core.choices import STOPS, Converged, Epochs, Loss, Steps, Stop
from optimus_core.errors import SpecificationError

if TYPE_CHECKING:
    from optimus_core.engine.engine import Engine
    from optimus_core.engine.report import JobReport
    from optimus_core.telemetry import Point


class Verdict(Enum):
    """How a job stands to what is waited for."""

    WAIT = "wait"
    MET = "met"
    NEVER = "never"


@dataclass(frozen=True)
class Until(ABC):
    """A condition on a job. A job that failed or was stopped never meets one."""

    kind: ClassVar[str] = ""

    def to_data(self) -> dict[str, Any]:
        """Return the condition as JSON holds it."""
        return {"kind": self.kind, **asdict(self)}

    def judge(self, report: JobReport) -> Verdict:
        """Say how a job stands to the condition."""
        if self.is_met(report):
            return Verdict.MET
        return Verdict.NEVER if report.final else Verdict.WAIT

    @abstractmethod
    def is_met(self, report: JobReport) -> bool:
        """Say whether a job meets the condition now."""

    @abstractmethod
    def describe(self) -> str:
        """Return the condition in words that follow "the job"."""


@dataclass(frozen=True)
class Finished(Until):
    """The job has succeeded."""

    kind: ClassVar[str] = "finished"

    def is_met(self, report: JobReport) -> bool:
        """Say whether the job has succeeded."""
        return report.state == "succeeded"

    def describe(self) -> str:
        """Return it in words."""
        return "has finished"


@dataclass(frozen=True)
class Progress(Until):
    """A part of the job's predicted steps has been made."""

    kind: ClassVar[str] = "progress"

    part: float

    def __post_init__(self) -> None:
        if isinstance(self.part, bool) or not 0 < self.part <= 1:
            raise ValueError(f"Progress is {self.part}; it is a part, above 0 and at most 1. Write such as 0.5.")

    def is_met(self, report: JobReport) -> bool:
        """Say whether so much has been made, by the present prediction."""
        if report.final:
            return report.state == "succeeded"
        if report.step is None or report.remaining_steps is None:
            return False
        whole = report.step + report.remaining_steps
        return whole > 0 and report.step / whole >= self.part

    def describe(self) -> str:
        """Return it in words."""
        return f"has made {self.part:.0%} of its steps"


@dataclass(frozen=True)
class Meets(Until):
    """The job meets one of the core's criteria, whether or not it is the one that stops it."""

    stop: Stop

    def to_data(self) -> dict[str, Any]:
        """Return the condition as JSON holds it."""
        return {"kind": self.stop.key, **asdict(self.stop)}

    def is_met(self, report: JobReport) -> bool:
        """Say whether it does, judged as Optimus judges when to stop; of a job that has ended the last loss counts."""
        from optimus_core.engine.stopping import is_met

        if report.state in ("failed", "stopped"):
            return False
        if report.final and isinstance(self.stop, Loss):
            return report.loss is not None and report.loss < self.stop.below
        seen: Any = report
        return is_met(self.stop, report.step, report.epoch, seen.losses, seen.steps_per_epoch)

    def describe(self) -> str:
        """Return it in words."""
        if isinstance(self.stop, Loss):
            return f"has a loss below {self.stop.below:g}"
        if isinstance(self.stop, Converged):
            return f"has converged (threshold {self.stop.threshold:g}, {self.stop.patience} epochs)"
        return f"has made {self.stop.n} {self.stop.key}"


_KINDS = {kind.kind: kind for kind in (Finished, Progress)}
_STOPS = {stop.key: stop for stop in STOPS}


def condition(until: object) -> Until:
    """Return what to wait for: of this module, or a criterion of ``optimus_core``.

    Raises:
        SpecificationError: it is neither, or no job can meet it.
    """
    if isinstance(until, Until):
        return until
    if not isinstance(until, Converged | Epochs | Loss | Steps):
        raise SpecificationError(
            f"until is {until!r}; write Finished(), Progress(0.5), Loss(below=0.1), Converged(0.01), Steps(500) or "
            "Epochs(10), all from optimus_airflow.sensors."
        )
    try:
        until.check()
    except SpecificationError as error:
        raise SpecificationError(str(error).replace("stop.", "until.", 1)) from None
    return Meets(until)


def from_data(data: dict[str, Any]) -> Until:
    """Read what :meth:`Until.to_data` wrote."""
    values = dict(data)
    kind = values.pop("kind")
    return Meets(_STOPS[kind](**values)) if kind in _STOPS else _KINDS[kind](**values)


class Seen:
    """A job's report, and what criteria are judged by besides, read when asked for."""

    def __init__(self, engine: Engine, report: JobReport) -> None:
        self._engine, self._report = engine, report

    def __getattr__(self, name: str) -> Any:
        return getattr(self._report, name)

    @cached_property
    def losses(self) -> list[Point]:
        """The loss by step, oldest first."""
        from optimus_core.engine.collect import loss_points

        with self._engine.store.transaction() as tx:
            return loss_points(tx, self._report.id)

    @cached_property
    def steps_per_epoch(self) -> int | None:
        """The steps of an epoch, if the job says so."""
        from optimus_core.engine.collect import steps_per_epoch
        from optimus_core.engine.launch import job_of

        with self._engine.store.transaction() as tx:
            row = tx.peek_job(self._report.id)
        return steps_per_epoch(job_of(row)) if row is not None else None


def look_up(engine: Engine, job: dict[str, Any]) -> Any:
    """Return the job that a sensor means as :class:`Seen`, None if it does not exist yet."""
    report = _report(engine, job)
    return Seen(engine, report) if report is not None else None


def _report(engine: Engine, job: dict[str, Any]) -> JobReport | None:
    from optimus_core.engine.identity import Identity
    from optimus_core.errors import UnknownJob

    if "name" not in job:
        return engine.job_of(Identity.of_task(engine.settings.deployment, **job))
    try:
        return engine.job(job["name"])
    except UnknownJob:
        return None
