"""The test cluster itself: that it is what it says, comes back from failures, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes.config
import psutil
import pytest
import urllib3.exceptions
from kubernetes.client import ApiClient, CoreV1Api

from optimus_core.resources import parse_quantity
from tests.cluster.testbed import PYTHON_IMAGE, ClusterError, Testbed
from tests.cluster.testbed.cgroups import ROOT as CGROUPS
from tests.cluster.testbed.machine import external

CHECKOUT = Path(__file__).resolve().parents[2]


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Ask until ``condition()`` is true and return what it gave."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.1)
    return value


def run(core: CoreV1Api, namespace: str, name: str, code: str, **spec: Any) -> None:
    """Create a pod that runs Python ``code``."""
    container = {"name": "main", "image": PYTHON_IMAGE, "command": ["python3", "-u", "-c", code]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    core.create_namespaced_pod(namespace, {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})


def phase(core: CoreV1Api, namespace: str, name: str) -> str:
    return str(core.read_namespaced_pod(name, namespace).status.phase)


def output(core: CoreV1Api, namespace: str, name: str) -> str:
    """Wait until the pod has ended well, and return what it printed."""
    until(lambda: phase(core, namespace, name) in ("Succeeded", "Failed"))
    raw = core.read_namespaced_pod_log(name, namespace, _preload_content=False)  # parsed, 36.0 gives "b'...'"
    text: str = raw.data.decode()
    raw.close()
    assert phase(core, namespace, name) == "Succeeded", text
    return text


@pytest.fixture
def core(api: ApiClient) -> CoreV1Api:
    return CoreV1Api(api)


@pytest.fixture(scope="module")
def ours() -> Iterator[Testbed]:
    """A cluster for these tests alone: they kill parts of it, and fill it."""
    if external():
        pytest.skip("this is about the test cluster, and a cluster of your own is used")
    bed = Testbed(Path(f"/var/tmp/optimus-testbed-ours-{os.getpid()}"))
    try:
        bed.up()
        yield bed
    finally:
        bed.down()


@pytest.fixture
def ours_core(ours: Testbed) -> Iterator[CoreV1Api]:
    with kubernetes.config.new_client_from_config(str(ours.kubeconfig)) as client:
        yield CoreV1Api(client)


@pytest.fixture
def second() -> Iterator[Testbed]:
    """Another cluster beside the shared one."""
    folder = Path(f"/var/tmp/optimus-testbed-second-{os.getpid()}")
    bed = Testbed(folder, cpu="1500m", memory="1Gi", fake_nodes=3)
    try:
        yield bed
    finally:
        bed.down()


def test_each_node_offers_what_was_asked_for(ours: Testbed, ours_core: CoreV1Api) -> None:
    sizes = {node.metadata.name: node.status.allocatable for node in ours_core.list_node().items}
    for name in ("node-a", "node-b"):
        assert sizes[name]["cpu"] == "3"
        assert parse_quantity(sizes[name]["memory"]) == 3 * 2**30


def test_up_again_changes_nothing(ours: Testbed) -> None:
    before = ours.components()
    assert all(before.values())
    ours.up()
    assert ours.components() == before


def test_other_options_than_those_of_the_running_cluster_are_refused(ours: Testbed) -> None:
    with pytest.raises(ClusterError, match="the cluster is up with cpu 3, not 7; take it down first"):
        Testbed(ours.folder, cpu="7").up()


def test_a_pod_runs_on_each_node(core: CoreV1Api, namespace: str) -> None:
    nodes = [node.metadata.name for node in core.list_node().items if not node.spec.taints]
    for node in nodes:
        run(core, namespace, f"hello-{node}", f"import numpy; print('{node}', numpy.arange(4).sum())", nodeName=node)
    for node in nodes:
        assert output(core, namespace, f"hello-{node}") == f"{node} 6\n"


def test_a_pod_may_ask_for_all_that_a_node_offers_and_no_more(ours: Testbed, ours_core: CoreV1Api) -> None:
    for name, cpu in (("all", "3"), ("more", "3001m")):
        asked = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu, "memory": "64Mi"}}
        container = {"name": "main", "image": PYTHON_IMAGE, "command": ["true"], "resources": asked}
        run(ours_core, "default", name, "", containers=[container])
    output(ours_core, "default", "all")
    (condition,) = until(lambda: ours_core.read_namespaced_pod("more", "default").status.conditions)
    assert "Insufficient cpu" in condition.message


def test_the_name_of_a_headless_service_is_found_in_a_pod_on_the_other_node(core: CoreV1Api, namespace: str) -> None:
    service = {"clusterIP": "None", "selector": {"app": "server"}, "publishNotReadyAddresses": True}
    core.create_namespaced_service(namespace, {"metadata": {"name": "server"}, "spec": service})
    serve = "import socket; s = socket.create_server(('', 7000)); s.accept()[0].sendall(b'hello')"
    first, *_, last = [node.metadata.name for node in core.list_node().items if not node.spec.taints]
    run(core, namespace, "server", serve, nodeName=first, hostname="first", subdomain="server")
    ask = f"""
import socket, time
for attempt in range(100):
    try:
        print(socket.create_connection(("first.server.{namespace}.svc.cluster.local", 7000), 5).recv(9).decode())
        break
    except OSError as error:
        time.sleep(0.2)
try:
    socket.getaddrinfo("no.such.name", 1)
except socket.gaierror:
    print("no such name")
