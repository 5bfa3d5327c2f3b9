"""What KubernetesPodOperator has and a training job has not, and what to write instead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from optimus_core.errors import SpecificationError
from optimus_core.pod_rules import MAIN

Json = dict[str, Any]

_LOGS = (
    "get_logs=True writes what worker 0 prints, and the end of the others' output, to the task's log; "
    "`optimus logs JOB` shows what is kept of it"
)
_POLL = "How often jobs are looked at is poll_seconds in section [optimus] of Airflow's configuration"
_NAMED = "Optimus names the pods, by which the replicas find each other. Write labels to find them by"
REFUSED: Mapping[str, str] = {
    "active_deadline_seconds": "Write execution_timeout=timedelta(seconds=...), which counts for the whole job",
    "base_container_name": f'The container that trains is called "{MAIN}". Name it so in the template',
    "base_container_status_polling_interval": _POLL,
    "callbacks": "Pods come and go in other processes. Write on_execute_callback, on_success_callback or "
    "on_failure_callback, which Airflow calls",
    "container_logs": _LOGS,
    "container_name_log_prefix_enabled": _LOGS,
    "container_resources": 'Write what a replica asks for in workers=Replicas(cpu="1", memory="1Gi"), and in servers',
    "durable": "A job always outlives its worker, and a retry goes on from its checkpoint. Write fresh=True to train "
    "from scratch instead",
    "hostname": _NAMED,
    "hostnetwork": "Replicas on one node would listen on the same port. Leave it out",
    "init_container_logs": _LOGS,
    "is_delete_operator_pod": 'Write on_finish_action="delete_pod" or "keep_pod"',
    "log_events_on_failure": "The reason of a failure, with what Kubernetes said, is in the task's log anyway",
    "log_events_on_startup": "What a job waits for is shown by `optimus job JOB`",
    "log_formatter": _LOGS,
    "log_pod_spec_on_failure": "Write task.dry_run() to see the pods",
    "logging_interval": _LOGS,
    "name": _NAMED,
    "on_kill_action": "A task that is killed stops its job: nothing outlives its task",
    "pod_runtime_info_envs": "Write them in env_vars, with value_from",
    "poll_interval": _POLL,
    "progress_callback": "Write OptimusJobSensor to act on a job's progress",
    "random_name_suffix": _NAMED,
    "reattach_on_restart": "A job always outlives its worker, and a retry goes on from its checkpoint. Write "
    "fresh=True to train from scratch instead",
    "schedule_timeout_seconds": "Write start_timeout, the seconds in which all replicas must run",
    "skip_on_exit_code": "A replica's exit code is not the job's outcome. Write a branch on the result in XCom",
    "startup_check_interval_seconds": _POLL,
    "subdomain": _NAMED,
    "termination_message_policy": "Write it in pod_template_dict, as terminationMessagePolicy of the container "
    f'"{MAIN}"',
    "trigger_kwargs": "The trigger has nothing to set. Leave it out",
    "xcom_sidecar_container_security_context": "There is no sidecar: what the job came to goes to XCom. Leave it out",
}
_MEANT_ANYWAY: Mapping[str, Any] = {
    "base_container_name": MAIN,
    "hostnetwork": False,
    "is_delete_operator_pod": True,
    "on_kill_action": "delete_pod",
}
"""Values that say what happens anyway: they are taken."""


def refuse(given: Mapping[str, Any]) -> None:
    """Refuse what KubernetesPodOperator takes and a training job can't mean.

    Raises:
        SpecificationError: says what to write instead.
    """
    words = [*words_of(given.get("cmds")), *words_of(given.get("arguments"))]
    for name in ("cmds", "arguments"):
        if given.get(name):
            raise SpecificationError(
                f"{_task(given)}{name} is given; cmds and arguments are one list here. "
                f"Write command={json.dumps(words or ['python', 'train.py'], ensure_ascii=False)}."
            )
    for name, sentence in REFUSED.items():
        if name in given and not _is_meant_anyway(name, given[name]):
            raise SpecificationError(
                f"{_task(given)}{name} is given, which KubernetesPodOperator has and this one has not. {sentence}."
            )


def without_meant_anyway(given: Mapping[str, Any]) -> Json:
    """Return the arguments without those that say what happens anyway."""
    return {name: value for name, value in given.items() if name not in (*REFUSED, "cmds", "arguments")}


def _is_meant_anyway(name: str, value: Any) -> bool:
    return value is None or (name in _MEANT_ANYWAY and getattr(value, "value", value) == _MEANT_ANYWAY[name])


def words_of(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list | tuple) else []


def _task(given: Mapping[str, Any]) -> str:
    return f'job "{given["task_id"]}": ' if given.get("task_id") else ""
