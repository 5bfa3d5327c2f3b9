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
                "options": Settings.options(),
            }
        },
        "extra-links": ["optimus_airflow.links.OptimusJobLink"],
        "db-managers": ["optimus_airflow.db_manager.OptimusDBManager"],
    }
