"""Which job is meant: (deployment, dag, run, task, map index), outside Airflow (deployment, name)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from optimus_core.names import job_name


@dataclass(frozen=True)
class Identity:
    """Names one job for ever; a later try of the task is a new attempt of the same job."""

    deployment: str
    name: str | None = None
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int = -1

    @classmethod
    def of_task(cls, deployment: str, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Identity:
        """Return the identity of an Airflow task instance."""
        return cls(deployment, None, dag_id, run_id, task_id, map_index)

    @classmethod
    def of_name(cls, deployment: str, name: str) -> Identity:
        """Return the identity of a job that no task runs."""
        return cls(deployment, name)

    @property
    def parts(self) -> tuple[str, ...]:
        """What tells this job from every other."""
        if self.name is not None:
            return (self.deployment, self.name)
        return (self.deployment, str(self.dag_id), str(self.run_id), str(self.task_id), str(self.map_index))

    @property
    def key(self) -> str:
        """The identity as one text, unique in the store."""
        return json.dumps(self.parts, ensure_ascii=False)

    @property
    def label(self) -> str:
        """A DNS-1035 label for the job's objects; what a person looks for comes first in it."""
        if self.name is not None:
            return job_name(self.name, self.deployment)
        return job_name(self.task_id, self.map_index, self.dag_id, self.run_id, self.deployment)

    @property
    def title(self) -> str:
        """The name that a person knows the job by."""
        if self.name is not None:
            return self.name
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}.{self.task_id}{mapped}"

    @property
    def workload(self) -> str:
        """What recurs from run to run: deployment, dag and task, or deployment and name."""
        if self.name is not None:
            return f"{self.deployment}/{self.name}"
        return f"{self.deployment}/{self.dag_id}/{self.task_id}"
