"""What goes wrong with pods: each ends in a retry from the checkpoint or in a true final state, and leaves nothing."""

from __future__ import annotations

import pytest

from tests.cluster.testbed import PYTHON_IMAGE

LONG = {"STEPS": 100_000, "SAVE_EVERY": 5}


def failures(driver, job_id):
    return [event["cause"]["code"] for event in driver.events(job_id, "failed")]


@pytest.fixture
def running(driver, make_job):
    """A job that has a checkpoint, and its pods."""
    made = driver.submit(make_job(workers=(2, 2), **LONG))
    driver.to_step(made.job_id, 8)
    return made.job_id


def comes_back(driver, job_id, failure):
    """The job runs again in a newer generation, from its checkpoint."""
    before = driver.generations(job_id)[-1]["number"]
    driver.drive(job_id, to=lambda: failures(driver, job_id) or driver.generations(job_id)[-1]["number"] > before)
    driver.drive(
        job_id,
        to=lambda: (
            driver.generations(job_id)[-1]["number"] > before
            and driver.generations(job_id)[-1]["first_step"] is not None
        ),
        seconds=90,
    )
    assert failures(driver, job_id) == [failure]
    assert driver.generations(job_id)[-1]["first_step"] > 5
    assert {r.generation for r in driver.alive()} == {driver.generations(job_id)[-1]["number"]}


def evict(core, namespace, name):
    core.create_namespaced_pod_eviction(name, namespace, {"metadata": {"name": name, "namespace": namespace}})


def force_delete(core, namespace, name):
    core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)


def delete(core, namespace, name):
    core.delete_namespaced_pod(name, namespace)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("do", "failure"),
    [
        pytest.param(evict, "evicted", id="evicted"),
        pytest.param(delete, "evicted", id="deleted"),
        pytest.param(force_delete, "lost", id="deleted by force"),
    ],
)
def test_a_pod_that_somebody_takes_away_costs_a_restart_and_no_work(
    driver, running, core, namespace, pods, do, failure
):
    do(core, namespace, pods()[0].metadata.name)
    comes_back(driver, running, failure)


def test_a_script_that_fails_before_its_first_step_fails_its_job_at_once_with_its_words(driver, make_job, pods):
    made = driver.submit(make_job(command=["python3", "-c", "raise SystemExit('no data here')"]))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "user_error")
    assert any("no data here" in output["tail"] for output in driver.engine.outputs(made.job_id))
    driver.drive(to=lambda: pods() == [])


HOG = """
import optimus_train
optimus_train.report(1, 1.0)
hog = bytearray(100 << 20)
hog[::4096] = b"x" * len(hog[::4096])
optimus_train.report(2, 0.5)
"""
"""A training that needs more than 100 MiB after its first step."""


def test_memory_that_ran_out_grows_for_the_next_try(driver, make_job):
    made = driver.submit(make_job(command=["python3", "-u", "-c", HOG]))
    report = driver.drive(made.job_id, to=lambda: (found := driver.report(made.job_id)).final and found, seconds=90)
    assert report.state == "succeeded", report.reason
    assert set(failures(driver, made.job_id)) == {"oom"}
    assert driver.events(made.job_id, "memory_grown")


def test_memory_that_may_not_grow_any_more_ends_the_job_with_the_limit_ranges_words(
    driver, make_job, core, namespace, pods
):
    most = {"limits": [{"type": "Container", "max": {"memory": "80Mi"}}]}
    core.create_namespaced_limit_range(namespace, {"metadata": {"name": "most"}, "spec": most})
    made = driver.submit(make_job(command=["python3", "-u", "-c", HOG]))
    report = driver.drive(made.job_id, to=lambda: (found := driver.report(made.job_id)).final and found, seconds=90)
    assert (report.state, report.reason_code) == ("failed", "refused")
    assert "80Mi" in report.reason
    assert "1.5 times what was asked for, after it ran out" in report.reason
    assert failures(driver, made.job_id)[:2] == ["oom", "refused"]
    driver.drive(to=lambda: pods() == [])


def test_an_image_that_is_not_there_fails_the_job_in_its_start_time_with_the_clusters_words(driver, make_job):
    made = driver.submit(make_job(image="nowhere.invalid/train:1", start_timeout=8, retries=0))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "start_timeout")
    assert "ImagePull" in report.reason


