"""A node that somebody else's pod fills between the plan and the start: told, given up, and started elsewhere."""

from __future__ import annotations

import pytest

from tests.cluster.testbed import PYTHON_IMAGE
from tests.conftest import until


@pytest.fixture
def fill(core, namespace):
    """Fills a node, past the scheduler, with a pod of somebody else; waits until it runs."""

    def make(node):
        asked = {"requests": {"cpu": "2500m"}}
        container = {"name": "c", "image": PYTHON_IMAGE, "command": ["sleep", "600"], "resources": asked}
        spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
        core.create_namespaced_pod(namespace, {"metadata": {"name": "stranger"}, "spec": spec})
        until(lambda: core.read_namespaced_pod("stranger", namespace).status.phase == "Running")

    return make


def placed(driver, job_id):
    """The nodes of the job's newest generation."""
    return list(driver.generations(job_id)[-1]["placement"])


def ends_elsewhere(driver, made, node):
    """The job succeeds on another node, without a retry."""
    report = driver.to_end(made.job_id)
    assert report.state == "succeeded", report.reason
    assert driver.events(made.job_id, "failed") == []
    (elsewhere,) = placed(driver, made.job_id)
    assert elsewhere != node
    (given_up,) = driver.events(made.job_id, "rolled_back")
    assert given_up["cause"]["code"] == "node_taken"
    assert given_up["cause"]["numbers"]["node"] == node
    return given_up["cause"]["numbers"]


def test_a_node_that_fills_up_before_the_pods_are_made(driver, make_job, fill):
    made = driver.submit(make_job(cpu="2", STEPS=10))
    (node,) = placed(driver, made.job_id)
    fill(node)
    told = driver.drive(made.job_id, to=lambda: driver.report(made.job_id).reason_code)
    assert told == "waits_for_room_to_be_freed"
    ends_elsewhere(driver, made, node)


def test_a_node_that_fills_up_before_the_pods_are_bound(driver, make_job, fill, cluster, monkeypatch):
    made = driver.submit(make_job(cpu="2", STEPS=10))
    (node,) = placed(driver, made.job_id)
    create = cluster.create

    def late(group, replicas):
        monkeypatch.undo()
        fill(node)
        create(group, replicas)

    monkeypatch.setattr(cluster, "create", late)
    numbers = ends_elsewhere(driver, made, node)
    assert "Insufficient cpu" in numbers["message"]
    assert (numbers["needed"], numbers["free"]) == ("2 cpu, 64Mi memory", numbers["free"])
    assert numbers["free"].startswith("500m cpu")


def test_a_job_that_can_not_grow_into_a_node_that_fills_up_runs_on(driver, make_job, fill):
    made = driver.submit(make_job(workers=(1, 2), cpu="2", STEPS=100_000))
    driver.engine.pin(str(made.job_id), "ann", workers=1)
    driver.to_size(made.job_id, 1)
    (own,) = placed(driver, made.job_id)
    driver.engine.pin(str(made.job_id), "ann", workers=2)
    (other,) = set(placed(driver, made.job_id)) - {own}
    fill(other)
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "rolled_back"))
    report = driver.to_step(made.job_id, driver.report(made.job_id).step + 3)
    assert (report.phase, report.workers) == ("running", 1)
    assert [g["state"] for g in driver.generations(made.job_id) if g["starting_at"]] == ["running"], "it was stopped"
