"""The engine of these tests reaches the cluster through a proxy that answers wrongly on demand."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kubernetes import client

from optimus_core.cluster.kubernetes import KubernetesCluster
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.pod_rules import Checkpoints
from optimus_core.settings import Settings
from tests.cluster.proxy import Fault, Proxy, before
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


class EngineProcess:
    """An engine in a process of its own, which reaches the cluster through a proxy of its own."""

    def __init__(self, proxy: Proxy, home: Path, namespace: str) -> None:
        self.proxy = proxy
        self._home, self._namespace, self._enough = home, namespace, home.with_name(f"enough-{uuid4().hex[:8]}")
        self._process: subprocess.Popen[bytes] | None = None
        self._held = threading.Event()
        self._at = "", ""

    def drive(self, job_id: int) -> None:
        """Begin to drive a job."""
        command = [sys.executable, "-m", "tests.kubernetes.jobs.faults.engine_process", str(self._home)]
        command += [self.proxy.url, self._namespace, str(job_id), str(self._enough)]
        self._process = subprocess.Popen(command, cwd=Path(__file__).parents[4])

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def dies_at(self, method: str, path: str) -> Fault:
        """Kill it at its next request of a kind: the server gets it and does it, nobody hears of it."""
        return self.proxy.fault(method, path, times=1, act=lambda: self.signal(signal.SIGKILL))

    def stalls_at(self, method: str, path: str) -> Fault:
        """Stop it at its next request of a kind, which reaches the server when it goes on."""

        self._at = method, path

        def stall() -> None:
            self.signal(signal.SIGSTOP)
            self._held.wait()

        return self.proxy.fault(method, path, times=1, act=stall)

    def finish_step(self) -> None:
        """Let a stopped process go on with the step that it is in, and end."""
        self._enough.touch()
        self._held.set()
        until(lambda: self.proxy.seen(*self._at))  # answered: else its time for that may be over when it goes on
        time.sleep(0.1)
        self.signal(signal.SIGCONT)
        assert self.wait() == 0

    def wait(self) -> int:
        """Wait for its end; return the exit code, below 0 for a signal."""
        assert self._process is not None
        return self._process.wait(60)

    def close(self) -> None:
        """End it, whatever it does."""
        self._held.set()
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def engine_process(testbed: Testbed, settings: Settings, namespace: str) -> Iterator[Callable[[], EngineProcess]]:
    """Makes engines in processes of their own, on the store of ``driver``."""
    with ExitStack() as stack:

        def make() -> EngineProcess:
            made = EngineProcess(stack.enter_context(before(testbed.kubeconfig)), settings.home, namespace)
            stack.callback(made.close)
            return made

        yield make


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
