"""Jobs of real processes, driven to their ends."""

import dataclasses
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import optimus_train
from optimus_core.cluster.base import Phase
from optimus_core.engine.launch import runtime_folder
from optimus_core.errors import ClusterUnavailable, SpecificationError
from optimus_core.job import Loss, Steps

SLEEP = "import time; time.sleep(60)"


def test_a_training_that_ends_by_itself_succeeds_with_its_numbers(driver, make_job):
    made = driver.submit(make_job(STEPS=12))
    report = driver.to_end(made.job_id)
    assert (report.state, report.step, report.checkpoint_step) == ("succeeded", 12, 10)
    assert report.result["steps"] == 12
    assert report.result["final_loss"] == pytest.approx(1 / 12)
    assert report.result["resizes"] == 0
    assert report.reason == "Finished."
    assert driver.alive() == []


def test_the_states_of_a_generation_come_in_order_each_with_its_time(driver, make_job):
    made = driver.submit(make_job(STEPS=3))
    driver.to_end(made.job_id)
    kinds = [e["kind"] for e in driver.events(made.job_id) if e["kind"] != "checkpoint"]
    assert kinds == ["queued", "wanted", "starting", "running", "stopping", "gone", "succeeded"]
    (generation,) = driver.generations(made.job_id)
    times = [generation[name] for name in ("wanted_at", "starting_at", "running_at", "draining_at", "gone_at")]
    assert times == sorted(times)


def test_exit_0_of_one_who_was_asked_to_stop_is_no_success(driver, make_job):
    made = driver.submit(make_job(STEPS=10_000))
    driver.to_step(made.job_id, 3)
    driver.engine.request_stop(made.job_id, by="ann")
    report = driver.to_end(made.job_id)
    assert report.state == "stopped"
    assert report.checkpoint_step is not None
    assert driver.alive() == []


def test_exit_0_of_an_evicted_replica_is_no_success_and_the_job_goes_on_from_its_checkpoint(driver, make_job):
    made = driver.submit(make_job(STEPS=150))
    driver.to_step(made.job_id, 7)
    driver.cluster.delete(driver.cluster.list())  # somebody else drains the node: the script saves and exits 0
    report = driver.to_end(made.job_id)
    assert (report.state, report.step) == ("succeeded", 150)
    (failure,) = driver.events(made.job_id, "failed")
    assert failure["cause"]["code"] == "evicted"
    assert driver.generations(made.job_id)[1]["first_step"] > 7


def test_a_criterion_that_is_met_stops_the_job_and_a_checkpoint_confirms_it(driver, make_job):
    made = driver.submit(make_job(STEPS=10_000, stop=Steps(8)))
    report = driver.to_end(made.job_id)
    assert report.state == "succeeded"
    assert report.reason_code == "criterion_met"
    assert report.checkpoint_step >= 8


def test_a_criterion_without_a_checkpoint_is_no_success(driver, make_job):
    made = driver.submit(make_job(STEPS=10_000, SAVE_EVERY=0, stop=Steps(5), retries=0))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "no_checkpoint")


def test_a_criterion_of_a_job_that_keeps_no_checkpoints_needs_none(driver, make_job):
    made = driver.submit(make_job(STEPS=10_000, SAVE_EVERY=0, stop=Steps(5), resumable=False))
    assert driver.to_end(made.job_id).state == "succeeded"


def test_a_loss_that_is_low_enough_ends_the_job(driver, make_job):
    made = driver.submit(make_job(STEPS=10_000, stop=Loss(below=0.1)))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("succeeded", "criterion_met")
    assert report.loss < 0.1


def test_a_script_that_fails_before_its_first_step_fails_at_once(driver, make_job, script):
    made = driver.submit(make_job(command=script("raise SystemExit('no such file')")))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code, report.attempt) == ("failed", "user_error", 1)
    assert len(driver.generations(made.job_id)) == 1
    assert "exit code 1" in report.reason
    assert "no such file" in driver.engine.outputs(made.job_id)[0]["tail"]


def test_a_killed_worker_is_retried_from_the_checkpoint(driver, make_job):
    made = driver.submit(make_job(STEPS=25))
    driver.to_step(made.job_id, 12)
    (replica,) = driver.alive()
    os.kill(worker_pid(replica), signal.SIGKILL)
    report = driver.to_end(made.job_id)
    assert (report.state, report.step) == ("succeeded", 25)
    first, second = driver.generations(made.job_id)
    assert "signal 9" in first["ended_by"] or "137" in first["ended_by"]
    assert 10 < second["first_step"] <= first["last_step"] + 1


