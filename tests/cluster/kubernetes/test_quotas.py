"""What a namespace's quotas hold, and what a pod counts against them."""

import pytest

from optimus_core.cluster.kubernetes.capacity import PODS
from optimus_core.cluster.kubernetes.quotas import charge, short_of
from optimus_core.resources import Resources

GIB = 1 << 30
GPU = "nvidia.com/gpu"


def pods(count, limits=None, **requests):
    """What so many pods of one container count."""
    asked = {"cpu": "1", "memory": "1Gi", GPU: "1"} | requests
    limited = {"memory": asked["memory"], GPU: asked[GPU]} | (limits or {})
    one = charge({"containers": [{"resources": {"requests": asked, "limits": limited}}]})
    return one * count


ASKED = pods(3, {"cpu": "2"})
NOTHING = Resources()


def test_a_pod_counts_its_requests_its_limits_and_itself():
    assert pods(1) == Resources(
        {
            "requests.cpu": 1000, "requests.memory": GIB, f"requests.{GPU}": 1,
            "limits.memory": GIB, f"limits.{GPU}": 1, PODS: 1,
        }
    )  # fmt: skip


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
        pytest.param("limits.cpu", "6", "5999m", id="limits-of-cpu"),
        pytest.param("limits.memory", "3Gi", "2Gi", id="limits-of-memory"),
        pytest.param("pods", "3", "2", id="pods"),
        pytest.param("count/pods", "3", "2", id="objects-that-are-pods"),
    ],
)
def test_a_quota_holds_up_to_its_limit(kind, enough, short):
    assert short_of([quota({kind: enough})], ASKED, NOTHING) is None
    told = short_of([quota({kind: short})], ASKED, NOTHING)
    assert told is not None
    assert all(word in told for word in ('"q"', kind, short))


@pytest.mark.parametrize(
    "kind", ["services", "count/configmaps", "requests.storage",
             "requests.ephemeral-storage", "requests.example.com/fpga",
             "gold.storageclass.storage.k8s.io/requests.storage", "count/jobs.batch"],
)  # fmt: skip
def test_a_quota_of_what_is_not_asked_for_is_none(kind):
    assert short_of([quota({kind: "0"})], ASKED, NOTHING) is None


@pytest.mark.parametrize("kind", ["requests.cpu", "limits.cpu", "requests.nvidia.com/gpu", "pods"])
def test_a_quota_that_is_used_up_stops_nobody_who_asks_for_nothing_of_it(kind):
    assert short_of([quota({kind: "0"})], NOTHING, NOTHING) is None


def test_what_is_used_counts_and_what_is_given_back_does_not():
    spent = [quota({"requests.cpu": "4", "count/pods": "4"}, {"requests.cpu": "2", "count/pods": "2"})]
    assert "requests.cpu" in short_of(spent, pods(3), NOTHING)
    assert "count/pods" in short_of(spent, pods(3), Resources({"requests.cpu": 1000}))
    assert short_of(spent, pods(3), pods(1)) is None


def test_each_of_several_quotas_must_hold_it():
    wide, narrow = quota({"requests.cpu": "9"}), quota({"requests.cpu": "1"})
    assert short_of([wide, wide], ASKED, NOTHING) is None
    assert short_of([wide, narrow], ASKED, NOTHING) is not None
    assert short_of([], ASKED, NOTHING) is None


def test_a_quota_that_was_never_counted_yet_stops_nobody():
    assert short_of([{"metadata": {"name": "q"}}], ASKED, NOTHING) is None


@pytest.mark.parametrize(("hard", "holds"), [("15k", True), ("1k", True), ("0", False)])
def test_a_quota_of_many_pods_is_read_as_the_api_shortens_it(hard, holds):
    assert (short_of([quota({"pods": hard}, {"pods": "2"})], ASKED, NOTHING) is None) == holds


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
    assert (short_of([quota({"pods": "0"}, **spec)], ASKED, NOTHING) is not None) == counts


def test_the_words_say_what_is_needed_and_what_is_free():
    told = short_of([quota({"limits.memory": "4Gi"}, {"limits.memory": "2560Mi"})], ASKED, NOTHING)
    assert told == 'quota "q" allows 4Gi of limits.memory, and too little is left: 3Gi needed, 1536Mi free'
