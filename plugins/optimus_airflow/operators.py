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

from optimus_airflow import pod_arguments, pod_clusters, pod_refusals, pods
from optimus_airflow.links import OptimusJobLink
from optimus_airflow.task_log import TaskLog
from optimus_core.errors import SpecificationError
from optimus_core.job import AllReduce, Converged, Epochs, Loss, ParameterServer, Replicas, Steps

if TYPE_CHECKING:
    from airflow.providers.cncf.kubernetes.secret import Secret
    from airflow.sdk import Context
    from kubernetes.client import models as k8s

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
Json = dict[str, Any]


class OptimusTrainingOperator(BaseOperator):
    """Trains with as many workers and parameter servers as Optimus finds best, which may change while it runs.

    What a run came to goes to XCom: final loss, steps, epochs, seconds, replica-seconds, resizes, checkpoint.

    A later try (retry or clear) of a job that has not succeeded goes on from its checkpoint; after a success it
    trains from scratch.

    The arguments from ``namespace`` on are those of KubernetesPodOperator and mean the same, for each replica's pod;
    objects of ``kubernetes.client.models`` and plain data as in Kubernetes' YAML are both taken. What a template says
    of commands, of cpu, memory and devices, or of the pods' names is refused or left out: Optimus decides it.

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
        working_dir: where the command starts; by default the folder of the DAG's file, with an image that of the image.
        framework: whose variables are set besides those of Optimus.
        workload: jobs of one workload learn from each other; by default all runs of this task.
        priority: who has more gets its minimum first.
        deadline: when the job should be done.
        samples_per_epoch: samples in the data, if known.
        steps_per_epoch: batches in the data, if known.
        metrics: a regular expression for the output.
        resumable: False: the script keeps no checkpoints, so the job is never resized.
        grace_seconds: time from the request to stop until the kill; by default 30.
        failure_retries: further tries of replicas within one try of the task, for each class of failure.
        quota: the Optimus pool whose quota the job counts against.
        start_timeout: seconds in which all replicas must run; by default 300.
        hang_timeout: seconds without a step after which the job hangs; by default learned from its usual times.
        cluster: the declared cluster; by default that of ``[optimus] cluster``.
        fresh: a later try always starts from scratch.
        deferrable: wait in the triggerer. False: a worker's slot is taken all the time.
        retries: tries of the task after the first; at least one is wise, since Airflow may lose a task itself.
        checkpoints: where pods keep checkpoints: ``{"claim": NAME}``, ``{"url": URL}``, or for a claim of the job's own
            ``{"storage_class": NAME, "size": "10Gi"}``; by default the cluster's. A claim of its own is called as the
            job with ``-checkpoints`` after it, outlives the job, and goes when its checkpoints are deleted.
        colocate: keep all replicas on one node: a ReadWriteOnce claim will do, but the job grows no further.
        get_logs: write what worker 0 prints to the task's log while it runs, and the end of the others' output when
            they have ended.
        on_finish_action: ``delete_pod``, ``delete_succeeded_pod``, or ``keep_pod`` for people to look at.
        namespace: the pods' namespace; by default that of the template, else the cluster's first.
        env_vars: joins ``env``; what has a ``value_from`` stays a reference.
        env_from: sources of more variables.
        secrets: secrets as variables or files; only references to them leave Kubernetes.
        configmaps: names of config maps whose entries are variables.
        volumes: volumes of the pod.
        volume_mounts: where the container has them.
        ports: ports that the container declares.
        image_pull_policy: ``Always``, ``IfNotPresent`` or ``Never``.
        image_pull_secrets: secrets for pulling the image; a text has names with commas.
        node_selector: labels that a node must have.
        affinity: rules for nodes; Optimus chooses among those that are left.
        tolerations: taints that do not keep pods off a node.
        service_account_name: whom the pods act as.
        automount_service_account_token: whether they get its token.
        labels: the pods' labels.
        annotations: the pods' annotations.
        security_context: of the pod.
        container_security_context: of the container.
        init_containers: run before the container.
        priority_class_name: the pods' priority class.
        schedulername: the scheduler that binds the pods.
        runtime_class_name: the runtime class.
        host_aliases: lines of ``/etc/hosts``.
        dnspolicy: the DNS policy.
        dns_config: the DNS configuration.
        pod_template_file: a YAML file with a pod; the container that trains is ``base``, else the first.
        pod_template_dict: the same as data.
        full_pod_spec: a pod on top of it.
        worker_pod: a pod on top of all, for workers only.
        server_pod: the same for parameter servers only.
        startup_timeout_seconds: the same as ``start_timeout``.
        termination_grace_period: the same as ``grace_seconds``.
        kubernetes_conn_id: with the next three, instead of ``cluster``: the declared cluster that is reached so. If
            none is, it is declared by this, with the job's namespace; ``checkpoints`` must say where they lie then.
        in_cluster: the cluster that Airflow itself runs in.
        config_file: the cluster of this kubeconfig, at the same path wherever Airflow runs.
        cluster_context: the context in it.
    """

    template_fields: Sequence[str] = (
        "command", "env", "image", "working_dir", "workload", "quota", "cluster", "checkpoints", "namespace",
        "env_vars", "env_from", "configmaps", "volumes", "volume_mounts", "node_selector", "labels", "annotations",
        "pod_template_file", "pod_template_dict", "worker_pod", "server_pod", "kubernetes_conn_id",
        "config_file", "cluster_context",
    )  # fmt: skip
    template_fields_renderers = {"command": "json", "env": "json", "env_vars": "json", "pod_template_dict": "json"}
    operator_extra_links = (OptimusJobLink(),)
    ui_color = "#d6efe4"
    pod_template_file: str | None
    get_logs: bool
    on_finish_action: str

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
        grace_seconds: float | None = None,
        failure_retries: int = 3,
        quota: str = "default",
        start_timeout: float | None = None,
        hang_timeout: float | None = None,
        cluster: str = "",
        fresh: bool = False,
        deferrable: bool = True,
        retries: int | None = 1,
        checkpoints: Mapping[str, str] | None = None,
        colocate: bool = False,
        get_logs: bool = True,
        on_finish_action: str = "delete_pod",
        namespace: str | None = None,
        env_vars: Mapping[str, str] | Sequence[k8s.V1EnvVar | Json] | None = None,
        env_from: Sequence[k8s.V1EnvFromSource | Json] | None = None,
        secrets: Sequence[Secret] | None = None,
        configmaps: Sequence[str] | None = None,
        volumes: Sequence[k8s.V1Volume | Json] | None = None,
        volume_mounts: Sequence[k8s.V1VolumeMount | Json] | None = None,
        ports: Sequence[k8s.V1ContainerPort | Json] | None = None,
        image_pull_policy: str | None = None,
        image_pull_secrets: str | Sequence[k8s.V1LocalObjectReference | Json] | None = None,
        node_selector: Mapping[str, str] | None = None,
        affinity: k8s.V1Affinity | Json | None = None,
        tolerations: Sequence[k8s.V1Toleration | Json] | None = None,
        service_account_name: str | None = None,
        automount_service_account_token: bool | None = None,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str] | None = None,
        security_context: k8s.V1PodSecurityContext | Json | None = None,
        container_security_context: k8s.V1SecurityContext | Json | None = None,
        init_containers: Sequence[k8s.V1Container | Json] | None = None,
        priority_class_name: str | None = None,
        schedulername: str | None = None,
        runtime_class_name: str | None = None,
        host_aliases: Sequence[k8s.V1HostAlias | Json] | None = None,
        dnspolicy: str | None = None,
        dns_config: k8s.V1PodDNSConfig | Json | None = None,
        pod_template_file: str | None = None,
        pod_template_dict: Json | None = None,
        full_pod_spec: k8s.V1Pod | Json | None = None,
        worker_pod: k8s.V1Pod | Json | None = None,
        server_pod: k8s.V1Pod | Json | None = None,
        startup_timeout_seconds: float | None = None,
        termination_grace_period: float | None = None,
        kubernetes_conn_id: str | None = None,
        in_cluster: bool | None = None,
        config_file: str | None = None,
        cluster_context: str | None = None,
        **kwargs: Any,
    ) -> None:
        given = dict(locals())
        pod_refusals.refuse(kwargs)
        super().__init__(retries=retries, **pod_refusals.without_meant_anyway(kwargs))
        pod_arguments.keep(self, given)
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
        self.colocate = colocate
        self.grace_seconds = grace_seconds
        self.failure_retries = failure_retries
        self.quota = quota
        self.start_timeout = start_timeout
        self.hang_timeout = hang_timeout
        self.cluster = cluster
        self.fresh = fresh
        self.deferrable = deferrable
        self._killed = False
        if not self._awaits_rendering():
            self.training_job()

    def _awaits_rendering(self) -> bool:
        """Say whether something is known only once the task runs."""
        from airflow.sdk import XComArg

        if any(isinstance(value, XComArg) for value in vars(self).values()):
            return True
        if self.pod_template_file and not os.path.exists(self.pod_template_file):
            return True  # it may lie where tasks run and not where DAGs are read
        return any(_is_open(getattr(self, name)) for name in self.template_fields)

    def training_job(self) -> TrainingJob:
        """Return the job that the task stands for.

        Raises:
            SpecificationError: it can't be; says what to write instead.
        """
        from optimus_core.job import TrainingJob

        try:
            fields = pods.job_fields(self, self._dag_folder())
        except SpecificationError as error:
            raise SpecificationError(f'job "{self.task_id}": {error}') from error
        return TrainingJob(
            name=self.task_id,
            command=self.command,
            strategy=self.strategy,
            workers=self.workers,
            servers=self.servers,
            batch_size=self.batch_size,
            batch_per=self.batch_per,
            stop=self.stop,
            framework=self.framework,
            workload=self.workload,
            priority=self.priority,
            deadline=self.job_deadline,
            samples_per_epoch=self.samples_per_epoch,
            steps_per_epoch=self.steps_per_epoch,
            metrics=self.metrics,
            resumable=self.resumable,
            colocate=self.colocate,
            retries=self.failure_retries,
            pool=self.quota,
            hang_timeout=self.hang_timeout,
            on_finish=str(getattr(self.on_finish_action, "value", self.on_finish_action)),
            **fields,
        )

    def dry_run(self) -> None:
        """Print the pods of one worker and one server; values of environment variables are left out."""
        from optimus_core.names import job_name

        print(pods.dry_run_text(self.training_job(), job_name(self.task_id)))

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
                submission.job_id,
                submission.token,
                report.attempt,
                self._may_end_aside(),
                bool(self.do_xcom_push),
                self.get_logs,
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

        ti = context["ti"]
        try:
            engine = settings.engine()
            identity = self._identity(engine, context)
            job = self.training_job()
            cluster, declaration = pod_clusters.cluster_of(self, engine.settings, job.namespace)
            if declaration is not None:
                engine.declare(cluster, declaration)
            return engine, engine.submit(job, identity, ti.try_number, fresh=self.fresh, cluster=cluster)
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
        from optimus_core.engine.drive import drive_to_end

        engine = settings.engine()
        report = engine.job_of(self._identity(engine, context))
        if report is not None and engine.request_stop(report.id, by=by):
            drive_to_end(engine, report.id)

    def _wait_here(self, engine: Engine, submission: Submission) -> Any:
        """Drive the job in this process; who ends the task ends the job."""
        from optimus_airflow.driving import event_of
        from optimus_core.engine.drive import drive_to_end

        asked, log = False, TaskLog(self.log)
        try:
            while True:
                if self._killed and not asked:
                    asked = engine.request_stop(submission.job_id, token=submission.token, by="Airflow") or True
                step = engine.step(submission.job_id)
                if step.final:
                    return self._outcome(event_of(engine, engine.job_by_id(submission.job_id)))
                if self.get_logs:
                    log.tell(engine, submission.job_id)
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

    def _write_output(self, event: dict[str, Any]) -> None:
        """Write what is left of the replicas' output to the task's log; without it the outcome is the same."""
        if not self.get_logs or "job_id" not in event:
            return
        from optimus_airflow import settings

        TaskLog(self.log).tell(settings.engine(), event["job_id"], last=True)

    def _outcome(self, event: dict[str, Any]) -> dict[str, Any]:
        self._write_output(event)
        if event["state"] == "succeeded":
            return event["result"]
        text = f'Job "{event["title"]}" has {event["state"]}. {event["reason"]}'
        if event.get("tail"):
            text += f"\nThe last lines of its output (all of it: optimus logs {event['job']}):\n{event['tail']}"
        if event["state"] == "stopped":
            raise AirflowFailException(text)  # somebody wanted that; a retry would undo it
        raise AirflowException(text)


def _is_open(value: Any) -> bool:
    """Say whether a value, or one in it, is known only once the task runs."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(_is_open(each) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple):
        return any(_is_open(each) for each in value)
    return callable(value) or hasattr(value, "iter_references")
