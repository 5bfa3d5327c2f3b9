"""The link from a task instance to its job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/optimus"
"""Where Airflow's API server has our pages."""


class OptimusJobLink(BaseOperatorLink):
    """Leads to the page of the training job that a task instance stands for."""

    name = "Optimus job"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's address; it needs nothing but the task instance's key."""
        from optimus_airflow import settings
        from optimus_core.engine.identity import Identity

        identity = Identity.of_task(
            settings.load().deployment, ti_key.dag_id, ti_key.run_id, ti_key.task_id, ti_key.map_index
        )
        return job_url(identity.label)


def job_url(job: str) -> str:
    """Return the address of a job's page, by the job's name."""
    from airflow.configuration import conf

    base = conf.get("api", "base_url", fallback="") or ""
    return f"{base.rstrip('/')}{PREFIX}/jobs/{quote(job, safe='')}"
