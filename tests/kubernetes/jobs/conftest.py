"""An engine whose cluster is the real one, and training jobs whose checkpoints lie in a claim that both nodes reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from optimus_core.cluster.kubernetes import KubernetesCluster
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.cluster.kubernetes.connection import connect
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.job import AllReduce, Replicas, TrainingJob
from optimus_core.pod_rules import Checkpoints
from optimus_core.settings import Settings
from tests.cluster.claims import CLAIM, make_claim
from tests.cluster.testbed import PYTHON_IMAGE, Testbed
from tests.conftest import TRAIN, Driver, until


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    """The official client, for what others than Optimus do."""
    return client.CoreV1Api(api)


@pytest.fixture
def claim(core: client.CoreV1Api, namespace: str) -> Iterator[str]:
    """A ReadWriteMany claim on a static volume that both nodes see."""
    volume = make_claim(core, namespace)
    until(lambda: core.read_namespaced_persistent_volume_claim(CLAIM, namespace).status.phase == "Bound")
    yield CLAIM
    core.delete_persistent_volume(volume)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """As in other tests, for a cluster whose pods take a second to start."""
    return dataclasses.replace(settings, cluster="kube", poll_seconds=0.2)


@pytest.fixture
def cluster(testbed: Testbed, namespace: str, claim: str) -> Iterator[KubernetesCluster]:
    """The cluster as Optimus sees it, for jobs of one namespace, over the connection that users have."""
    with connect("kube", {"config_file": str(testbed.kubeconfig)}) as connection:
        yield KubernetesCluster("kube", Api("kube", connection), [namespace], Checkpoints(claim=claim))


@pytest.fixture
def engine(settings: Settings, cluster: KubernetesCluster) -> Engine:
    """An engine on that cluster."""
    return Engine(settings, clusters_from({"kube": cluster}))


@pytest.fixture
def make_job() -> Callable[..., TrainingJob]:
    """Makes an all-reduce job of the small training; upper-case names are its environment."""

    def make(name: str = "digits", workers: tuple[int, int] = (1, 1), cpu: str = "200m", **more: Any) -> TrainingJob:
        env = {key: str(more.pop(key)) for key in list(more) if key.isupper()}
        values: dict[str, Any] = {
            "command": ["python3", "-c", TRAIN],
            "image": PYTHON_IMAGE,
            "strategy": AllReduce(),
            "workers": Replicas(cpu=cpu, memory="64Mi", min=workers[0], max=workers[1]),
            "grace_seconds": 5,
            "start_timeout": 60,
            "env": env,
        }
        return TrainingJob(name=name, **(values | more))

    return make


@pytest.fixture
def driver(engine: Engine, cluster: KubernetesCluster) -> Iterator[Driver]:
    """An engine that can be driven; its jobs are stopped at the end."""
    made = Driver(engine, cluster)
    yield made
    for report in engine.jobs(live=True):
        engine.request_stop(report.id, by="the test's end")
        until(lambda job_id=report.id: engine.step(job_id).final, 60)


@pytest.fixture
def pods(core: client.CoreV1Api, namespace: str) -> Callable[[], list[Any]]:
    """Returns the pods of the namespace as they are now."""
    return lambda: list(core.list_namespaced_pod(namespace).items)


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., list[str]]:
    """Returns the command that runs Python code in a pod."""
    return lambda code, *_: ["python3", "-u", "-c", code]
