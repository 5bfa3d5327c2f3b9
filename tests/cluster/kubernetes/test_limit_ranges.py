"""What LimitRanges add to pods and keep from them; tests/kubernetes holds the same against a real API server."""

import copy

import pytest

from optimus_core.cluster.kubernetes.limit_ranges import breach, with_defaults
from optimus_core.cluster.kubernetes.requests import pod_limits, pod_requests


def limits(kind="Container", name="small", **rules):
    return {"metadata": {"name": name}, "spec": {"limits": [{"type": kind} | rules]}}


def container(name="base", requests=None, limits=None):
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return {"name": name} | ({"resources": resources} if resources else {})


BASE = container(requests={"cpu": "1", "memory": "1Gi"}, limits={"memory": "1Gi"})
POD = {"containers": [BASE, container("beside")], "initContainers": [container("first")]}


def test_defaults_are_filled_in_where_a_container_says_nothing():
    ranges = [limits(default={"cpu": "2", "memory": "256Mi"}, defaultRequest={"cpu": "500m", "memory": "128Mi"})]
    before = copy.deepcopy(POD)
    filled = with_defaults(POD, ranges)
    assert before == POD
    base, beside = (each["resources"] for each in filled["containers"])
    assert base == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    assert beside == {"requests": {"cpu": "500m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}}
    assert (pod_requests(filled)["cpu"], pod_limits(filled)["cpu"]) == (1500, 4000)


def test_a_limit_of_its_own_is_a_request_before_defaults_come():
    filled = with_defaults(
        {"containers": [container(limits={"cpu": "3"})]}, [limits(defaultRequest={"cpu": "1"}, default={"cpu": "1"})]
    )
    assert filled["containers"][0]["resources"] == {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}


def test_the_first_of_several_ranges_wins():
    ranges = [limits(default={"cpu": "1"}), limits(default={"cpu": "2", "memory": "1Gi"})]
    (filled,) = with_defaults({"containers": [container()]}, ranges)["containers"]
    assert filled["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    "ranges",
    [
        pytest.param([], id="none"),
        pytest.param([{"metadata": {"name": "empty"}}], id="empty"),
        pytest.param([limits("PersistentVolumeClaim", max={"storage": "1Gi"})], id="of claims"),
        pytest.param([limits(max={"memory": "1Gi"}, min={"memory": "1Gi"}, default={"memory": "1Gi"})], id="just so"),
        pytest.param([limits("Pod", max={"memory": "1Gi"}, min={"cpu": "1"})], id="just so for the pod"),
    ],
)
def test_what_is_within_its_bounds_is_no_breach(ranges):
    assert breach({"containers": [BASE]}, ranges, "worker") is None


@pytest.mark.parametrize(
    ("ranges", "spec", "said"),
    [
        pytest.param(
            [limits(max={"memory": "512Mi"}, default={"memory": "512Mi"})], {"containers": [BASE]},
            'LimitRange "small" allows container "base" at most 512Mi of memory, but it asks for 1Gi. '
            "Write at most 512Mi in workers.memory.",
            id="memory above the maximum",
        ),
        pytest.param(
            [limits(max={"cpu": "500m"}, default={"cpu": "500m"})], {"containers": [BASE]},
            'gives a container without a limit of cpu one of 500m, but container "base" asks for 1. '
            "Write resources.limits.cpu of it in the pod template, or ask for less.",
            id="a default limit below the request",
        ),
        pytest.param(
            [limits(min={"memory": "2Gi"})], {"containers": [BASE]},
            'wants container "base" to ask for at least 2Gi of memory, but it asks for 1Gi. '
            "Write at least 2Gi in workers.memory.",
            id="memory below the minimum",
        ),
        pytest.param(
            [limits(min={"cpu": "1"})], {"containers": [BASE, container("beside")]},
            'wants container "beside" to ask for at least 1 of cpu, but it asks for none',
            id="a container that asks for nothing",
        ),
        pytest.param(
            [limits("Pod", max={"cpu": "4"})], {"containers": [BASE]},
            "allows the whole pod at most 4 of cpu, but it has no limit. "
            "Write resources.limits.cpu of its containers in the pod template.",
            id="a maximum for the pod without a limit",
        ),
        pytest.param(
            [limits("Pod", max={"memory": "1536Mi"})],
            {"containers": [BASE, container("beside", limits={"memory": "1Gi"})]},
            "allows the whole pod at most 1536Mi of memory, but it asks for 2Gi. "
            "Write at most 1536Mi in workers.memory and the containers beside it together.",
            id="two containers together",
        ),
        pytest.param(
            [limits(max={"nvidia.com/gpu": "1"})],
            {"containers": [container(requests={"nvidia.com/gpu": "2"}, limits={"nvidia.com/gpu": "2"})]},
            'Write at most 1 in workers.devices["nvidia.com/gpu"].',
            id="devices",
        ),
        pytest.param(
            [limits(max={"cpu": "1"}, default={"cpu": "1"})],
            {"containers": [BASE, container("beside", limits={"cpu": "2"})]},
            'but it asks for 2. Write at most 1 in resources of "beside" in the pod template.',
            id="a sidecar above the maximum",
        ),
        pytest.param(
            [limits(maxLimitRequestRatio={"cpu": "2"})],
            {"containers": [container(requests={"cpu": "1"}, limits={"cpu": "3"})]},
            'allows container "base" a limit of cpu of at most 2 times what it asks for, but it asks for 1 and its '
            "limit is 3",
            id="a limit far above the request",
        ),
        pytest.param(
            [limits(max={"memory": "4Gi"}), limits(name="smaller", max={"memory": "512Mi"})], {"containers": [BASE]},
            'LimitRange "smaller"', id="the second range",
        ),
    ],
)  # fmt: skip
def test_a_breach_names_the_range_the_container_and_what_to_write(ranges, spec, said):
    assert said in breach(spec, ranges, "worker")
