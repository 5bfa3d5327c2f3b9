"""The trigger that drives a job while its task is deferred, and the one that waits for a job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent

from optimus_airflow import settings
from optimus_airflow.task_log import TaskLog

if TYPE_CHECKING:
    from optimus_core.engine.engine import Engine
    from optimus_core.engine.report import JobReport

_LONGEST_BACKOFF = 60.0


class _Patient:
    """Waits longer after each failure in a row."""

    def __init__(self) -> None:
        self.failures = 0

    def ok(self) -> None:
        self.failures = 0

    def failed(self) -> float:
        self.failures += 1
        return min(2.0**self.failures, _LONGEST_BACKOFF)


class OptimusJobTrigger(BaseTrigger):
    """Takes step after step with a job until it has ended, then hands its task the outcome.

    An error of a step (the database is down, say) is tried again and never fails the job. It may run twice at the
    same time, and start anew in another triggerer: each step looks before it acts.

    Args:
        job_id: the job's id in the store.
        token: what the task owns the job by.
        attempt: which attempt of the job the task waits for.
        ends_task: on success, end the task without another leg on a worker.
        push: whether the outcome goes to XCom then.
        logs: whether what the replicas write goes to the task's log.
    """

    def __init__(
        self,
        job_id: int,
        token: str,
        attempt: int,
        ends_task: bool = False,
        push: bool = True,
        logs: bool = True,
    ) -> None:
        super().__init__()
        self.job_id, self.token, self.attempt = job_id, token, attempt
        self.ends_task, self.push, self.logs = ends_task, push, logs
        self._fired = False
        self._log_of_task = TaskLog(self.log)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another process makes the same trigger of."""
        kwargs = {name: getattr(self, name) for name in ("job_id", "token", "attempt", "ends_task", "push", "logs")}
        return "optimus_airflow.triggers.OptimusJobTrigger", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Drive the job; give one event, not before ``first_event_seconds``.

        Airflow 3.3 may take a task for lost that resumes within seconds of its deferral.
        """
        began, patient = time.monotonic(), _Patient()
        while True:
            try:
                engine = await asyncio.to_thread(settings.engine)
                pause, event = await asyncio.to_thread(self._step, engine)
                patient.ok()
            except Exception as error:
                pause, event = patient.failed(), None
                self.log.warning(
                    "A step with job %s failed (%s): again in %g s", self.job_id, error, pause, exc_info=True
                )
            if event is not None:
                await asyncio.sleep(max(0.0, began + engine.settings.first_event_seconds - time.monotonic()))
                self._fired = True
                yield self._outcome(event)
                return
            await asyncio.sleep(pause)

    def _step(self, engine: Engine) -> tuple[float, dict[str, Any] | None]:
        from optimus_airflow.driving import event_of
        from optimus_core.errors import UnknownJob

        step = engine.step(self.job_id)
        if self.logs:
            self._log_of_task.tell(engine, self.job_id, last=step.final)
        if not step.final:
            return max(step.look_again, 0.05), None
        try:
            report = engine.job_by_id(self.job_id)
        except UnknownJob as error:
            return 0.0, {"title": str(self.job_id), "state": "failed", "reason": f"Its row was deleted: {error}."}
        if not report.final or report.attempt != self.attempt:
            return engine.settings.poll_seconds, None  # a later try owns it; this trigger is about to be ended
        return 0.0, event_of(engine, report)

    def _ends(self, event: dict[str, Any]) -> bool:
        return self.ends_task and event["state"] == "succeeded"

    def _outcome(self, event: dict[str, Any]) -> TriggerEvent:
        if self._ends(event):
            return TaskSuccessEvent(xcoms={"return_value": event["result"]} if self.push else None)
        return TriggerEvent(event)

    async def on_kill(self) -> None:
        """Wish that the job stops, if it is still ours: on a clear, the new try has claimed it before this runs."""
        if self._fired:
            return
        engine = await asyncio.to_thread(settings.engine)
        taken = await asyncio.to_thread(
            lambda: engine.request_stop(self.job_id, token=self.token, by="Airflow: the task was ended")
        )
        if taken:
            from optimus_airflow.driving import drive_to_end_aside

            drive_to_end_aside(engine, self.job_id)


class OptimusWaitTrigger(BaseTrigger):
    """Waits until a job is as a sensor wants it; changes nothing.

    Args:
        job: how the sensor names the job: ``{"name": ...}`` or dag_id, run_id, task_id and map_index.
        until: the condition, as :meth:`optimus_airflow.until.Until.to_data` writes it.
        poll_seconds: time between two looks.
    """

    def __init__(self, job: dict[str, Any], until: dict[str, Any], poll_seconds: float) -> None:
        super().__init__()
        self.job, self.until, self.poll_seconds = job, until, poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another process makes the same trigger of."""
        kwargs = {"job": self.job, "until": self.until, "poll_seconds": self.poll_seconds}
        return "optimus_airflow.triggers.OptimusWaitTrigger", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look again and again; give one event, not before ``first_event_seconds``."""
        began, patient = time.monotonic(), _Patient()
        while True:
            pause = self.poll_seconds
            try:
                engine = await asyncio.to_thread(settings.engine)
                event = await asyncio.to_thread(self._look, engine)
                patient.ok()
            except Exception as error:
                pause, event = patient.failed(), None
                self.log.warning("Optimus can't be asked (%s): again in %g s", error, pause, exc_info=True)
            if event is not None:
                await asyncio.sleep(max(0.0, began + engine.settings.first_event_seconds - time.monotonic()))
                yield TriggerEvent(event)
                return
            await asyncio.sleep(pause)

    def _look(self, engine: Engine) -> dict[str, Any] | None:
        from optimus_airflow.until import from_data, look_up

        return answer(from_data(self.until), look_up(engine, self.job))


def answer(until: Any, report: JobReport | None) -> dict[str, Any] | None:
    """Return what a sensor is told of a job, None while it waits."""
    from optimus_airflow.until import Verdict

    if report is None:
        return None
    verdict = until.judge(report)
    if verdict is Verdict.WAIT:
        return None
    return {
        "met": verdict is Verdict.MET,
        "job": report.name,
        "title": report.title,
        "state": report.state,
        "reason": report.reason,
        "step": report.step,
        "loss": report.loss,
        "wanted": until.describe(),
    }
