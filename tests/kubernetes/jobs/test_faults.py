"""Parts of the cluster die and come back: no job is lost, none is run twice, none is believed dead for no reason."""

from __future__ import annotations

import time

import pytest

from tests.cluster.testbed import Testbed
from tests.conftest import until

LONG = {"STEPS": 100_000, "SAVE_EVERY": 5}


@pytest.fixture
def bed(testbed: Testbed) -> Testbed:
    """The test cluster, whole again after the test."""
    yield testbed
    testbed.up()


@pytest.fixture
def running(driver, make_job):
    """A job of two workers that has a checkpoint."""
    made = driver.submit(make_job(workers=(2, 2), **LONG))
    driver.to_step(made.job_id, 8)
    return made.job_id


def step_for(driver, job_id, seconds):
    """Drive a job for a while; nothing may be raised."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        driver.engine.step(job_id)
        time.sleep(0.2)


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_a_control_plane_that_dies_and_comes_back_costs_no_restart(bed, driver, running, part):
    bed.kill(part)
    step_for(driver, running, 4)
    assert driver.report(running).state == "running", "what can't be seen is not judged"
    bed.start(part)
    step = driver.report(running).step
    driver.drive(running, to=lambda: driver.report(running).step > step + 20, seconds=60)
    assert [g["number"] for g in driver.generations(running)] == [1]


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_a_stop_that_is_asked_for_while_the_control_plane_is_away_is_done_afterwards(bed, driver, running, part, pods):
    bed.kill(part)
    driver.engine.request_stop(running, by="ann")
    step_for(driver, running, 3)
    assert driver.report(running).state == "stopping"
    bed.start(part)
    until(lambda: driver.engine.step(running).final, 60, 0.2)
    assert driver.report(running).state == "stopped"
    until(lambda: pods() == [], 60)


@pytest.mark.parametrize(("part", "seconds"), [("containerd", 3), ("kubelet", 5)])
def test_a_part_of_each_node_that_dies_and_comes_back_costs_no_restart(bed, driver, running, part, seconds):
    for node in "ab":
        bed.kill(f"{part}-{node}")
    step_for(driver, running, seconds)
    for node in "ab":
        bed.start(f"{part}-{node}")
    step = driver.report(running).step
    driver.drive(running, to=lambda: driver.report(running).step > step + 20, seconds=90)
    assert [g["number"] for g in driver.generations(running)] == [1]


def test_a_resize_during_which_the_api_server_dies_is_finished_afterwards(bed, driver, make_job):
    made = driver.submit(make_job(workers=(1, 3), **LONG))
    driver.engine.pin(str(made.job_id), "ann", workers=1)
    driver.to_size(made.job_id, 1)
    driver.to_step(made.job_id, 8)
    driver.engine.pin(str(made.job_id), "ann", workers=3)
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "draining"), seconds=30)
    bed.kill("kube-apiserver")
    step_for(driver, made.job_id, 3)
    bed.start("kube-apiserver")
    driver.drive(made.job_id, to=lambda: driver.report(made.job_id).phase == "running", seconds=90)
    driver.to_size(made.job_id, 3)
    assert {r.generation for r in driver.alive()} == {driver.generations(made.job_id)[-1]["number"]}


def test_a_pod_that_is_preempted_is_not_a_success(bed, driver, make_job, core, namespace):
    """The preempted pods trap the signal, save and exit 0; that is no end of the job."""
    from kubernetes import client

    scheduling = client.SchedulingV1Api(core.api_client)
    name = f"high-{namespace[-8:]}"
    scheduling.create_priority_class({"metadata": {"name": name}, "value": 1000})
    made = driver.submit(make_job(workers=(2, 2), cpu="1500m", **LONG))
    driver.to_step(made.job_id, 8)
    node = driver.alive()[0].node
    container = {
        "name": "c",
        "image": "optimus-python:1",
        "command": ["sleep", "5"],
        "resources": {"requests": {"cpu": "2"}},
    }
    spec = {
        "priorityClassName": name,
        "restartPolicy": "Never",
        "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": node},
    }
    try:
        core.create_namespaced_pod(
            namespace, {"metadata": {"name": "important"}, "spec": spec | {"terminationGracePeriodSeconds": 0}}
        )
        driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "failed"), seconds=60)
        (failed,) = driver.events(made.job_id, "failed")
        assert failed["cause"]["code"] == "evicted"
        until(lambda: core.read_namespaced_pod("important", namespace).status.phase == "Succeeded", 60)
        driver.drive(
            made.job_id,
            to=lambda: (
                driver.generations(made.job_id)[-1]["first_step"] is not None
                and driver.generations(made.job_id)[-1]["number"] > 1
            ),
            seconds=90,
        )
        assert driver.generations(made.job_id)[-1]["first_step"] > 5
    finally:
        scheduling.delete_priority_class(name)