def worker_pid(replica):
    import psutil

    for process in psutil.process_iter():
        try:
            if process.environ().get("OPTIMUS_REPLICA_UID") == replica.uid and "train.py" in " ".join(
                process.cmdline()
            ):
                return process.pid
        except psutil.Error:
            continue
    raise AssertionError("it has no process")


def test_after_its_retries_a_job_fails_and_names_what_was_tried(driver, make_job):
    made = driver.submit(make_job(STEPS=20, SAVE_EVERY=0, KILL_AT=3, retries=2))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "killed")
    assert [g["state"] for g in driver.generations(made.job_id)] == ["gone"] * 3
    assert report.result["cause"]["numbers"]["failed_generations"] == "1, 2, 3"
    assert "2 retries used" in report.reason
    assert "optimus" not in report.reason.replace("digits-default", "")  # what the library left is for programs
    assert [e["cause"]["retry"] for e in driver.events(made.job_id, "retried")] == [1, 2]


def test_each_class_of_failure_has_its_own_retries_and_progress_gives_them_back(driver, make_job):
    made = driver.submit(make_job(STEPS=20, SAVE_EVERY=2, KILL_AT=7, retries=1))
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "retried"))
    with driver.ctx.store.transaction() as tx:
        assert tx.peek_job(made.job_id).retries["killed"]["used"] == 1
    driver.drive(made.job_id, to=lambda: len(driver.events(made.job_id, "failed")) == 2)
    report = driver.to_end(made.job_id)  # at step 7 again, from the checkpoint of 6: no progress, no budget
    assert (report.state, report.reason_code) == ("failed", "killed")


def test_a_script_that_fails_after_steps_is_retried_within_its_budget(driver, make_job):
    made = driver.submit(make_job(STEPS=20, SAVE_EVERY=0, FAIL_AT=4, retries=1))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "user_error")
    assert len(driver.generations(made.job_id)) == 2


def test_a_group_runs_whole_or_not_at_all(driver, make_job):
    made = driver.submit(make_job(workers=(3, 3), STEPS=10_000))
    driver.to_size(made.job_id, 3)
    assert len(driver.alive()) == 3
    driver.cluster.delete(driver.alive()[:1], grace_seconds=0)
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "failed"))
    driver.drive(made.job_id, to=lambda: len({r.generation for r in driver.alive()}) == 1 and len(driver.alive()) == 3)
    assert {r.generation for r in driver.alive()} == {2}


def test_a_job_without_room_starts_nothing_says_what_it_waits_for_and_starts_after_room_is_freed(driver, make_job):
    first = driver.submit(make_job("first", workers=(8, 8), STEPS=10_000))
    driver.to_size(first.job_id, 8)
    second = driver.submit(make_job("second", workers=(2, 2), STEPS=3))
    driver.engine.step(second.job_id)
    waiting = driver.report(second.job_id)
    assert (waiting.state, waiting.reason_code, waiting.workers) == ("queued", "waits_for_room", 0)
    assert "2 workers" in waiting.reason
    assert {r.job for r in driver.cluster.list()} == {driver.report(first.job_id).name}
    driver.engine.request_stop(first.job_id, by="ann")
    ids = (first.job_id, second.job_id)
    driver.drive(*ids, to=lambda: driver.report(second.job_id).state == "succeeded")


def test_a_waiting_job_starts_once_others_than_optimus_have_made_room(driver, make_job, monkeypatch):
    monkeypatch.setattr("optimus_core.engine.engine._WAITING_SECONDS", 0.2)
    nodes = driver.cluster.nodes
    with monkeypatch.context() as full:
        full.setattr(driver.cluster, "nodes", lambda: [replace(node, others=node.allocatable) for node in nodes()])
        made = driver.submit(make_job(STEPS=2))
        driver.engine.step(made.job_id)
        assert driver.report(made.job_id).reason_code == "waits_for_room"
    assert driver.to_end(made.job_id).state == "succeeded"


def test_a_refused_generation_fails_its_job_with_the_clusters_words(driver, make_job, tmp_path):
    folder = tmp_path / "goes away"
    folder.mkdir()
    made = driver.submit(make_job(working_dir=str(folder)))
    folder.rmdir()
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "refused")
    assert str(folder) in report.reason