def test_a_quota_that_is_too_small_is_waited_for_and_said(driver, make_job, core, namespace):
    core.create_namespaced_resource_quota(
        namespace, {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "300m"}}}
    )
    made = driver.submit(make_job(workers=(2, 2), STEPS=10))
    report = driver.drive(
        made.job_id, to=lambda: (found := driver.report(made.job_id)).reason_code == "refused_for_now" and found
    )
    assert "quota" in report.reason
    assert not report.final
    core.patch_namespaced_resource_quota("small", namespace, {"spec": {"hard": {"requests.cpu": "2"}}})
    assert driver.to_end(made.job_id).state == "succeeded"
    assert not failures(driver, made.job_id)


def test_a_pod_that_is_held_by_a_gate_is_waited_for_and_not_called_stuck(driver, make_job, core, namespace, pods):
    gated = {"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
    made = driver.submit(make_job(STEPS=10, pod=gated, start_timeout=3))
    report = driver.drive(
        made.job_id, to=lambda: (found := driver.report(made.job_id)).reason_code == "waits_for_gate" and found
    )
    assert report.reason == "Waits for Kueue: held by kueue.x-k8s.io/admission."
    (pod,) = pods()
    core.patch_namespaced_pod(pod.metadata.name, namespace, [{"op": "remove", "path": "/spec/schedulingGates"}])
    assert driver.to_end(made.job_id).state == "succeeded"


def test_a_name_that_a_stranger_has_is_an_error_that_says_so(driver, make_job, core, namespace):
    made = driver.submit(make_job(STEPS=10, start_timeout=5, retries=0))
    name = driver.report(made.job_id).name
    core.create_namespaced_config_map(namespace, {"metadata": {"name": name}})
    driver.drive(made.job_id, to=lambda: driver.report(made.job_id).reason_code == "waits_for_namesake")
    assert "not ours" in driver.report(made.job_id).reason
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "start_timeout")
    assert "not ours" in report.reason


def test_a_namespace_that_is_deleted_ends_its_job_in_a_true_state(driver, make_job, core, namespace, pods):
    made = driver.submit(make_job(retries=1, **LONG))
    driver.to_step(made.job_id, 3)
    core.delete_namespace(namespace)
    report = driver.to_end(made.job_id)
    assert report.state == "failed"
    assert "not found" in report.reason or "terminated" in report.reason
    driver.drive(to=lambda: pods() == [])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param({"namespace": "elsewhere"}, 'namespace "elsewhere" is none of those', id="foreign namespace"),
        pytest.param({"image": None}, "has no image", id="no image"),
        pytest.param({"checkpoints": {"claim": "not-there"}}, "not-there", id="claim that is not there"),
        pytest.param({"pod": {"spec": {"containers": [{"name": "Bad_Name"}]}}}, "Bad_Name", id="bad container"),
    ],
)
def test_a_job_that_the_cluster_would_never_take_is_refused_at_once(driver, make_job, more, said):
    with pytest.raises(ValueError, match=said):
        driver.submit(make_job(**more))
    assert driver.engine.jobs() == []


def test_a_missing_permission_is_named(testbed, api):
    from kubernetes import client

    from optimus_core.cluster.kubernetes import KubernetesCluster
    from optimus_core.cluster.kubernetes.api import Api
    from optimus_core.errors import PermissionMissing

    token = client.CoreV1Api(api).create_namespaced_service_account_token(
        "default", "default", {"spec": {"expirationSeconds": 600}}
    )
    settings = client.Configuration()
    settings.host, settings.ssl_ca_cert = api.configuration.host, api.configuration.ssl_ca_cert
    settings.api_key = {"authorization": f"Bearer {token.status.token}"}
    cluster = KubernetesCluster("kube", Api("kube", client.ApiClient(settings)), ["default"])
    with pytest.raises(PermissionMissing, match="may not list nodes at the cluster scope"):
        cluster.nodes()
    with pytest.raises(PermissionMissing, match='may not list pods in namespace "default"'):
        cluster.list()


def test_the_image_of_these_tests_is_there(core):
    assert any(
        PYTHON_IMAGE in (name or "") for node in core.list_node().items for i in node.status.images for name in i.names
    )
