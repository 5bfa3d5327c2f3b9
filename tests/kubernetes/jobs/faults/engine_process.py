"""An engine in a process of its own, for tests that kill or stop it: it drives one job until a file says enough."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kubernetes import client

from optimus_core.cluster.kubernetes import KubernetesCluster
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.pod_rules import Checkpoints
from optimus_core.settings import Settings
from tests.cluster.claims import CLAIM
from tests.conftest import QUICK


def main(home: Path, url: str, namespace: str, job_id: int, enough: Path) -> None:
    """Drive the job ``job_id`` of the store in ``home`` over the API server at ``url``."""
    settings = Settings(
        home=home,
        database_url=f"sqlite:///{home / 'optimus.db'}",
        cluster="kube",
        poll_seconds=0.2,
        **QUICK,
    )
    configuration = client.Configuration(host=url)
    configuration.retries = False
    with client.ApiClient(configuration) as connection:
        cluster = KubernetesCluster("kube", Api("kube", connection), [namespace], Checkpoints(claim=CLAIM))
        engine = Engine(settings, clusters_from({"kube": cluster}))
        while not engine.step(job_id).final and not enough.exists():
            time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
