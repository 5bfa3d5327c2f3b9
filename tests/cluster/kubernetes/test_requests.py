"""What a pod asks for, counted as Kubernetes' scheduler counts it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.cluster.kubernetes.requests import amounts, pod_requests
from optimus_core.resources import Resources, total

GPU = "nvidia.com/gpu"


def container(cpu=0, memory=0, sidecar=False, limits=None):
    """A container; ``limits`` stand beside its requests."""
    made = {"resources": {"requests": {"cpu": str(cpu), "memory": str(memory)}}}
    if limits:
        made["resources"]["limits"] = limits
    return made | ({"restartPolicy": "Always"} if sidecar else {})


ONE = {"containers": [container(1)]}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({}, 0, id="nothing"),
        pytest.param({"containers": [{}]}, 0, id="asks-for-nothing"),
        pytest.param(ONE, 1, id="one"),
        pytest.param({"containers": [container(1), container(2)]}, 3, id="two-together"),
        pytest.param(ONE | {"initContainers": [container(3)]}, 3, id="a-larger-init-container"),
        pytest.param(ONE | {"initContainers": [container(1)]}, 1, id="an-init-container-as-large"),
        pytest.param(ONE | {"initContainers": [container(2), container(3)]}, 3, id="init-containers-one-after-another"),
        pytest.param(ONE | {"initContainers": [container(2, sidecar=True)]}, 3, id="a-sidecar-adds"),
        pytest.param(
            ONE | {"initContainers": [container(2, sidecar=True), container(3)]}, 5, id="init-beside-a-sidecar"
        ),
        pytest.param(
            ONE | {"initContainers": [container(3), container(2, sidecar=True)]}, 3, id="a-sidecar-that-comes-later"
        ),
        pytest.param(
            ONE | {"initContainers": [container(1, sidecar=True), container(4), container(5, sidecar=True)]},
            7, id="sidecars-around-an-init-container",
        ),
        pytest.param(ONE | {"overhead": {"cpu": "250m"}}, 1.25, id="overhead"),
        pytest.param(ONE | {"initContainers": [container(3)], "overhead": {"cpu": "1"}}, 4, id="overhead-of-init"),
        pytest.param({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2, id="a-limit-without-a-request"),
        pytest.param({"containers": [container(1, limits={"cpu": "4"})]}, 1, id="a-request-below-its-limit"),
        pytest.param(ONE | {"resources": {"requests": {"cpu": "3"}}}, 3, id="for-the-pod-as-a-whole"),
        pytest.param(
            ONE | {"resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}}, 4, id="as-a-whole-and-overhead"
        ),
        pytest.param(ONE | {"resources": {"requests": {"memory": "1Gi"}}}, 1, id="only-memory-as-a-whole"),
    ],
)  # fmt: skip
def test_the_cpu_that_a_pod_asks_for(spec, cpu):
    assert pod_requests(spec)["cpu"] == cpu * 1000


def test_each_kind_is_counted_by_itself():
    spec = {"containers": [container(1, 4000)], "initContainers": [container(2, 1000)]}
    assert pod_requests(spec) == Resources({"cpu": 2000, "memory": 4000})


def test_memory_as_a_whole_leaves_other_kinds_as_they_are():
    spec = {"containers": [container(1, 4000, limits={GPU: "2"})], "resources": {"requests": {"memory": "1Gi"}}}
    assert pod_requests(spec) == Resources({"cpu": 1000, "memory": 1 << 30, GPU: 2})


@pytest.mark.parametrize(
    ("quantities", "counted"),
    [
        pytest.param({"cpu": "1500m", "memory": "1Gi"}, {"cpu": 1500, "memory": 1 << 30}, id="cpu-and-memory"),
        pytest.param({GPU: "2", "example.com/fpga": "1"}, {GPU: 2, "example.com/fpga": 1}, id="devices"),
        pytest.param({GPU: "1k"}, {GPU: 1000}, id="as-the-api-shortens-it"),
        pytest.param({"memory": "100m"}, {"memory": 1}, id="a-part-of-a-byte"),
        pytest.param({"ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi", "pods": "110"}, {}, id="not-handed-out"),
        pytest.param({"attachable-volumes-csi-ebs.io/x": "39"}, {}, id="volumes"),
        pytest.param({"cpu": "0"}, {}, id="zero"),
    ],
)
def test_what_of_kubernetes_quantities_is_counted(quantities, counted):
    assert amounts(quantities) == Resources(counted)


def kubernetes_own(spec):
    """Written as component-helpers' AggregateContainerRequests is."""
    sidecars = largest = 0
    for each in spec["initContainers"]:
        asked = int(each["resources"]["requests"]["cpu"])
        if each.get("restartPolicy") == "Always":
            sidecars += asked
            asked = sidecars
        else:
            asked += sidecars
        largest = max(largest, asked)
    return max(sidecars + sum(int(each["resources"]["requests"]["cpu"]) for each in spec["containers"]), largest)


_CONTAINERS = st.lists(st.builds(container, st.integers(0, 5)), max_size=3)
_INITS = st.lists(st.builds(container, st.integers(0, 5), st.just(0), st.booleans()), max_size=5)


@given(st.fixed_dictionaries({"containers": _CONTAINERS, "initContainers": _INITS}))
def test_it_is_what_kubernetes_counts(spec):
    assert pod_requests(spec)["cpu"] == 1000 * kubernetes_own(spec)


def test_several_pods_ask_for_their_sum():
    assert total(map(pod_requests, [ONE, ONE, {}])) == Resources({"cpu": 2000})
