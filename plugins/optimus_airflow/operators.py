"""The operator: a training job as an Airflow task."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferralError, TaskDeferralTimeout

from optimus_airflow.links import OptimusJobLink
from optimus_core.job import AllReduce, Converged, Epochs, Loss, ParameterServer, Replicas, Steps

if TYPE_CHECKING:
    from airflow.sdk import Context

    from optimus_core.engine.engine import Engine
    from optimus_core.engine.identity import Identity
    from optimus_core.engine.submit import Submission
    from optimus_core.job import Stop, Strategy, TrainingJob

__all__ = [
    "AllReduce", "Converged", "Epochs", "Loss", "OptimusTrainingOperator", "ParameterServer", "Replicas", "Steps",
]  # fmt: skip

_MOST_CRASHES = 5
"""So often a trigger that crashed is started anew in one try."""
_CRASHES = "optimus_trigger_crashes"


class OptimusTrainingOperator(BaseOperator):
    """Trains with as many workers and parameter servers as Optimus finds best, which may change while it runs.

    What a run came to goes to XCom: final loss, steps, epochs, seconds, replica-seconds, resizes, checkpoint.

    A later try (retry or clear) of a job that has not succeeded goes on from its checkpoint; after a success it
    trains from scratch.

    Args:
        command: what each replica runs: a program and its arguments, no shell.
        strategy: how the replicas work together: ``ParameterServer(sync=True)``, or ``AllReduce()``.
        workers: what one worker asks for, and how many there may be.
        servers: the same for parameter servers.
        batch_size: samples in a batch.
        batch_per: ``job``: the workers share the batch. ``worker``: each has its own.
        stop: when the job has had enough: ``Converged(0.01)``, ``Steps(500)``, ``Epochs(10)``, ``Loss(below=0.1)``.
            None: when the script ends.
        env: environment variables of each replica.
        image: the container's image, where replicas are containers.
        working_dir: where the command starts; by default the folder of the DAG's file.
        framework: whose variables are set besides those of Optimus.
        workload: jobs of one workload learn from each other; by default all runs of this task.
        priority: who has more gets its minimum first.
        deadline: when the job should be done.
        samples_per_epoch: samples in the data, if known.
        steps_per_epoch: batches in the data, if known.
        metrics: a regular expression for the output.
        resumable: False: the script keeps no checkpoints, so the job is never resized.
        grace_seconds: time from the request to stop until the kill.
        failure_retries: further tries of replicas within one try of the task, for each class of failure.
        quota: the Optimus pool whose quota the job counts against.
        start_timeout: seconds in which all replicas must run.
        cluster: the declared cluster; by default that of ``[optimus] cluster``.
        fresh: a later try always starts from scratch.
        deferrable: wait in the triggerer. False: a worker's slot is taken all the time.
        retries: tries of the task after the first; at least one is wise, since Airflow may lose a task itself.
    """

    template_fields: Sequence[str] = ("command", "env", "image", "working_dir", "workload", "quota", "cluster")
    template_fields_renderers = {"command": "json", "env": "json"}
    operator_extra_links = (OptimusJobLink(),)
    ui_color = "#d6efe4"

    def __init__(
        self,
        *,
        command: Sequence[str],
        strategy: Strategy,
        workers: Replicas,
        servers: Replicas | None = None,
        batch_size: int | None = None,
        batch_per: str = "job",
        stop: Stop | None = None,
        env: Mapping[str, str] | None = None,
        image: str | None = None,
        working_dir: str | None = None,
        framework: str | None = None,
        workload: str | None = None,
        priority: int = 0,
        deadline: datetime | None = None,
        samples_per_epoch: int | None = None,
        steps_per_epoch: int | None = None,
        metrics: str | None = None,
        resumable: bool = True,
        grace_seconds: float = 30,
        failure_retries: int = 3,
        quota: str = "default",
        start_timeout: float = 300,
        cluster: str = "",
        fresh: bool = False,
        deferrable: bool = True,
        retries: int | None = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, **kwargs)
        self.command = command
        self.strategy = strategy
        self.workers = workers
        self.servers = servers
        self.batch_size = batch_size
        self.batch_per = batch_per
        self.stop = stop
        self.env = env or {}
        self.image = image
        self.working_dir = working_dir
        self.framework = framework
        self.workload = workload
        self.priority = priority
        self.job_deadline = deadline
        self.samples_per_epoch = samples_per_epoch
        self.steps_per_epoch = steps_per_epoch
        self.metrics = metrics
        self.resumable = resumable
        self.grace_seconds = grace_seconds
        self.failure_retries = failure_retries
        self.quota = quota
        self.start_timeout = start_timeout
        self.cluster = cluster
        self.fresh = fresh
        self.deferrable = deferrable
        self._killed = False
        if not self._awaits_rendering():
            self.training_job()

    def _awaits_rendering(self) -> bool:
        """Say whether something is known only once the task runs."""
        from airflow.sdk import XComArg

        values = list(vars(self).values())
        texts = str([self.command, dict(self.env) if isinstance(self.env, Mapping) else self.env])
        names = " ".join(str(getattr(self, name)) for name in self.template_fields)
        return any(isinstance(v, XComArg) for v in values) or any(sign in texts + names for sign in ("{{", "{%"))

    def training_job(self) -> TrainingJob:
        """Return the job that the task stands for.

        Raises:
            SpecificationError: it can't be; says what to write instead.
        """
        from optimus_core.job import TrainingJob

        return TrainingJob(
            name=self.task_id,
            command=self.command,
            strategy=self.strategy,
            workers=self.workers,
            servers=self.servers,
            batch_size=self.batch_size,
            batch_per=self.batch_per,
            stop=self.stop,
            env=self.env,
            image=self.image,
            working_dir=self.working_dir or self._dag_folder(),
            framework=self.framework,
            workload=self.workload,
            priority=self.priority,
            deadline=self.job_deadline,
            samples_per_epoch=self.samples_per_epoch,
            steps_per_epoch=self.steps_per_epoch,
            metrics=self.metrics,
            resumable=self.resumable,
            grace_seconds=self.grace_seconds,
            retries=self.failure_retries,
            pool=self.quota,
            start_timeout=self.start_timeout,
        )

    def _dag_folder(self) -> str | None:
        path = getattr(self.dag, "fileloc", None) if self.has_dag() else None
        return os.path.dirname(os.path.abspath(path)) if path else None

    def execute(self, context: Context) -> Any:
        """Hand the job to Optimus; then wait in the triggerer, unless it has ended already."""
        from optimus_airflow.driving import event_of

        engine, submission = self._submit(context)
        report = engine.job_by_id(submission.job_id)
        self.log.info('Job "%s" (%s): %s. %s', report.title, report.name, submission.action, report.reason)
        if report.final:
            return self._outcome(event_of(engine, report))
        if not self.deferrable:
            return self._wait_here(engine, submission)
        from optimus_airflow.triggers import OptimusJobTrigger

        return self.defer(
            trigger=OptimusJobTrigger(
                submission.job_id, submission.token, report.attempt, self._may_end_aside(), bool(self.do_xcom_push)
            ),
            method_name="execute_complete",
            timeout=self._time_left(context),
        )

    def _identity(self, engine: Engine, context: Context) -> Identity:
        from optimus_core.engine.identity import Identity

        ti = context["ti"]
        map_index = -1 if ti.map_index is None else ti.map_index
        return Identity.of_task(engine.settings.deployment, ti.dag_id, ti.run_id, ti.task_id, map_index)

    def _submit(self, context: Context) -> tuple[Engine, Submission]:
        from optimus_airflow import settings
        from optimus_core.errors import SpecificationError

        ti = context["ti"]
        try:
            engine = settings.engine()
            identity = self._identity(engine, context)
            job = self.training_job()
            return engine, engine.submit(job, identity, ti.try_number, fresh=self.fresh, cluster=self.cluster or "")
        except SpecificationError as error:
            raise AirflowFailException(str(error)) from error

    def _may_end_aside(self) -> bool:
        """Say whether the trigger may end the task: nothing that only a worker's leg does is lost then."""
        needs_worker = self.outlets or self.multiple_outputs or self._post_execute_hook
        return not needs_worker

    def _time_left(self, context: Context) -> timedelta | None:
        """Return what is left of ``execution_timeout``, which Airflow itself does not enforce over a deferral."""
        if self.execution_timeout is None:
            return None
        start = getattr(context["ti"], "start_date", None)
        if not isinstance(start, datetime):
            return self.execution_timeout
        return max(self.execution_timeout - (datetime.now(UTC) - start), timedelta(seconds=1))

    def execute_complete(self, context: Context, event: Any = None) -> Any:
        """Take the outcome from the trigger."""
        if isinstance(event, Mapping):
            return self._outcome(dict(event))
        return self.execute(context)  # `dag.test` hands on a bare word: the store knows the rest

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Stop the job when its time is over; take it up again when its trigger crashed."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            self._stop(context, "Airflow: execution_timeout")
            raise AirflowException(
                f"The job took longer than the task's execution_timeout, {self.execution_timeout}, and was stopped."
            ) from error
        except TaskDeferralError:
            if not self._may_try_again(context):
                self._stop(context, "Airflow: its trigger crashed again and again")
                raise
            return self.execute(context)

    def _may_try_again(self, context: Context) -> bool:
        """Count a trigger's crash; the count of an earlier try does not matter."""
        store, key = context.get("task_state_store"), f"{_CRASHES}_{context['ti'].try_number}"
        if store is None:
            return False
        crashes = int(store.get(key) or 0) + 1
        store.set(key, crashes)
        self.log.warning("The trigger crashed (%s of %s times): the job goes on", crashes, _MOST_CRASHES)
        return crashes <= _MOST_CRASHES

    def _stop(self, context: Context, by: str) -> None:
        """Stop the job. This runs as the task instance itself, so the job is its own: no token is asked for."""
        from optimus_airflow import settings
        from optimus_airflow.driving import drive_to_end

        engine = settings.engine()
        report = engine.job_of(self._identity(engine, context))
        if report is not None and engine.request_stop(report.id, by=by):
            drive_to_end(engine, report.id)

    def _wait_here(self, engine: Engine, submission: Submission) -> Any:
        """Drive the job in this process; who ends the task ends the job."""
        from optimus_airflow.driving import drive_to_end, event_of

        asked = False
        try:
            while True:
                if self._killed and not asked:
                    asked = engine.request_stop(submission.job_id, token=submission.token, by="Airflow") or True
                step = engine.step(submission.job_id)
                if step.final:
                    return self._outcome(event_of(engine, engine.job_by_id(submission.job_id)))
                self._nap(step.look_again, asked)
        except AirflowException:
            raise
        except BaseException:
            with contextlib.suppress(Exception):
                if engine.request_stop(submission.job_id, token=submission.token, by="Airflow: the task was ended"):
                    drive_to_end(engine, submission.job_id)
            raise

    def _nap(self, seconds: float, asked: bool) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and (asked or not self._killed):
            time.sleep(min(left, 0.2))

    def on_kill(self) -> None:
        """Note that the task is to end; :meth:`execute` stops the job. This runs inside a signal's handler."""
        self._killed = True

    def _outcome(self, event: dict[str, Any]) -> dict[str, Any]:
        if event["state"] == "succeeded":
            return event["result"]
        text = f'Job "{event["title"]}" has {event["state"]}. {event["reason"]}'
        if event.get("tail"):
            text += f"\nThe last lines of its output (all of it: optimus logs {event['job']}):\n{event['tail']}"
        if event["state"] == "stopped":
            raise AirflowFailException(text)  # somebody wanted that; a retry would undo it
        raise AirflowException(text)
