"""What a sensor waits for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from optimus_core.engine.engine import Engine
    from optimus_core.engine.report import JobReport


class Verdict(Enum):
    """How a job stands to what is waited for."""

    WAIT = "wait"
    MET = "met"
    NEVER = "never"


@dataclass(frozen=True)
class Until:
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

    def is_met(self, report: JobReport) -> bool:
        """Say whether a job meets the condition now."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the condition in words that follow "the job"."""
        raise NotImplementedError


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
class Converged(Until):
    """The job has met its stop criterion; by its own estimate no step is left."""

    kind: ClassVar[str] = "converged"

    def is_met(self, report: JobReport) -> bool:
        """Say whether nothing is left to train."""
        if report.state in ("failed", "stopped"):
            return False
        return report.reason_code == "criterion_met" or report.remaining_steps == 0

    def describe(self) -> str:
        """Return it in words."""
        return "has converged"


@dataclass(frozen=True)
class Loss(Until):
    """The job's loss has come below a value."""

    kind: ClassVar[str] = "loss"

    below: float

    def is_met(self, report: JobReport) -> bool:
        """Say whether the last loss is below the value."""
        return report.state not in ("failed", "stopped") and report.loss is not None and report.loss < self.below

    def describe(self) -> str:
        """Return it in words."""
        return f"has a loss below {self.below:g}"


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


_KINDS = {kind.kind: kind for kind in (Finished, Converged, Loss, Progress)}


def from_data(data: dict[str, Any]) -> Until:
    """Read what :meth:`Until.to_data` wrote."""
    values = dict(data)
    return _KINDS[values.pop("kind")](**values)


def look_up(engine: Engine, job: dict[str, Any]) -> JobReport | None:
    """Return the job that a sensor means, None if it does not exist yet."""
    from optimus_core.engine.identity import Identity
    from optimus_core.errors import UnknownJob

    if "name" not in job:
        return engine.job_of(Identity.of_task(engine.settings.deployment, **job))
    try:
        return engine.job(job["name"])
    except UnknownJob:
        return None
