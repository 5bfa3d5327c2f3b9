"""Changes of size: room first, then the stop; from the checkpoint; never more than there is."""

import dataclasses
from collections import Counter

import pytest

from optimus_core.cluster.base import Phase
from optimus_core.errors import SpecificationError


def test_a_resize_goes_on_from_the_checkpoint_and_is_measured(driver, make_job):
    made = driver.submit(make_job(workers=(1, 4), STEPS=10_000))
    driver.engine.pin("digits", "ann", workers=1)
    driver.to_size(made.job_id, 1)
    driver.to_step(made.job_id, 8)
    driver.engine.pin("digits", "ann", workers=2)  # superseded at once
    driver.engine.pin("digits", "ann", workers=3)
    driver.to_size(made.job_id, 3)
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "resized"))
    generations = [g for g in driver.generations(made.job_id) if g["state"] != "superseded"]
    assert [g["workers"] for g in generations] == [1, 3]
    assert 8 <= generations[0]["last_step"] == generations[1]["first_step"] - 1
    (resized,) = driver.events(made.job_id, "resized")
    assert resized["cause"]["restart_seconds"] > 0
    driver.engine.request_stop(made.job_id, by="ann")
    assert driver.to_end(made.job_id).result["resizes"] == 1


def test_two_generations_of_a_job_never_live_at_once(driver, make_job):
    made = driver.submit(make_job(workers=(1, 4), STEPS=10_000))
    mixed = []

    def turn():
        alive = {r.generation for r in driver.alive()}
        if len(alive) > 1:
            mixed.append(alive)

    def standing():
        report = driver.report(made.job_id)
        return report.phase, report.workers

    for size in (2, 4, 1):
        driver.engine.pin("digits", "ann", workers=size)
        driver.drive(made.job_id, to=lambda s=size: turn() or standing() == ("running", s))
    assert mixed == []


def test_replicas_never_exceed_the_nodes_while_jobs_grow_and_shrink(driver, make_job):
    a = driver.submit(make_job("a", workers=(1, 6), STEPS=10_000)).job_id
    b = driver.submit(make_job("b", workers=(1, 6), STEPS=10_000)).job_id
    most = Counter()

    def sample():
        for node, count in Counter(r.node for r in driver.alive()).items():
            most[node] = max(most[node], count)

    def both(x, y):
        return lambda: sample() or (driver.report(a).workers, driver.report(b).workers) == (x, y)

    for x, y in ((2, 6), (6, 2), (4, 4)):
        driver.engine.pin("a", "ann", workers=x)
        driver.engine.pin("b", "ann", workers=y)
        driver.drive(a, b, to=both(x, y))
    assert most["a"] <= 4
    assert most["b"] <= 4


def test_the_old_size_runs_on_until_room_for_the_new_one_is_seen_free(driver, make_job, monkeypatch):
    from optimus_core.cluster.base import NodeInfo
    from optimus_core.resources import Resources

    made = driver.submit(make_job(workers=(1, 4), STEPS=10_000))
    driver.engine.pin("digits", "ann", workers=1)
    driver.to_size(made.job_id, 1)
    driver.engine.pin("digits", "ann", workers=4)
    full = [NodeInfo(n.name, n.allocatable, others=Resources.of("3", "3Gi")) for n in driver.cluster.nodes()]
    monkeypatch.setattr(driver.cluster, "nodes", lambda: full)
    from optimus_core.engine.reconcile import reconcile

    for _ in range(5):
        assert reconcile(driver.ctx, made.job_id).phase == "waiting for room"
    report = driver.report(made.job_id)
    assert (report.phase, report.workers, report.reason_code) == ("running", 1, "waits_for_room_to_be_freed")
    monkeypatch.undo()
    driver.to_size(made.job_id, 4)


def test_a_new_size_that_the_cluster_would_refuse_leaves_the_old_one_running(driver, make_job, monkeypatch):
    made = driver.submit(make_job(workers=(1, 4), STEPS=10_000))
    driver.engine.pin("digits", "ann", workers=1)
    driver.to_size(made.job_id, 1)
    (before,) = driver.alive()

    def refuse(_):
        raise SpecificationError("the quota is used up")

    monkeypatch.setattr(driver.cluster, "check", refuse)
    driver.engine.pin("digits", "ann", workers=3)
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "superseded"))
    assert [r.uid for r in driver.alive()] == [before.uid]
    assert driver.report(made.job_id).workers == 1


def test_a_new_size_that_does_not_start_is_left_again_for_another_from_the_checkpoint(driver, make_job, monkeypatch):
    made = driver.submit(make_job(workers=(1, 2), STEPS=10_000, start_timeout=0.5))
    driver.engine.pin("digits", "ann", workers=1)
    driver.to_step(made.job_id, 6)
    (before,) = driver.alive()
    real = driver.cluster.list

    def list_(job=None):
        def is_crowded(r):
            return r.phase is Phase.RUNNING and r.generation == before.generation + 1

        return [dataclasses.replace(r, phase=Phase.PENDING) if is_crowded(r) else r for r in real(job)]

    monkeypatch.setattr(driver.cluster, "list", list_)
    driver.engine.pin("digits", "ann", workers=2)
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "failed"))
    driver.engine.unpin("digits", "ann")
    report = driver.to_size(made.job_id, 1)
    assert report.state == "running"
    assert driver.generations(made.job_id)[-1]["number"] > before.generation + 1


def test_a_constant_load_comes_to_rest(driver, make_job):
    ids = [driver.submit(make_job(name, workers=(1, 6), STEPS=10_000)).job_id for name in "abc"]
    driver.drive(*ids, to=lambda: all(driver.report(i).phase == "running" for i in ids))
    driver.engine.round()
    before = [len(driver.generations(i)) for i in ids]
    for _ in range(5):
        report = driver.engine.round()
        assert report.changes == []
    assert [len(driver.generations(i)) for i in ids] == before


@pytest.mark.parametrize("workers", [1, 4])
def test_a_job_that_keeps_no_checkpoints_is_never_resized(driver, make_job, workers):
    made = driver.submit(make_job(workers=(1, 4), STEPS=10_000, SAVE_EVERY=0, resumable=False))
    driver.drive(made.job_id, to=lambda: driver.report(made.job_id).phase == "running")
    before = {r.uid for r in driver.alive()}
    driver.engine.pin("digits", "ann", workers=workers)
    for _ in range(5):
        driver.engine.step(made.job_id)
    assert {r.uid for r in driver.alive()} == before
