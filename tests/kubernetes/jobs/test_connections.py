"""A cluster that no file declares, but a job does: whoever drives the job finds it by its name."""

from __future__ import annotations

import dataclasses

import pytest

from optimus_core.cluster.kubernetes import KubernetesCluster
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.engine.engine import Engine
from tests.conftest import Driver


@pytest.fixture
def settings(settings):
    """No file declares a cluster, and jobs that name none are not for Kubernetes."""
    return dataclasses.replace(settings, cluster="local", clusters_file=None)


def test_a_job_of_a_cluster_that_was_declared_on_the_spot_is_driven_by_another_process(
    testbed, settings, namespace, claim, make_job, pods
):
    way = {"kind": "kubernetes", "config_file": str(testbed.kubeconfig)}
    first = Engine(settings)
    first.declare("spot", way | {"namespaces": ["another"]})
    first.declare("spot", way | {"namespaces": [namespace]})
    submitter = Driver(first, first.ctx.cluster("spot"))
    made = submitter.submit(make_job(STEPS=10, namespace=namespace, checkpoints={"claim": claim}), cluster="spot")
    other = Engine(settings)
    driver = Driver(other, other.ctx.cluster("spot"))
    assert driver.cluster.namespaces == ["another", namespace]
    assert driver.to_end(made.job_id).state == "succeeded"
    driver.drive(to=lambda: pods() == [])


def test_jobs_that_another_optimus_runs_in_another_namespace_are_counted(driver, make_job, cluster, api):
    other = KubernetesCluster("other", Api("other", api), ["default"])
    before = {node.name: node.others["cpu"] for node in other.nodes()}
    assert before == {node.name: node.others["cpu"] for node in cluster.nodes()}
    made = driver.submit(make_job(workers=(1, 1), STEPS=100_000), cluster="kube")
    driver.to_size(made.job_id, 1)
    (replica,) = driver.alive()
    assert {node.name: node.others["cpu"] for node in cluster.nodes()} == before
    assert {node.name: node.others["cpu"] for node in other.nodes()} == before | {
        replica.node: before[replica.node] + 200
    }
