"""What nodes offer to jobs."""

import pytest

from optimus_core.cluster.base import Taint
from optimus_core.cluster.kubernetes.capacity import PODS, node_infos
from optimus_core.resources import Resources

GIB = 1 << 30
GPU = "nvidia.com/gpu"


def node(name="a", ready="True", allocatable=None, **spec):
    return {
        "metadata": {"name": name, "labels": {"zone": "z"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "9"} | (allocatable or {}),
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}],
        },
    }  # fmt: skip


def pod(at="a", cpu="1", phase="Running", deleted=False):
    metadata = {"name": "p", "labels": {"app": "web"}}
    if deleted:
        metadata["deletionTimestamp"] = "2026-12-02T09:26:20Z"
    spec = {"containers": [{"resources": {"requests": {"cpu": cpu}}}]} | ({"nodeName": at} if at else {})
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def test_a_node_offers_what_is_allocatable_and_a_number_of_pods():
    (info,) = node_infos([node(allocatable={GPU: "2"})], [])
    assert info.allocatable == Resources({"cpu": 4000, "memory": 8 * GIB, GPU: 2, PODS: 110})
    assert (info.name, info.labels, info.ready, info.taints, info.others) == ("a", {"zone": "z"}, True, (), Resources())


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        pytest.param(pod(), 1, id="running"),
        pytest.param(pod(phase="Pending"), 1, id="pending-on-its-node"),
        pytest.param(pod(phase="Unknown"), 1, id="unknown"),
        pytest.param(pod(deleted=True), 1, id="it-terminates"),
        pytest.param(pod(phase="Succeeded"), 0, id="succeeded"),
        pytest.param(pod(phase="Failed"), 0, id="failed"),
        pytest.param(pod(at=None, phase="Pending"), 0, id="no-node-yet"),
        pytest.param(pod(at="b"), 0, id="on-another-node"),
        pytest.param(pod(at="gone"), 0, id="on-a-node-that-is-not-listed"),
        pytest.param({"metadata": {"name": "p"}, "spec": {"nodeName": "a"}}, 0, id="without-anything"),
    ],
)
def test_pods_of_others_that_have_not_ended_are_counted(given, counted):
    info, _ = node_infos([node(), node("b")], [given])
    assert info.others["cpu"] == 1000 * counted


def test_pods_of_others_take_places_for_pods():
    (info,) = node_infos([node()], [pod(), pod(cpu="0"), pod(phase="Failed")])
    assert info.others == Resources({"cpu": 1000, PODS: 2})


@pytest.mark.parametrize(
    ("given", "ready"),
    [
        pytest.param(node(), True, id="ready"),
        pytest.param(node(ready="False"), False, id="not-ready"),
        pytest.param(node(ready="Unknown"), False, id="not-heard-of"),
        pytest.param(node(unschedulable=True), False, id="cordoned"),
        pytest.param({"metadata": {"name": "a"}}, False, id="it-has-just-joined"),
    ],
)
def test_a_node_is_ready_when_its_kubelet_says_so_and_nobody_cordoned_it(given, ready):
    (info,) = node_infos([given], [])
    assert info.ready == ready


def test_taints_are_kept():
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"key": "bare", "effect": "NoExecute"}]
    (info,) = node_infos([node(taints=taints)], [])
    assert info.taints == (Taint("gpu", "yes", "NoSchedule"), Taint("bare", "", "NoExecute"))


def test_a_number_of_pods_is_read_as_the_api_shortens_it():
    (info,) = node_infos([node(allocatable={"pods": "1k"})], [])
    assert info.allocatable[PODS] == 1000
