"""Where the jobs run: two virtual nodes of this machine, or the two nodes of a real Kubernetes cluster."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from optimus_core.engine.engine import Engine

ROOT = Path(__file__).resolve().parents[2]
_NODES = """local:
  kind: local
  nodes:
    - {name: node-1, cpu: "3", memory: 3Gi}
    - {name: node-2, cpu: "3", memory: 3Gi}
"""
_EXAMPLES = "/examples"
_READY_TO_BE_LOST = 40
"""Step that a job has reached before it loses a pod: it has a checkpoint then."""


@dataclass
class Place:
    """What the quickstart must know of a cluster.

    Args:
        clusters: the content of ``clusters.yaml``.
        environ: further environment variables of Airflow.
        note: what a reader of the summary has to know of its nodes.
        lost: the job that has lost a replica on purpose.
    """

    clusters: str
    environ: dict[str, str] = field(default_factory=dict)
    note: str = ""
    lost: str = ""

    def disturb(self, engine: Engine) -> None:
        """Do what is to go wrong, once it is time; called about once a second."""

    def problems(self) -> list[str]:
        """Return what should have happened and has not."""
        return []


@contextmanager
def local() -> Iterator[Place]:
    """This machine, as two nodes."""
    note = "are really there: what a node offers here is accounting, not enforcement"
    yield Place(_NODES, note=note)


@contextmanager
def kubernetes() -> Iterator[Place]:
    """The test cluster, which is started; or the one whose kubeconfig OPTIMUS_TEST_KUBECONFIG names."""
    sys.path.insert(0, str(ROOT))
    from tests.cluster.testbed import Testbed
    from tests.cluster.testbed.machine import external
    from tests.cluster.testbed.session import shared

    own = external()
    if own:
        with _namespace(own) as place:
            yield place
        return
    with shared(Testbed()) as bed, _namespace(bed.kubeconfig) as place:
        yield place


class _OnPods(Place):
    """A namespace of a Kubernetes cluster; one pod is lost on the way."""

    def __init__(self, kubeconfig: Path, core: Any, namespace: str) -> None:
        from tests.cluster.claims import CLAIM
        from tests.cluster.testbed import PYTHON_IMAGE

        arguments = {
            "image": PYTHON_IMAGE,
            "working_dir": _EXAMPLES,
            "volumes": [{"name": "examples", "configMap": {"name": "examples"}}],
            "volume_mounts": [{"name": "examples", "mountPath": _EXAMPLES}],
        }
        cluster = {
            "kind": "kubernetes",
            "config_file": str(kubeconfig),
            "namespaces": [namespace],
            "checkpoints": {"claim": CLAIM},
        }
        environ = {
            "AIRFLOW__OPTIMUS__CLUSTER": "kubernetes",
            "OPTIMUS_EXAMPLES": json.dumps({"python": "python3", "arguments": arguments}),
        }
        super().__init__(json.dumps({"kubernetes": cluster}), environ, "are really there: the nodes share them")
        self._core, self._namespace = core, namespace

    def disturb(self, engine: Engine) -> None:
        """Delete a pod of the first job that has got far enough, at once and without grace."""
        ready = [r for r in engine.jobs(live=True) if r.phase == "running" and (r.checkpoint_step or 0) > 0]
        ready = [report for report in ready if (report.step or 0) >= _READY_TO_BE_LOST]
        if self.lost or not ready:
            return
        pods = self._core.list_namespaced_pod(self._namespace).items
        mine = [pod.metadata.name for pod in pods if pod.metadata.name.startswith(f"{ready[0].name}-worker-")]
        if mine:
            self.lost = ready[0].name
            self._core.delete_namespaced_pod(mine[0], self._namespace, grace_period_seconds=0)

    def problems(self) -> list[str]:
        """Return that no pod was lost, if none was."""
        return [] if self.lost else ["no job came so far that one of its pods could be taken away"]


@contextmanager
def _namespace(kubeconfig: Path) -> Iterator[_OnPods]:
    """A namespace with the examples and a claim for checkpoints; it goes with all that is in it."""
    import kubernetes.client
    import kubernetes.config

    from tests.cluster.claims import make_claim

    with kubernetes.config.new_client_from_config(str(kubeconfig)) as api:
        core, name = kubernetes.client.CoreV1Api(api), f"optimus-demo-{uuid4().hex[:8]}"
        core.create_namespace({"metadata": {"name": name}})
        try:
            core.create_namespaced_config_map(name, _examples())
            volume = make_claim(core, name)
            try:
                yield _OnPods(kubeconfig, core, name)
            finally:
                core.delete_persistent_volume(volume)
        finally:
            core.delete_namespace(name)
            _until_gone(core, name)


def _examples() -> dict[str, Any]:
    """Return the ConfigMap with the training scripts and their data."""
    sys.path.insert(0, str(ROOT / "examples"))
    from _digits import file

    scripts = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.py"))}
    data = {"digits.csv.gz": base64.b64encode(file().read_bytes()).decode()}
    return {"metadata": {"name": "examples"}, "data": scripts, "binaryData": data}


def _until_gone(core: Any, namespace: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(n.metadata.name == namespace for n in core.list_namespace().items):
        time.sleep(0.5)
