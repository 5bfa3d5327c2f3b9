"""Where checkpoints lie: a volume that is another one on each node is told, and never taken for a new beginning."""

from __future__ import annotations

import pytest
from kubernetes import client

from tests.conftest import TRAIN

IMPATIENT = "import optimus_train.checkpoints as c\nc.PATIENCE = 1\n" + TRAIN
ANOTHER_ON_EACH_NODE = {
    "spec": {
        "containers": [
            {
                "name": "base",
                "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "volumeMounts": [{"mountPath": "/mnt/optimus-checkpoints", "subPathExpr": "$(NODE)"}],
            }
        ]
    }
}


def test_a_volume_that_is_another_one_on_each_node_fails_the_job_with_that_sentence(driver, make_job):
    command = ["python3", "-c", IMPATIENT]
    job = make_job(command=command, workers=(1, 2), cpu="2", STEPS=100_000, pod=ANOTHER_ON_EACH_NODE)
    made = driver.submit(job)
    driver.engine.pin(str(made.job_id), "ann", workers=1)
    driver.to_size(made.job_id, 1)
    driver.to_step(made.job_id, 8)
    driver.engine.pin(str(made.job_id), "ann", workers=2)
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "checkpoint_missing")
    assert "is missing: replica" in report.reason
    assert "each node sees another volume: use a claim that is ReadWriteMany" in report.reason
    assert report.result["checkpoint_step"] >= 5
    assert [g["workers"] for g in driver.generations(made.job_id) if g["starting_at"]] == [1, 2], "no second try"


@pytest.fixture
def storage_class(core, namespace):
    """A StorageClass, and a volume of it that both nodes reach: who provisions volumes is not tested here."""
    storage, name = client.StorageV1Api(core.api_client), f"shared-{namespace[-8:]}"
    storage.create_storage_class({"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner"})
    host = {"path": f"/var/lib/optimus-test/{name}", "type": "DirectoryOrCreate"}
    modes, size = ["ReadWriteMany", "ReadWriteOnce"], {"storage": "1Gi"}
    spec = {"capacity": size, "accessModes": modes, "hostPath": host, "storageClassName": name}
    core.create_persistent_volume({"metadata": {"name": name}, "spec": spec})
    yield name
    core.delete_persistent_volume(name)
    storage.delete_storage_class(name)


@pytest.mark.parametrize(
    ("colocate", "mode"),
    [pytest.param(False, "ReadWriteMany", id="anywhere"), pytest.param(True, "ReadWriteOnce", id="on one node")],
)
def test_a_claim_of_a_storage_class_is_made_for_the_job_and_goes_with_its_checkpoints(
    driver, make_job, core, namespace, storage_class, colocate, mode
):
    place = {"storage_class": storage_class, "size": "1Gi"}
    made = driver.submit(make_job(workers=(1, 2), STEPS=100_000, checkpoints=place, colocate=colocate))
    driver.engine.pin(str(made.job_id), "ann", workers=1)
    driver.to_size(made.job_id, 1)
    step = driver.to_step(made.job_id, 8).step
    driver.engine.pin(str(made.job_id), "ann", workers=2)
    driver.to_size(made.job_id, 2)
    driver.to_step(made.job_id, step + 2)
    assert driver.generations(made.job_id)[-1]["first_step"] > step, "it began anew"
    claim = core.read_namespaced_persistent_volume_claim(f"{made.name}-checkpoints", namespace)
    assert (claim.spec.access_modes, claim.spec.storage_class_name) == ([mode], storage_class)
    assert claim.metadata.owner_references is None
    driver.engine.request_stop(made.job_id, by="ann")
    driver.to_end(made.job_id)
    assert _claims(core, namespace) == {"checkpoints", claim.metadata.name}, "a later try goes on from it"
    assert driver.engine.delete_ended(0) == 1
    driver.drive(to=lambda: _claims(core, namespace) == {"checkpoints"})


def _claims(core, namespace):
    return {claim.metadata.name for claim in core.list_namespaced_persistent_volume_claim(namespace).items}


def test_a_claim_of_a_stranger_is_neither_used_nor_deleted(driver, make_job, core, namespace):
    place = {"storage_class": "shared", "size": "1Gi"}
    made = driver.submit(make_job(STEPS=10, checkpoints=place, start_timeout=3, retries=0))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    theirs = f"{made.name}-checkpoints"
    core.create_namespaced_persistent_volume_claim(namespace, {"metadata": {"name": theirs}, "spec": spec})
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "start_timeout")
    assert f"PersistentVolumeClaim {theirs} of cluster kube exists and is not ours" in report.reason
    assert driver.engine.delete_ended(0) == 1
    assert theirs in _claims(core, namespace)


def test_a_claim_that_the_namespace_refuses_is_refused_before_anything_is_stored(driver, make_job, core, namespace):
    item = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
    core.create_namespaced_limit_range(namespace, {"metadata": {"name": "small"}, "spec": {"limits": [item]}})
    with pytest.raises(ValueError, match="maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"):
        driver.submit(make_job(checkpoints={"storage_class": "shared", "size": "2Gi"}))
    assert driver.engine.jobs() == []


def test_a_class_that_provisions_nothing_is_told_in_the_clusters_words(driver, make_job):
    place = {"storage_class": "not-there", "size": "1Gi"}
    made = driver.submit(make_job(STEPS=10, checkpoints=place, start_timeout=3, retries=0))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "start_timeout")
    assert "PersistentVolumeClaim" in report.reason
