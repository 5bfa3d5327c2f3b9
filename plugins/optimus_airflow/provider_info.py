"""What Airflow asks a provider about itself."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, in the form of Airflow's ``provider_info.schema.json``."""
    from optimus_core import __version__
    from optimus_core.settings import Settings

    return {
        "package-name": "airflow-provider-optimus",
        "name": "Optimus",
        "description": "Sizes, resizes and explains distributed training jobs on Kubernetes.",
        "versions": [__version__],
        "config": {
            "optimus": {
                "description": "How Optimus sizes and drives training jobs.",
                "options": {key: _with_type(option) for key, option in Settings.options().items()},
            }
        },
        "extra-links": ["optimus_airflow.links.OptimusJobLink"],
        "db-managers": ["optimus_airflow.db_manager.OptimusDBManager"],
    }


def _with_type(option: dict[str, Any]) -> dict[str, Any]:
    """Say type and default in the description too: ``airflow config list`` shows nothing else of them."""
    default = "" if option["default"] is None else f" Default: {option['default']}."
    return option | {"description": f"{option['description'].rstrip()}\nType: {option['type']}.{default}\n"}
