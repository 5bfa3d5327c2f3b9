"""One real Airflow for all tests of this folder."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def load_real_airflow() -> Any:
    """Return the module beside this file; tests are imported without their folder on the path."""
    if "real_airflow" not in sys.modules:
        spec = importlib.util.spec_from_file_location("real_airflow", HERE / "real_airflow.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["real_airflow"] = module
        spec.loader.exec_module(module)
    return sys.modules["real_airflow"]


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A healthy Airflow that knows the DAGs of these tests."""
    home = tmp_path_factory.mktemp("airflow")
    notes = home / "notes"
    notes.touch()
    metrics = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    metrics.bind(("127.0.0.1", 0))
    extra = {
        "AIRFLOW_VAR_NOTES": str(notes),
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
        "AIRFLOW__METRICS__STATSD_PORT": str(metrics.getsockname()[1]),
        "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
        "AIRFLOW__METRICS__METRICS_ALLOW_LIST": "^optimus_",
    }
    found = load_real_airflow().RealAirflow(home, extra=extra)
    shutil.copy(HERE / "dags.py", found.dags / "e2e.py")
    shutil.copy(HERE.parents[1] / "dags" / "optimus_rebalance.py", found.dags)
    found.notes, found.metrics = notes, metrics
    try:
        found.start()
        yield found
    finally:
        found.stop()
        metrics.close()
