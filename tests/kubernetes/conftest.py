"""A real Kubernetes cluster for all tests of this folder.

``OPTIMUS_TEST_KUBECONFIG=/path/to/kubeconfig`` names one of your own. Without it the test cluster is started, and
taken down at the end if it was not up before (``KEEP=1`` leaves it up).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import kubernetes.client
import kubernetes.config
import pytest

from tests.cluster.testbed import Testbed
from tests.cluster.testbed.machine import external
from tests.cluster.testbed.session import shared


class OwnCluster:
    """A cluster of the user's own: tests that would break or rebuild it are skipped."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def __getattr__(self, name: str) -> NoReturn:
        pytest.skip(f"a cluster of your own is used; {name} is done to the test cluster only")


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed | OwnCluster]:
    """The cluster; ``kubeconfig`` is its way in."""
    own = external()
    if own:
        yield OwnCluster(own)
        return
    with shared(Testbed(), keep=bool(os.environ.get("KEEP"))) as bed:
        yield bed


@pytest.fixture(scope="session")
def api(testbed: Testbed) -> Iterator[kubernetes.client.ApiClient]:
    """The Kubernetes client, as the cluster's administrator."""
    with kubernetes.config.new_client_from_config(str(testbed.kubeconfig)) as client:
        yield client


@pytest.fixture
def namespace(api: kubernetes.client.ApiClient) -> Iterator[str]:
    """A fresh namespace; after the test its pods are ended at once, so that the next test finds the nodes empty."""
    core = kubernetes.client.CoreV1Api(api)
    name = f"optimus-test-{uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    _until(lambda: any(each.metadata.name == "default" for each in core.list_namespaced_service_account(name).items))
    yield name
    core.delete_collection_namespaced_pod(name, grace_period_seconds=0)
    _until(lambda: not core.list_namespaced_pod(name).items)
    with suppress(kubernetes.client.exceptions.ApiException):  # a test may have deleted it
        core.delete_namespace(name)


def _until(condition: Callable[[], Any], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)
