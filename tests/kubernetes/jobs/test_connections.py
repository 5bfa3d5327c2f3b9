"""A cluster that no file declares, but a job does: whoever drives the job finds it by its name."""

from __future__ import annotations

import dataclasses

import pytest

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
