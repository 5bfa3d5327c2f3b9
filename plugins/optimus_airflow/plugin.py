"""The plugin. Airflow imports it in every process, each task's included: nothing heavy belongs here."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from optimus_airflow.links import PREFIX, OptimusJobLink

_PLACES = {
    "Optimus": "nav",
    "Optimus DAG": "dag",
    "Optimus run": "dag_run",
    "Optimus task": "task_instance",
    "Optimus line": "dashboard",
}
"""Name of an app, as the bundle knows it -> where Airflow shows it."""


def _react_app(name: str, destination: str) -> dict[str, Any]:
    route = name.lower().replace(" ", "-")
    app = {"name": name, "bundle_url": f"{PREFIX[1:]}/optimus.js", "url_route": route, "destination": destination}
    return app | ({"nav_top_level": True} if destination == "nav" else {})


class OptimusPlugin(AirflowPlugin):
    """Brings the link to a job and the page behind it; it works in the plugins folder as well."""

    name = "optimus"
    operator_extra_links = [OptimusJobLink()]
    react_apps = [_react_app(*place) for place in _PLACES.items()]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The page's application; only the API server asks for it."""
        from optimus_airflow.web.app import make_app

        return [{"app": make_app(), "url_prefix": PREFIX, "name": "optimus"}]
