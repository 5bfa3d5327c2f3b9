"""The engine of these tests reaches the cluster through a proxy that answers wrongly on demand."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client

from optimus_core.cluster.kubernetes import KubernetesCluster
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.pod_rules import Checkpoints
from tests.cluster.proxy import Proxy, before
from tests.cluster.testbed import Testbed
from tests.conftest import Driver, until


@pytest.fixture
def proxy(testbed: Testbed) -> Iterator[Proxy]:
    """The proxy before the real API server."""
    with before(testbed.kubeconfig) as made:
        yield made
        made.heal()


@pytest.fixture
def cluster(proxy: Proxy, namespace: str, claim: str) -> Iterator[KubernetesCluster]:
    """The cluster behind the proxy."""
    settings = client.Configuration(host=proxy.url)
    settings.retries = False
    with client.ApiClient(settings) as connection:
        yield KubernetesCluster("kube", Api("kube", connection), [namespace], Checkpoints(claim=claim))


@pytest.fixture
def aftermath(driver: Driver, core: client.CoreV1Api, namespace: str, proxy: Proxy) -> Callable[..., Any]:
    """Ends a job and checks what must hold after every fault; returns its report."""

    def check(job_id: int, state: str = "stopped") -> Any:
        proxy.heal()
        driver.engine.request_stop(job_id, by="the test's end")
        report = driver.to_end(job_id)
        assert report.state == state
        for _ in range(2):
            driver.engine.round()
            driver.engine.upkeep()
            time.sleep(0.2)
        until(lambda: _left(core, namespace) == [], 30)
        started = [g for g in driver.generations(job_id) if g["starting_at"]]
        assert all(g["state"] == "gone" for g in started)
        for older, newer in itertools.pairwise(started):
            assert older["gone_at"] <= newer["starting_at"], "two generations at once"
        return report

    return check


def _left(core: client.CoreV1Api, namespace: str) -> list[str]:
    kinds = (core.list_namespaced_pod, core.list_namespaced_service, core.list_namespaced_config_map)
    names = [each.metadata.name for kind in kinds for each in kind(namespace).items]
    return [name for name in names if name != "kube-root-ca.crt"]
