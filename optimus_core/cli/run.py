"""``optimus run``: the same job without Airflow, for a shell, a notebook or a step of another system."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from optimus_core.cli.shared import ClusterName, Json, engine, err, errors_shown, out, print_json, said
from optimus_core.counted import counted, size_text
from optimus_core.engine.engine import Engine
from optimus_core.engine.identity import Identity
from optimus_core.engine.reconcile import Step
from optimus_core.engine.report import JobReport
from optimus_core.engine.submit import Submission
from optimus_core.job import TrainingJob, load_job_file
from optimus_core.reasons import duration
from optimus_core.store import FINAL, is_unreachable

INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a shell."""
_LAST_LINES = 10
"""Of each replica, when a job has failed."""


def run(
    job_file: Annotated[Path, typer.Argument(help="The job as YAML or JSON; its commands run in the file's folder.")],
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin from scratch even if a checkpoint is there.")] = False,
    cluster: ClusterName = "",
    as_json: Json = False,
) -> None:
    """Run a training job to its end; exit 0 if it succeeds, 1 if not, 130 on Ctrl-C, which stops the job."""
    with errors_shown():
        job = _in_its_folder(load_job_file(job_file), job_file)
        eng = engine()
        submission = _submit(eng, job, fresh, cluster)
        err.print(f"job {job.name}: {submission.action.value} as {submission.name}")
        interrupted = follow(eng, submission, eng.settings.poll_seconds)
        report = eng.job_by_id(submission.job_id)
        if report.state == "failed":
            _last_words(eng, report)
    _say(report, as_json)
    raise typer.Exit(INTERRUPTED if interrupted else 0 if report.state == "succeeded" else 1)


def _in_its_folder(job: TrainingJob, path: Path) -> TrainingJob:
    folder = path.resolve().parent
    where = folder / (job.working_dir or "")
    return TrainingJob.from_dict(job.to_dict() | {"working_dir": str(where)})


def _submit(eng: Engine, job: TrainingJob, fresh: bool, cluster: str) -> Submission:
    """A name that runs is re-attached to; one that has ended is a new attempt."""
    identity = Identity.of_name(eng.settings.deployment, job.name)
    known = eng.job_of(identity)
    attempt = 1 if known is None else known.attempt + (known.state in FINAL)
    return eng.submit(job, identity, attempt, fresh=fresh, cluster=cluster)


class _Interrupt:
    """Remembers Ctrl-C and SIGTERM; a second one ends the command at once."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            os._exit(INTERRUPTED)
        self.asked = True


def follow(eng: Engine, submission: Submission, poll: float) -> bool:
    """Drive a job to its end, with a progress bar in a terminal and a line a change elsewhere.

    Returns:
        Whether it was interrupted, and so stopped.
    """
    interrupt, stopped = _Interrupt(), False
    with _Display() as display:
        while True:
            try:
                if interrupt.asked and not stopped:
                    err.print("stopping the job (again: leave it)")
                    stopped = eng.request_stop(submission.job_id, token=submission.token, by="Ctrl-C") or True
                step = eng.step(submission.job_id)
                display.update(eng.job_by_id(submission.job_id))
            except Exception as error:
                if not is_unreachable(error):
                    raise
                display.complain(said(error))
                step = Step("unknown", poll)  # the job runs on meanwhile
            if step.final:
                return stopped
            _sleep(min(step.look_again, poll), interrupt, woken=not stopped and not interrupt.asked)


def _sleep(seconds: float, interrupt: _Interrupt, *, woken: bool) -> None:
    """Sleep; where ``woken``, an interrupt ends it at once."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not (woken and interrupt.asked):
        time.sleep(min(left, 0.1))


class _Display:
    """A bar where somebody looks on, plain lines elsewhere."""

    def __init__(self) -> None:
        self._last: object = None
        self._bar: Progress | None = None
        if err.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), console=err
            )
            self._task = self._bar.add_task("waiting", total=None)

    def __enter__(self) -> _Display:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()

    def complain(self, text: str) -> None:
        """Say once that something is wrong for now."""
        if text != self._last:
            self._last = text
            err.print(f"{text}; trying again")

    def update(self, report: JobReport) -> None:
        """Show how the job stands."""
        state = (report.state, report.phase, report.servers, report.workers, report.reason)
        if state != self._last:
            self._last = state
            err.print(f"{_line(report)}  {report.reason}")
        if self._bar is not None:
            total = (report.step or 0) + report.remaining_steps if report.remaining_steps is not None else None
            self._bar.update(self._task, description=_line(report), completed=report.step or 0, total=total)


def _line(report: JobReport) -> str:
    parts = [report.phase] + ([size_text(report.servers, report.workers)] if report.workers else [])
    if report.step is not None:
        parts.append(f"step {report.step}")
    if report.loss is not None:
        parts.append(f"loss {report.loss:.4g}")
    if report.predicted_seconds is not None:
        parts.append(f"done in about {duration(report.predicted_seconds)}")
    return "  ".join(parts)


def _last_words(eng: Engine, report: JobReport) -> None:
    """Print the end of what the replicas of the last generation wrote: a script's own error is in it."""
    outputs = eng.outputs(report.id)
    newest = max((each["generation"] for each in outputs), default=0)
    for each in outputs:
        lines = each["tail"].splitlines()[-_LAST_LINES:] if each["generation"] == newest else []
        for line in lines:
            err.print(f"{each['replica']}: {line}", markup=False, highlight=False)


def _say(report: JobReport, as_json: bool) -> None:
    if as_json:
        print_json(report.to_dict())
        return
    result = report.result or {}
    wall, loss, steps = (result.get(name) for name in ("wall_seconds", "final_loss", "steps"))
    facts = [
        f"{duration(wall)} of training" if wall is not None else "",
        counted(steps, "step") if steps is not None else "",
        f"loss {loss:.4g}" if loss is not None else "",
        counted(result.get("resizes", 0), "resize"),
        f"checkpoint: {result.get('checkpoint') or 'none'}",
    ]
    out.print(f"{report.title} {report.state}: {report.reason} {', '.join(filter(None, facts))}")
