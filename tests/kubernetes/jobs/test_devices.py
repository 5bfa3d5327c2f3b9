"""Devices of any name go through capacity, plans and pods; the nodes that have them are played by kwok."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace

import pytest

from optimus_core.job import ParameterServer, Replicas
from tests.cluster.testbed import programs
from tests.conftest import until

LABEL = {"optimus-test": "devices"}
FAKE = {"kwok.x-k8s.io/node": "fake"}
NODES = {
    "fake-plain": {"cpu": "4"},
    "fake-nvidia": {"cpu": "16", "nvidia.com/gpu": "2"},
    "fake-mig": {"cpu": "16", "nvidia.com/mig-1g.5gb": "2"},
    "fake-amd": {"cpu": "16", "amd.com/gpu": "2"},
}


@pytest.fixture(scope="module")
def machines(testbed, api):
    """One node without devices and one of each kind, with kwok as their kubelet."""
    from kubernetes import client

    core = client.CoreV1Api(api)
    found = programs.build("kwok")
    line = [found["kwok"], f"--kubeconfig={testbed.kubeconfig}", f"--config={found['stages.yaml']}"]
    line += ["--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake"]
    kwok = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for name, amounts in NODES.items():
            size = {"memory": "32Gi", "pods": "20"} | amounts
            body = {"metadata": {"name": name, "annotations": FAKE, "labels": LABEL}}
            core.create_node(body | {"status": {"capacity": size, "allocatable": size}})
        until(lambda: all(_is_ready(core.read_node(name)) for name in NODES))
        yield core
    finally:
        for name in NODES:
            core.delete_node(name)
        kwok.terminate()
        kwok.wait()


def _is_ready(node):
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions or ())


@pytest.fixture
def job(make_job):
    """Makes a job for these nodes; kwok runs no process, so that it keeps no checkpoints."""

    def make(name, **more):
        made = make_job(name, resumable=False, grace_seconds=1, pod={"spec": {"nodeSelector": LABEL}})
        return replace(made, **more)

    return make


@pytest.fixture
def seats(machines, driver, job, core, namespace):
    """Starts a job on these nodes and returns how many pods of each role the scheduler has bound to each node."""

    def start(name, **more):
        made = driver.submit(job(name, **more))
        pods = driver.drive(made.job_id, to=lambda: _bound(core, namespace, driver.report(made.job_id).name))
        return dict(Counter((pod.metadata.labels["optimus/role"], pod.spec.node_name) for pod in pods))

    yield start
    for report in driver.engine.jobs(live=True):
        driver.engine.request_stop(report.id, by="the test's end")
    core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)


def _bound(core, namespace, job):
    pods = core.list_namespaced_pod(namespace, label_selector=f"optimus/job-name={job}").items
    return pods if pods and all(pod.spec.node_name for pod in pods) else None


def replicas(device=None, cpu="1", count=1):
    return Replicas(cpu=cpu, memory="64Mi", devices={device: 1} if device else {}, min=count, max=count)


@pytest.mark.parametrize(
    ("device", "node"),
    [
        pytest.param("nvidia.com/gpu", "fake-nvidia", id="whole"),
        pytest.param("nvidia.com/mig-1g.5gb", "fake-mig", id="a slice"),
        pytest.param("amd.com/gpu", "fake-amd", id="of another vendor"),
    ],
)
def test_a_device_is_asked_for_by_its_name_and_counted(driver, seats, job, core, namespace, device, node):
    before = driver.engine.peek()[1].free[node]
    assert before[device] == 2
    assert seats("one", workers=replicas(device)) == {("worker", node): 1}
    (pod,) = core.list_namespaced_pod(namespace).items
    assert pod.spec.containers[0].resources.requests[device] == "1"
    assert pod.spec.containers[0].resources.limits[device] == "1"
    assert driver.engine.peek()[1].free[node][device] == 1
    made = driver.submit(job("two", workers=replicas(device, count=2)))
    driver.drive(made.job_id, to=lambda: driver.report(made.job_id).reason_code == "waits_for_room")
    assert device in driver.report(made.job_id).reason


def test_more_of_a_device_than_any_node_has_is_refused(machines, driver, job):
    workers = Replicas(cpu="1", memory="64Mi", devices={"amd.com/gpu": 3})
    with pytest.raises(ValueError, match=r'workers.devices\["amd.com/gpu"\] is "3", more than any node holds'):
        driver.submit(job("greedy", workers=workers))


def test_replicas_without_devices_keep_off_the_nodes_that_have_some_until_there_is_no_other_room(seats):
    assert seats("first", workers=replicas(count=3)) == {("worker", "fake-plain"): 3}
    spread = seats("second", workers=replicas(count=2))
    assert spread[("worker", "fake-plain")] == 1
    assert sum(spread.values()) == 2


def test_servers_keep_off_the_devices_that_the_workers_of_their_job_use(seats):
    found = seats(
        "served", strategy=ParameterServer(), workers=replicas("nvidia.com/gpu", count=2), servers=replicas(count=2)
    )
    assert found == {("worker", "fake-nvidia"): 2, ("server", "fake-plain"): 2}
