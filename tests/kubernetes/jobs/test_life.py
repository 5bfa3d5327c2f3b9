"""A job's life as pods: it starts, is resized from its checkpoint, ends, and leaves nothing."""

from __future__ import annotations

import textwrap

import pytest


@pytest.mark.smoke
def test_a_job_runs_to_its_end_and_its_pods_are_gone(driver, make_job, pods):
    made = driver.submit(make_job(STEPS=20))
    report = driver.to_end(made.job_id)
    assert (report.state, report.step, report.loss) == ("succeeded", 20, 1 / 20)
    assert report.result["checkpoint_step"] == 20
    driver.drive(to=lambda: pods() == [])


def test_workers_find_each_other_by_name_and_print_into_the_store(driver, make_job):
    code = textwrap.dedent("""
        import os, socket, time, optimus_train
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if os.environ["RANK"] == "0":
            server = socket.create_server(("", port))
            peer, _ = server.accept()
            print("heard", peer.recv(10).decode())
            optimus_train.report(1, 0.5)
        else:
            for _ in range(100):
                try:
                    socket.create_connection((host, port)).sendall(b"rank 1")
                    break
                except OSError:
                    time.sleep(0.1)
    """)
    job = make_job(command=["python3", "-u", "-c", code], workers=(2, 2), framework="pytorch")
    made = driver.submit(job)
    report = driver.to_end(made.job_id)
    assert (report.state, report.loss) == ("succeeded", 0.5), report.reason
    assert any("heard rank 1" in output["tail"] for output in driver.engine.outputs(made.job_id))


@pytest.mark.smoke
def test_a_job_grows_and_shrinks_and_goes_on_from_its_checkpoint(driver, make_job):
    made = driver.submit(make_job(workers=(1, 4), STEPS=100_000, SAVE_EVERY=1000))
    driver.engine.pin(str(made.job_id), "ann", workers=1)
    driver.to_size(made.job_id, 1)
    driver.to_step(made.job_id, 10)
    for workers in (3, 2):
        driver.engine.pin(str(made.job_id), "ann", workers=workers)
        before = driver.report(made.job_id).step
        driver.to_size(made.job_id, workers)
        driver.to_step(made.job_id, before + 5)
        newest = driver.generations(made.job_id)[-1]
        assert newest["first_step"] > before, "it began anew"
        running = driver.alive()
        assert len(running) == workers
        assert {r.generation for r in running} == {newest["number"]}
    assert [g["workers"] for g in driver.generations(made.job_id) if g["starting_at"]] == [1, 3, 2]


def test_pods_go_where_the_plan_says(driver, make_job, pods):
    made = driver.submit(make_job(workers=(4, 4), cpu="1", STEPS=100_000))
    driver.to_size(made.job_id, 4)
    placement = driver.generations(made.job_id)[-1]["placement"]
    assert len(placement) == 2, "neither node holds all of it"
    for node, size in placement.items():
        assert sum(pod.spec.node_name == node for pod in pods()) == size["workers"]


def test_a_stopped_job_saves_first_and_leaves_nothing(driver, make_job, pods, core, namespace):
    made = driver.submit(make_job(STEPS=100_000, SAVE_EVERY=100_000))
    step = driver.to_step(made.job_id, 5).step
    driver.engine.request_stop(made.job_id, by="ann")
    report = driver.to_end(made.job_id)
    assert report.state == "stopped"
    assert report.result["checkpoint_step"] >= step
    driver.drive(to=lambda: pods() == [] and not core.list_namespaced_service(namespace).items)
    maps = [each.metadata.name for each in core.list_namespaced_config_map(namespace).items]
    assert maps == ["kube-root-ca.crt"]


def test_a_node_selector_and_a_toleration_are_honoured(driver, make_job, core, pods):
    core.patch_node("node-a", {"metadata": {"labels": {"disk": "fast"}}})
    try:
        job = make_job(workers=(2, 2), STEPS=100_000, pod={"spec": {"nodeSelector": {"disk": "fast"}}})
        made = driver.submit(job)
        driver.to_size(made.job_id, 2)
        assert {pod.spec.node_name for pod in pods()} == {"node-a"}
    finally:
        core.patch_node("node-a", {"metadata": {"labels": {"disk": None}}})


@pytest.mark.parametrize(
    ("on_finish", "command", "state", "left"),
    [
        pytest.param("keep_pod", "pass", "succeeded", 1, id="all are kept"),
        pytest.param("delete_succeeded_pod", "pass", "succeeded", 0, id="those of a success go"),
        pytest.param("delete_succeeded_pod", "raise SystemExit(3)", "failed", 1, id="those of a failure stay"),
    ],
)
def test_ended_pods_are_kept_for_people_if_asked_for(driver, make_job, pods, on_finish, command, state, left):
    made = driver.submit(make_job(command=["python3", "-c", command], on_finish=on_finish))
    assert driver.to_end(made.job_id).state == state
    driver.drive(to=lambda: [pod.status.phase in ("Succeeded", "Failed") for pod in pods()] == [True] * left)
