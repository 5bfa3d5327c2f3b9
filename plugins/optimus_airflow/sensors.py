"""The sensor: waits for a training job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowException

from optimus_airflow.until import Finished, Progress, Until, condition, look_up
from optimus_core.choices import Converged, Epochs, Loss, Steps

if TYPE_CHECKING:
    from airflow.sdk import Context

    from optimus_core.choices import Stop

__all__ = ["Converged", "Epochs", "Finished", "Loss", "OptimusJobSensor", "Progress", "Steps"]


class OptimusJobSensor(BaseSensorOperator):
    """Waits until a training job is as wanted; fails when the job fails. The job need not exist yet.

    Args:
        job_task_id: the task that trains, in the same run of the same DAG, with this task's map index.
        job: the name, title or id of any other job, in place of ``job_task_id``.
        until: what to wait for: ``Finished()``, ``Progress(0.5)``, or what could be a job's ``stop``, such as
            ``Loss(below=0.1)``. It is judged in the same way: one lucky batch is not enough.
        map_index: of the task that trains, where it is not this task's own.
        deferrable: wait in the triggerer instead of a worker.
    """

    template_fields: Sequence[str] = ("job_task_id", "job")
    ui_color = "#e5f4ee"

    def __init__(
        self,
        *,
        job_task_id: str | None = None,
        job: str | None = None,
        until: Until | Stop | None = None,
        map_index: int | None = None,
        deferrable: bool = True,
        poke_interval: float | timedelta = 10,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        if (job_task_id is None) == (job is None):
            raise ValueError("An OptimusJobSensor waits for one job: give either job_task_id or job.")
        self.job_task_id, self.job = job_task_id, job
        self.until = condition(Finished() if until is None else until)
        self.map_index, self.deferrable = map_index, deferrable

    def execute(self, context: Context) -> Any:
        """Look once, then wait in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        found = self._look(context)
        if found is not None:
            return self._outcome(found)
        from optimus_airflow.triggers import OptimusWaitTrigger

        return self.defer(
            trigger=OptimusWaitTrigger(self._wanted(context), self.until.to_data(), float(self.poke_interval)),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def poke(self, context: Context) -> bool:
        """Look once."""
        found = self._look(context)
        if found is None:
            return False
        self._outcome(found)
        return True

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Take what the trigger has seen."""
        return self._outcome(event)

    def _look(self, context: Context) -> dict[str, Any] | None:
        from optimus_airflow import settings
        from optimus_airflow.triggers import answer

        return answer(self.until, look_up(settings.engine(), self._wanted(context)))

    def _wanted(self, context: Context) -> dict[str, Any]:
        if self.job is not None:
            return {"name": self.job}
        ti = context["ti"]
        map_index = ti.map_index if self.map_index is None else self.map_index
        map_index = -1 if map_index is None else map_index
        return {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": self.job_task_id, "map_index": map_index}

    def _outcome(self, event: dict[str, Any]) -> dict[str, Any]:
        if not event["met"]:
            raise AirflowException(
                f'Job "{event["title"]}" has {event["state"]}; the sensor waits until it {event["wanted"]}. '
                f"{event['reason']}"
            )
        self.log.info('Job "%s" %s (step %s, loss %s)', event["title"], event["wanted"], event["step"], event["loss"])
        return event
