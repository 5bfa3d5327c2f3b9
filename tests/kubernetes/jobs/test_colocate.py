"""A claim that only one node can write: refused, unless all replicas stay on one node."""

from __future__ import annotations

import pytest

from optimus_core.cluster.kubernetes import KubernetesCluster
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.pod_rules import Checkpoints
from tests.cluster.claims import CLAIM, make_claim
from tests.conftest import until


@pytest.fixture
def claim(core, namespace):
    """A ReadWriteOnce claim on a static volume."""
    volume = make_claim(core, namespace, "ReadWriteOnce")
    until(lambda: core.read_namespaced_persistent_volume_claim(CLAIM, namespace).status.phase == "Bound")
    yield CLAIM
    core.delete_persistent_volume(volume)


@pytest.fixture
def cluster(testbed, api, namespace, claim):
    return KubernetesCluster("kube", Api("kube", api), [namespace], Checkpoints(claim=claim))


def test_a_claim_of_one_node_is_refused_with_both_ways_out(driver, make_job):
    with pytest.raises(ValueError, match=r"only one node can write it.*ReadWriteMany.*colocate=True"):
        driver.submit(make_job(workers=(2, 4)))
    assert driver.engine.jobs() == []


def test_a_job_that_keeps_together_may_use_it_and_goes_on_from_its_checkpoint(driver, make_job, pods):
    made = driver.submit(make_job(workers=(1, 4), colocate=True, STEPS=100_000, SAVE_EVERY=1000))
    driver.engine.pin(str(made.job_id), "ann", workers=1)
    driver.to_size(made.job_id, 1)
    step = driver.to_step(made.job_id, 5).step
    driver.engine.pin(str(made.job_id), "ann", workers=3)
    driver.to_size(made.job_id, 3)
    first = driver.drive(made.job_id, to=lambda: driver.generations(made.job_id)[-1]["first_step"])
    assert first > step, "it began anew"
    assert len({pod.spec.node_name for pod in pods() if pod.status.phase == "Running"}) == 1
