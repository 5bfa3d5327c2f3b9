"""The plugin. Airflow imports it in every process, each task's included: nothing heavy belongs here."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from optimus_airflow.links import PREFIX, OptimusJobLink


class OptimusPlugin(AirflowPlugin):
    """Brings the link to a job and the page behind it; it works in the plugins folder as well."""

    name = "optimus"
    operator_extra_links = [OptimusJobLink()]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The page's application; only the API server asks for it."""
        from optimus_airflow.web import make_app

        return [{"app": make_app(), "url_prefix": PREFIX, "name": "optimus"}]
