"""What nodes offer to jobs, and what a namespace's quotas hold."""

import pytest

from optimus_core.cluster.base import Taint
from optimus_core.cluster.kubernetes.capacity import PODS, node_infos, short_of
from optimus_core.cluster.kubernetes.status import JOB
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


def pod(at="a", cpu="1", phase="Running", ours=False, deleted=False):
    metadata = {"name": "p", "labels": {JOB: "train"} if ours else {"app": "web"}}
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
        pytest.param(pod(ours=True), 0, id="ours"),
        pytest.param({"metadata": {"name": "p"}, "spec": {"nodeName": "a"}}, 0, id="without-anything"),
    ],
)
def test_pods_of_others_that_have_not_ended_are_counted(given, counted):
    info, _ = node_infos([node(), node("b")], [given])
    assert info.others["cpu"] == 1000 * counted


def test_pods_of_others_take_places_for_pods():
    (info,) = node_infos([node()], [pod(), pod(cpu="0"), pod(ours=True), pod(phase="Failed")])
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


# Quotas

ASKED = Resources({"cpu": 3000, "memory": 3 * GIB, GPU: 3})
NOTHING = Resources()


def quota(hard, used=None, **spec):
    return {"metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard, "used": used or {}}}


@pytest.mark.parametrize(
    ("kind", "enough", "short"),
    [
        pytest.param("cpu", "3", "2999m", id="cpu"),
        pytest.param("requests.cpu", "3", "2", id="requests-of-cpu"),
        pytest.param("memory", "3Gi", "2Gi", id="memory"),
        pytest.param("requests.memory", "3Gi", "3072M", id="requests-of-memory"),
        pytest.param("requests.nvidia.com/gpu", "3", "2", id="devices"),
        pytest.param("pods", "3", "2", id="pods"),
        pytest.param("count/pods", "3", "2", id="objects-that-are-pods"),
    ],
)
def test_a_quota_holds_up_to_its_limit(kind, enough, short):
    assert short_of([quota({kind: enough})], ASKED, 3, NOTHING) is None
    told = short_of([quota({kind: short})], ASKED, 3, NOTHING)
    assert told is not None
    assert all(word in told for word in ('"q"', kind, short))


@pytest.mark.parametrize(
    "kind", ["limits.cpu", "limits.memory", "services", "count/configmaps", "requests.storage",
             "requests.ephemeral-storage", "requests.example.com/fpga",
             "gold.storageclass.storage.k8s.io/requests.storage", "count/jobs.batch"],
)  # fmt: skip
def test_a_quota_of_what_is_not_asked_for_is_none(kind):
    assert short_of([quota({kind: "0"})], ASKED, 3, NOTHING) is None


@pytest.mark.parametrize("kind", ["requests.cpu", "requests.memory", "requests.nvidia.com/gpu", "pods"])
def test_a_quota_that_is_used_up_stops_nobody_who_asks_for_nothing_of_it(kind):
    assert short_of([quota({kind: "0"})], NOTHING, 0, NOTHING) is None


def test_what_is_used_counts_and_what_is_given_back_does_not():
    spent = [quota({"requests.cpu": "4", "count/pods": "4"}, {"requests.cpu": "2", "count/pods": "2"})]
    assert "requests.cpu" in short_of(spent, ASKED, 1, NOTHING)
    assert "count/pods" in short_of(spent, ASKED, 3, Resources({"cpu": 1000}))
    assert short_of(spent, ASKED, 3, Resources({"cpu": 1000, PODS: 1})) is None


def test_each_of_several_quotas_must_hold_it():
    wide, narrow = quota({"requests.cpu": "9"}), quota({"requests.cpu": "1"})
    assert short_of([wide, wide], ASKED, 3, NOTHING) is None
    assert short_of([wide, narrow], ASKED, 3, NOTHING) is not None
    assert short_of([], ASKED, 3, NOTHING) is None


def test_a_quota_that_was_never_counted_yet_stops_nobody():
    assert short_of([{"metadata": {"name": "q"}}], ASKED, 3, NOTHING) is None


@pytest.mark.parametrize(("hard", "holds"), [("15k", True), ("1k", True), ("0", False)])
def test_a_quota_of_many_pods_is_read_as_the_api_shortens_it(hard, holds):
    assert (short_of([quota({"pods": hard}, {"pods": "2"})], ASKED, 3, NOTHING) is None) == holds


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        pytest.param({}, True, id="no-scopes"),
        pytest.param({"scopes": ["NotTerminating"]}, True, id="pods-without-a-deadline"),
        pytest.param({"scopes": ["NotBestEffort", "NotTerminating"]}, True, id="pods-that-ask-for-something"),
        pytest.param({"scopes": ["Terminating"]}, False, id="pods-with-a-deadline"),
        pytest.param({"scopes": ["BestEffort"]}, False, id="pods-that-ask-for-nothing"),
        pytest.param({"scopes": ["NotTerminating", "BestEffort"]}, False, id="all-scopes-must-hold"),
        pytest.param({"scopeSelector": {"matchExpressions": []}}, False, id="pods-of-a-priority-class"),
    ],
)
def test_a_quota_of_other_pods_stops_nobody(spec, counts):
    assert (short_of([quota({"pods": "0"}, **spec)], ASKED, 3, NOTHING) is not None) == counts