"""
    run(core, namespace, "client", ask, nodeName=last)
    assert output(core, namespace, "client") == "hello\nno such name\n"


def test_the_api_server_comes_back_after_a_kill_and_pods_live_on(ours: Testbed, ours_core: CoreV1Api) -> None:
    run(ours_core, "default", "lasting", "import time; time.sleep(1000)")
    until(lambda: phase(ours_core, "default", "lasting") == "Running")
    ours.kill("kube-apiserver")
    assert ours.components()["kube-apiserver"] is None
    with pytest.raises(urllib3.exceptions.HTTPError):
        ours_core.list_node(_request_timeout=2)
    ours.start("kube-apiserver")
    ours.up()
    assert phase(ours_core, "default", "lasting") == "Running"
    run(ours_core, "default", "late", "print('late')")
    assert output(ours_core, "default", "late") == "late\n"


@pytest.mark.parametrize("component", ["etcd", "containerd-a", "kubelet-b", "kube-scheduler", "kube-proxy"])
def test_up_starts_what_has_died_and_only_that(ours: Testbed, ours_core: CoreV1Api, component: str) -> None:
    before = ours.components()
    ours.kill(component)
    ours.up()
    after = ours.components()
    assert all(after.values())
    assert {name for name in after if after[name] != before[name]} == {component}
    run(ours_core, "default", f"after-{component}", "print('well')")
    assert output(ours_core, "default", f"after-{component}") == "well\n"


def test_sizes_and_fake_nodes_are_as_asked(ours: Testbed, second: Testbed) -> None:
    second.up()
    with kubernetes.config.new_client_from_config(str(second.kubeconfig)) as client:
        core = CoreV1Api(client)
        sizes = {node.metadata.name: node.status.allocatable for node in core.list_node().items}
        assert sorted(sizes) == ["fake-0000", "fake-0001", "fake-0002", "node-a", "node-b"]
        assert (sizes["node-b"]["cpu"], parse_quantity(sizes["node-b"]["memory"])) == ("1500m", 2**30)
        tolerated = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
        choice = {"kubernetes.io/hostname": "fake-0001"}
        run(core, "default", "played", "", tolerations=tolerated, nodeSelector=choice)
        until(lambda: phase(core, "default", "played") == "Running")
    assert "up: 5 of 5 nodes are Ready" in second.status()[-1]


def test_down_leaves_nothing(ours: Testbed, second: Testbed) -> None:
    before = _host()
    second.up()
    with kubernetes.config.new_client_from_config(str(second.kubeconfig)) as client:
        core = CoreV1Api(client)
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
        for node in ("node-a", "node-b"):
            run(core, "default", f"stubborn-{node}", stubborn, nodeName=node)
            until(lambda name=f"stubborn-{node}": phase(core, "default", name) == "Running")
    assert len(_traces(second)) > 10
    second.down()
    assert _host() == before
    assert not _traces(second)
    assert ours.alive
    second.down()  # of what is down: changes nothing


def test_a_start_that_was_cut_off_leaves_nothing_after_down(ours: Testbed, second: Testbed) -> None:
    words = [sys.executable, "-m", "tests.cluster.testbed", "up", "--dir", str(second.folder)]
    for moment in (0.3, 1.0, 2.5):
        starting = subprocess.Popen(words, cwd=CHECKOUT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(moment)
        starting.kill()
        starting.wait()
        second.down()
        assert not _traces(second)


def test_a_machine_without_go_is_told_what_it_lacks(tmp_path: Path) -> None:
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    if any(Path(folder, "go").exists() for folder in path.split(":")):
        pytest.skip("Go is among the system's own commands")
    done = _command("up", "--dir", "/var/tmp/optimus-no-go", PATH=path, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 2
    assert "Go 1.26 or newer" in done.stderr
    assert "OPTIMUS_TEST_KUBECONFIG=/path/to/kubeconfig" in done.stderr


def test_nothing_is_done_to_a_cluster_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "kubeconfig"
    assert _command("up", OPTIMUS_TEST_KUBECONFIG=str(own)).returncode == 2
    own.touch()
    for command, code, text in (("up", 0, f"{own}\n"), ("down", 0, ""), ("kill etcd", 1, "")):
        done = _command(*command.split(), OPTIMUS_TEST_KUBECONFIG=str(own))
        assert (done.returncode, done.stdout) == (code, text)


def _command(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-m", "tests.cluster.testbed", *words]
    return subprocess.run(
        whole, cwd=CHECKOUT, env={**os.environ, **environ}, capture_output=True, text=True, check=False
    )


def _host() -> list[str]:
    """What every cluster could change on the machine."""
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False)
    return [tables.stdout, *(Path("/etc", name).read_text() for name in ("hosts", "resolv.conf"))]


def _traces(bed: Testbed) -> list[str]:
    """Everything on the machine that has to do with one cluster."""
    places = [bed.folder, Path("/sys/class/net", bed.sandbox.id)]
    places += [*CGROUPS.glob(f"*/{bed.sandbox.id}"), *CGROUPS.glob(bed.sandbox.id)]
    found = [str(place) for place in places if place.exists()]
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{bed.folder}/" in line]
    for process in psutil.process_iter():
        try:
            if str(bed.folder) in " ".join([*process.cmdline(), process.cwd()]) and process.pid != os.getpid():
                found.append(f"{process.pid} {process.cmdline()}")
        except psutil.Error:
            continue
    return found
