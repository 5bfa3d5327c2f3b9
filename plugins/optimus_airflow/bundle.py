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
    """Return a folder that comes with Optimus: in the installed package, else beside the plugins folder.

    Raises:
        FileNotFoundError: it is in neither place; says what to copy. In a DAG's file Airflow shows that as its error.
    """
    package = Path(__file__).resolve().parent
    places = (package / name, package.parents[1] / name)
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(
        f"Optimus' folder {name}/ is not at {places[1]}. Copy it there from Optimus' repository, or delete the DAG "
        "that needs it."
    )
