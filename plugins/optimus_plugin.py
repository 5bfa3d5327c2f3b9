"""Registers Optimus where this folder is Airflow's plugins folder. An installed Optimus registers itself."""

from importlib.metadata import PackageNotFoundError, distribution

try:
    distribution("airflow-provider-optimus")
except PackageNotFoundError:
    from optimus_airflow.plugin import OptimusPlugin  # noqa: F401