@pytest.fixture
def never_ready(driver, monkeypatch):
    """Replicas never come further than pending."""
    real = driver.cluster.list
    monkeypatch.setattr(
        driver.cluster,
        "list",
        lambda job=None: [
            dataclasses.replace(r, phase=Phase.PENDING) if r.phase is Phase.RUNNING else r for r in real(job)
        ],
    )


@pytest.mark.usefixtures("never_ready")
def test_a_size_that_does_not_start_in_time_is_barred_and_another_is_tried(driver, make_job, script):
    made = driver.submit(make_job(workers=(2, 3), start_timeout=0.3, command=script(SLEEP, "sleep.py")))
    driver.drive(made.job_id, to=lambda: len(driver.events(made.job_id, "starting")) == 2)
    (failure,) = driver.events(made.job_id, "failed")
    assert failure["cause"]["code"] == "start_timeout"
    first, second = (e["cause"]["workers"] for e in driver.events(made.job_id, "starting"))
    assert first != second


@pytest.mark.usefixtures("never_ready")
def test_the_only_size_is_tried_again_until_the_retries_are_used(driver, make_job, script):
    made = driver.submit(make_job(workers=(2, 2), start_timeout=0.2, retries=1, command=script(SLEEP, "sleep.py")))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "start_timeout")
    assert len(driver.events(made.job_id, "starting")) == 2


def test_unknown_gives_no_verdict_frees_no_room_and_starts_nothing(driver, make_job, monkeypatch):
    first = driver.submit(make_job("first", workers=(8, 8), STEPS=10_000))
    driver.to_size(first.job_id, 8)
    second = driver.submit(make_job("second", workers=(2, 2)))

    def unavailable(*_, **__):
        raise ClusterUnavailable("the network is gone")

    for method in ("list", "nodes", "create", "delete"):
        monkeypatch.setattr(driver.cluster, method, unavailable)
    before = [driver.engine.history(i) for i in (first.job_id, second.job_id)]
    for _ in range(3):
        for job_id in (first.job_id, second.job_id):
            assert driver.engine.step(job_id).phase == "unknown"
        assert driver.engine.round() is None
    assert [driver.engine.history(i) for i in (first.job_id, second.job_id)] == before
    driver.engine.request_stop(first.job_id, by="ann")
    assert driver.engine.step(first.job_id).final is False
    monkeypatch.undo()
    assert driver.to_end(first.job_id).state == "stopped"


def test_replicas_of_unknown_state_hold_their_room(driver, make_job, monkeypatch):
    first = driver.submit(make_job("first", workers=(8, 8), STEPS=10_000))
    driver.to_size(first.job_id, 8)
    second = driver.submit(make_job("second", workers=(2, 2)))
    real = driver.cluster.list
    monkeypatch.setattr(
        driver.cluster, "list", lambda job=None: [dataclasses.replace(r, phase=Phase.UNKNOWN) for r in real(job)]
    )
    driver.engine.request_stop(first.job_id, by="ann")
    for _ in range(10):
        driver.engine.step(first.job_id)
        driver.engine.step(second.job_id)
    assert driver.report(first.job_id).state == "stopping"
    assert driver.report(second.job_id).workers == 0
    monkeypatch.undo()
    assert driver.to_end(first.job_id).state == "stopped"


def test_a_step_with_an_ended_or_unknown_job_has_nothing_to_do(driver, make_job):
    made = driver.submit(make_job(STEPS=2))
    driver.to_end(made.job_id)
    before = driver.engine.history(made.job_id)
    assert driver.engine.step(made.job_id).final
    assert driver.engine.step(4711).final
    assert driver.engine.history(made.job_id) == before


def test_a_stop_before_the_start_ends_in_no_replica(driver, make_job):
    made = driver.submit(make_job())
    driver.engine.request_stop(made.job_id, by="ann")
    assert driver.to_end(made.job_id).state == "stopped"
    assert driver.cluster.list() == []


def test_a_script_that_ignores_the_request_is_killed_after_its_grace(driver, make_job, script):
    code = """
        import signal, time, optimus_train
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        step = 0
        while True:
            time.sleep(0.05)
            step += 1
            optimus_train.report(step, 1.0)
    """
    made = driver.submit(make_job(command=script(code, "deaf.py"), grace_seconds=0.5))
    driver.to_step(made.job_id, 2)
    driver.engine.request_stop(made.job_id, by="ann")
    assert driver.to_end(made.job_id).state == "stopped"
    assert driver.alive() == []


