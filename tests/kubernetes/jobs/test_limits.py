"""LimitRanges and quotas of a namespace: counted before anything starts, and told in words that say what to write."""

from __future__ import annotations

import pytest


@pytest.fixture
def limit(core, namespace):
    """Makes a LimitRange for containers, or for pods."""

    def make(kind: str = "Container", **rules):
        item = {"type": kind} | rules
        core.create_namespaced_limit_range(namespace, {"metadata": {"name": "small"}, "spec": {"limits": [item]}})

    return make


@pytest.fixture
def quota(core, namespace):
    """Makes a quota."""

    def make(**hard):
        spec = {"hard": {name.replace("_", "."): value for name, value in hard.items()}}
        core.create_namespaced_resource_quota(namespace, {"metadata": {"name": "small"}, "spec": spec})

    return make


BESIDE = {"name": "beside", "image": "optimus-python:1", "command": ["sleep", "600"]}


@pytest.mark.parametrize(
    ("kind", "rules", "more", "said"),
    [
        pytest.param(
            "Container", {"max": {"memory": "32Mi"}}, {},
            'LimitRange "small" allows container "base" at most 32Mi of memory.*Write at most 32Mi in workers.memory',
            id="memory above the maximum",
        ),
        pytest.param(
            "Container", {"max": {"cpu": "100m"}}, {},
            'LimitRange "small" gives a container without a limit of cpu one of 100m.*asks for 200m',
            id="cpu above the default limit",
        ),
        pytest.param(
            "Container", {"min": {"memory": "100Mi"}}, {},
            "wants container .base. to ask for at least 100Mi of memory.*Write at least 100Mi",
            id="memory below the minimum",
        ),
        pytest.param(
            "Pod", {"max": {"cpu": "2"}}, {},
            "allows the whole pod at most 2 of cpu, but it has no limit.*Write resources.limits.cpu",
            id="a maximum of the pod without a limit",
        ),
        pytest.param(
            "Pod", {"max": {"memory": "96Mi"}},
            {"pod": {"spec": {"containers": [BESIDE | {"resources": {"limits": {"memory": "64Mi"}}}]}}},
            "allows the whole pod at most 96Mi of memory, but it asks for 128Mi",
            id="two containers together",
        ),
        pytest.param(
            "Container", {"maxLimitRequestRatio": {"cpu": "2"}},
            {"pod": {"spec": {"containers": [{"name": "base", "resources": {"limits": {"cpu": "1"}}}]}}},
            "at most 2 times what it asks for, but it asks for 200m and its limit is 1",
            id="a limit far above the request",
        ),
    ],
)  # fmt: skip
def test_what_a_limit_range_refuses_is_refused_at_once_with_what_to_write(
    driver, make_job, limit, kind, rules, more, said
):
    limit(kind, **rules)
    with pytest.raises(ValueError, match=said):
        driver.submit(make_job(**more))
    assert driver.engine.jobs() == []


def test_what_a_limit_range_adds_to_pods_is_counted_in_plans(driver, make_job, limit, pods):
    """Two workers of 200m with a sidecar of 1800m by default: a node of 3 holds one of them, and not both."""
    limit(defaultRequest={"cpu": "1800m", "memory": "16Mi"}, default={"cpu": "2", "memory": "64Mi"})
    sidecar = BESIDE | {"restartPolicy": "Always"}
    made = driver.submit(make_job(workers=(2, 4), STEPS=100_000, pod={"spec": {"initContainers": [sidecar]}}))
    driver.to_size(made.job_id, 2)
    (generation,) = driver.generations(made.job_id)
    assert generation["placement"] == {node: {"servers": 0, "workers": 1} for node in ("node-a", "node-b")}
    assert {pod.spec.node_name for pod in pods()} == {"node-a", "node-b"}
    assert {replica.resources["cpu"] for replica in driver.alive()} == {2000}


def test_a_replica_that_no_node_holds_with_what_a_limit_range_adds_is_refused(driver, make_job, limit):
    limit(defaultRequest={"cpu": "2900m"}, default={"cpu": "4"})
    with pytest.raises(ValueError, match=r"workers asks for 200m cpu.* for 3100m cpu.*no single node holds that"):
        driver.submit(make_job(pod={"spec": {"containers": [BESIDE]}}))


@pytest.mark.parametrize(
    ("hard", "said"),
    [
        pytest.param({"limits_memory": "100Mi"}, "allows 100Mi of limits.memory", id="limits of memory"),
        pytest.param({"limits_cpu": "700m"}, "allows 700m of limits.cpu", id="limits of cpu"),
        pytest.param({"requests_memory": "100Mi"}, "allows 100Mi of requests.memory", id="requests of memory"),
    ],
)
def test_a_quota_keeps_a_job_from_growing_and_it_runs_on(driver, make_job, quota, hard, said):
    quota(**hard)
    limited = {"spec": {"containers": [{"name": "base", "resources": {"limits": {"cpu": "400m"}}}]}}
    made = driver.submit(make_job(workers=(1, 3), STEPS=100_000, pod=limited))
    driver.engine.pin(str(made.job_id), "ann", workers=1)
    driver.to_size(made.job_id, 1)
    driver.engine.pin(str(made.job_id), "ann", workers=2)
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "superseded"))
    (given_up,) = driver.events(made.job_id, "superseded")
    assert given_up["cause"]["code"] == "refused_for_now"
    assert said in given_up["cause"]["numbers"]["message"]
    assert [g["state"] for g in driver.generations(made.job_id) if g["starting_at"]] == ["running"]


def test_a_quota_that_wants_limits_says_where_to_write_them(driver, make_job, quota):
    quota(limits_cpu="4")
    with pytest.raises(ValueError, match=r"Write it in the pod template, such as resources.limits.cpu.*must specify"):
        driver.submit(make_job())
    limited = {"spec": {"containers": [{"name": "base", "resources": {"limits": {"cpu": "1"}}}]}}
    assert driver.to_end(driver.submit(make_job(STEPS=3, pod=limited)).job_id).state == "succeeded"


def test_a_full_quota_does_not_hide_what_a_limit_range_adds(driver, make_job, limit, quota, core, namespace):
    """The trial is refused by the quota, so that what its pods would ask for is reckoned here."""
    limit(defaultRequest={"cpu": "1", "memory": "16Mi"}, default={"cpu": "2", "memory": "64Mi"})
    quota(pods="0")
    made = driver.submit(
        make_job(workers=(1, 1), STEPS=3, pod={"spec": {"initContainers": [BESIDE | {"command": ["true"]}]}})
    )
    with driver.ctx.store.transaction() as tx:
        assert tx.peek_job(made.job_id).added == {role: {"cpu": 800} for role in ("worker", "scheduler")}
    core.delete_namespaced_resource_quota("small", namespace)
    assert driver.to_end(made.job_id).state == "succeeded"
