"""The plugin. Airflow imports it in every process, each task's included: nothing heavy belongs here."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from optimus_airflow.links import OptimusJobLink


class OptimusPlugin(AirflowPlugin):
    """Brings the link to a job; it works in the plugins folder as well."""

    name = "optimus"
    operator_extra_links = [OptimusJobLink()]
