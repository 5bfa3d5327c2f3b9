"""A real Airflow whose training tasks run as pods of the real cluster."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kubernetes import client

from optimus_core.engine.engine import Engine
from optimus_core.settings import Settings
from tests.cluster.claims import CLAIM, make_claim
from tests.cluster.testbed import PYTHON_IMAGE, Testbed
from tests.conftest import until
from tests.e2e.real_airflow import RealAirflow

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def space(api: client.ApiClient) -> Iterator[str]:
    """The namespace of these jobs, with a claim that both nodes reach."""
    core, name = client.CoreV1Api(api), f"optimus-airflow-{uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    volume = make_claim(core, name)
    until(lambda: any(each.metadata.name == "default" for each in core.list_namespaced_service_account(name).items))
    yield name
    core.delete_namespace(name)
    core.delete_persistent_volume(volume)


@pytest.fixture(scope="session")
def airflow(testbed: Testbed, space: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A healthy Airflow that knows the DAGs of these tests; ``engine`` looks into its jobs."""
    home = tmp_path_factory.mktemp("airflow")
    cluster = {
        "kind": "kubernetes",
        "config_file": str(testbed.kubeconfig),
        "namespaces": [space],
        "checkpoints": {"claim": CLAIM},
    }
    extra = {
        "OPTIMUS_TEST_IMAGE": PYTHON_IMAGE,
        "AIRFLOW__OPTIMUS__CLUSTER": "kube",
        "AIRFLOW__OPTIMUS__POLL_SECONDS": "1",
        "AIRFLOW__OPTIMUS__ROUND_DELAY_SECONDS": "1",
    }
    found = RealAirflow(home, extra=extra)
    (home / "optimus").mkdir()
    (home / "optimus" / "clusters.yaml").write_text(json.dumps({"kube": cluster}))
    shutil.copy(HERE / "dags.py", found.dags / "on_pods.py")
    shutil.copy(HERE.parents[2] / "dags" / "optimus_rebalance.py", found.dags)
    try:
        found.start()
        found.engine = Engine(Settings.load(found.environ))
        yield found
    finally:
        found.stop()
