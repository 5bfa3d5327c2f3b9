"""A node is taken away from a job: it costs a restart on another node, and is not the job's fault."""

from __future__ import annotations

import pytest

from tests.conftest import until

DISRUPTIONS = {"evicted", "lost"}
"""Classes of failures that come from outside."""


@pytest.fixture
def running(driver, make_job):
    """A job that has a checkpoint, and the node of its only worker."""
    made = driver.submit(make_job(STEPS=100_000, SAVE_EVERY=5))
    driver.to_step(made.job_id, 8)
    return made.job_id, driver.alive()[0].node


@pytest.fixture
def repaired(testbed, core):
    """Puts the nodes right again after the test."""
    yield
    there = {node.metadata.name for node in core.list_node().items}
    for name in ("a", "b"):
        if f"node-{name}" not in there:  # a kubelet registers its node when it starts
            testbed.kill(f"kubelet-{name}")
            testbed.start(f"kubelet-{name}")
            until(lambda n=name: _is_ready(core, f"node-{n}"), 60, 0.2)
        core.patch_node(f"node-{name}", {"spec": {"unschedulable": None, "taints": None}})


def _is_ready(core, name):
    nodes = {node.metadata.name: node for node in core.list_node().items}
    return name in nodes and any(
        each.type == "Ready" and each.status == "True" for each in nodes[name].status.conditions
    )


def drain(core, namespace, node):
    """Cordon the node and evict what runs there, as ``kubectl drain`` does."""
    core.patch_node(node, {"spec": {"unschedulable": True}})
    for pod in core.list_namespaced_pod(namespace, field_selector=f"spec.nodeName={node}").items:
        name = {"name": pod.metadata.name, "namespace": namespace}
        core.create_namespaced_pod_eviction(pod.metadata.name, namespace, {"metadata": name})


def taint(core, namespace, node):
    """Give the node a taint that nobody tolerates; the taint manager deletes its pods."""
    core.patch_node(node, {"spec": {"taints": [{"key": "optimus-test", "effect": "NoExecute"}]}})


def delete(core, namespace, node):
    """Delete the node object; the pod garbage collector takes its pods a minute later."""
    core.delete_node(node)


@pytest.mark.parametrize("take", [pytest.param(each, id=each.__name__) for each in (drain, taint, delete)])
def test_a_job_whose_node_is_taken_away_goes_on_on_another(driver, running, repaired, core, namespace, aftermath, take):
    job_id, node = running
    take(core, namespace, node)

    def goes_on():
        newest = driver.generations(job_id)[-1]
        return newest["first_step"] is not None and node not in newest["placement"] and newest

    newest = driver.drive(job_id, to=goes_on, seconds=150)
    assert newest["first_step"] > 5, "it began anew"
    assert {event["cause"]["code"] for event in driver.events(job_id, "failed")} <= DISRUPTIONS
    assert {replica.node for replica in driver.alive()} == set(newest["placement"])
    aftermath(job_id)
