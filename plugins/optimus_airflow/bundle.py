"""Optimus' DAGs for those who install it with pip: a bundle to name in ``[dag_processor] dag_bundle_config_list``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle


class OptimusDagBundle(LocalDagBundle):
    """The folder with the rebalance DAG and the examples."""

    def __init__(self, *, path: str | None = None, **kwargs: Any) -> None:
        super().__init__(path=path or str(folder("dags")), **kwargs)


def folder(name: str) -> Path:
    """Return a folder that comes with Optimus: in the installed package, else in the checkout around it."""
    package = Path(__file__).resolve().parent
    installed = package / name
    return installed if installed.is_dir() else package.parents[1] / name