def test_a_forsaken_job_is_driven_by_the_regular_beat(driver, make_job):
    made = driver.submit(make_job(STEPS=3))
    assert driver.engine.upkeep() == {}
    with driver.ctx.store.transaction() as tx:
        from datetime import timedelta

        row = tx.job(made.job_id)
        row.queued_at -= timedelta(hours=1)
        row.stepped_at = None
    assert list(driver.engine.upkeep()) == [made.name]
    assert driver.alive()


def test_replicas_of_an_ended_job_are_swept(driver, make_job):
    made = driver.submit(make_job(STEPS=10_000))
    driver.to_step(made.job_id, 1)
    with driver.ctx.store.transaction() as tx:
        row = tx.job(made.job_id)
        row.state, row.ended_at = "stopped", tx.now
        for generation in tx.generations(made.job_id):
            generation.state = "gone"
    driver.engine.upkeep()
    assert all(r.terminating for r in driver.alive())


def test_secrets_of_the_environment_reach_neither_snapshot_nor_report(driver, make_job):
    made = driver.submit(make_job(PASSWORD="hunter2"))
    snapshot, plan = driver.engine.peek()
    assert "hunter2" not in snapshot.to_json()
    assert "hunter2" not in str(plan.to_dict())
    assert "hunter2" not in str(driver.report(made.job_id).to_dict()) + str(driver.engine.history(made.job_id))


def test_all_times_of_a_report_are_utc(driver, make_job):
    from datetime import datetime, timedelta

    made = driver.submit(make_job(STEPS=2))
    report = driver.to_end(made.job_id).to_dict()
    history = driver.engine.history(made.job_id)
    times = [v for k, v in report.items() if k.endswith("_at")]
    times += [v for g in history["generations"] for k, v in g.items() if k.endswith("_at")]
    times += [e["time"] for e in history["events"]]
    for time in filter(None, times):
        assert datetime.fromisoformat(time).utcoffset() == timedelta(0)


def test_a_submission_while_the_cluster_is_away_raises_nothing_new(driver, make_job, monkeypatch):
    def unavailable(*_, **__):
        raise ClusterUnavailable("the network is gone")

    monkeypatch.setattr(driver.cluster, "list", unavailable)
    made = driver.submit(make_job(STEPS=2))
    assert driver.report(made.job_id).state == "queued"
    monkeypatch.undo()
    assert driver.to_end(made.job_id).state == "succeeded"


def test_who_waits_for_a_plan_is_told_why_there_is_none(driver, make_job, monkeypatch):
    first = driver.submit(make_job("first", workers=(8, 8), STEPS=10_000))
    driver.to_size(first.job_id, 8)
    second = driver.submit(make_job("second", workers=(2, 2)))
    assert driver.report(second.job_id).reason_code == "waits_for_room"

    def forbidden(*_, **__):
        raise ClusterUnavailable("nodes may not be listed")

    monkeypatch.setattr(driver.cluster, "nodes", forbidden)
    assert driver.engine.round() is None
    for _ in range(2):
        driver.engine.step(second.job_id)
        report = driver.report(second.job_id)
        assert (report.state, report.reason_code) == ("queued", "cluster_unavailable")
        assert "nodes may not be listed" in report.reason
    monkeypatch.undo()
    driver.engine.round()
    assert driver.report(second.job_id).reason_code == "waits_for_room"


def test_nobody_ever_sees_a_part_of_the_library(settings, monkeypatch):
    whole = sorted(path.name for path in Path(optimus_train.__file__).parent.glob("*.py"))
    real, seen = shutil.copytree, []

    def copy_and_look(*arguments, **more):
        real(*arguments, **more)
        seen.append(list((settings.home / "runtime").glob("*/optimus_train")))

    monkeypatch.setattr(shutil, "copytree", copy_and_look)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: runtime_folder(SimpleNamespace(settings=settings)), range(8)))
    (folder,) = set(made)
    assert seen[0] == []
    assert sorted(path.name for path in (folder / "optimus_train").glob("*.py")) == whole
    assert [path for path in (settings.home / "runtime").rglob(".*")] == []


def test_a_pin_of_an_ended_job_is_refused(driver, make_job):
    made = driver.submit(make_job(STEPS=1))
    driver.to_end(made.job_id)
    with pytest.raises(SpecificationError, match="has succeeded; its size can be pinned no more"):
        driver.engine.pin("digits", "ann", workers=1)
