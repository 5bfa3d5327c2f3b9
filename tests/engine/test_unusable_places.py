"""Folders that can't be used: the job says so, waits no longer than it may, and goes on once they can."""

import subprocess
import time
from contextlib import contextmanager, suppress

import pytest

from optimus_core.cluster.local import LocalCluster
from optimus_core.engine.clusters import opener
from optimus_core.engine.engine import Engine
from optimus_core.errors import ClusterUnavailable


@contextmanager
def file_in_place_of(folder):
    """A folder is a file for a while."""
    aside = folder.with_name("aside")
    if folder.exists():
        folder.rename(aside)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("")
    yield
    folder.unlink()
    if aside.exists():
        aside.rename(folder)


@contextmanager
def no_room_in(folder):
    """A folder is on a full file system for a while."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(folder)], capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    try:
        with open(folder / ".filler", "wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


FAULTS = [
    pytest.param(lambda d: file_in_place_of(d.ctx.settings.home / "runtime"), "Not a directory", id="no runtime"),
    pytest.param(lambda d: file_in_place_of(d.cluster.root / "groups"), "Not a directory", id="no ports"),
    pytest.param(lambda d: no_room_in(d.cluster.root / "replicas"), "No space left on device", id="a full disk"),
]


@pytest.mark.parametrize(("fault", "said"), FAULTS)
def test_what_keeps_a_job_from_starting_is_said_and_once_mended_it_starts(driver, make_job, fault, said):
    made = driver.submit(make_job(STEPS=100_000))
    with fault(driver):
        driver.drive(made.job_id, to=lambda: driver.report(made.job_id).reason_code == "cluster_unavailable")
        assert said in driver.report(made.job_id).reason
        for _ in range(3):
            assert driver.engine.step(made.job_id).phase == "unknown"
        assert driver.report(made.job_id).phase == "starting"
    report = driver.to_step(made.job_id, 1)
    assert report.reason_code != "cluster_unavailable"
    assert len(driver.generations(made.job_id)) == 1
    driver.engine.stop("digits", "ann")
    driver.to_end(made.job_id)


@pytest.mark.parametrize(("fault", "said"), FAULTS)
def test_a_job_that_cant_be_started_in_its_time_fails_with_the_cause(driver, make_job, fault, said):
    made = driver.submit(make_job(start_timeout=0.5, retries=1))
    with fault(driver):
        report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "start_timeout")
    assert said in report.reason
    assert len(driver.generations(made.job_id)) == 2


def test_a_job_that_cant_be_started_can_be_stopped(driver, make_job):
    made = driver.submit(make_job())
    with file_in_place_of(driver.ctx.settings.home / "runtime"):
        driver.drive(made.job_id, to=lambda: driver.report(made.job_id).reason_code == "cluster_unavailable")
        driver.engine.stop("digits", "ann")
        assert driver.to_end(made.job_id).state == "stopped"


def test_what_keeps_a_job_from_its_new_size_is_said_and_the_old_one_runs_on(driver, make_job):
    made = driver.submit(make_job(workers=(1, 2), STEPS=100_000))
    driver.engine.pin("digits", "ann", workers=1)
    driver.to_size(made.job_id, 1)
    driver.to_step(made.job_id, 1)  # it has read what is now taken away
    with file_in_place_of(driver.ctx.settings.home / "runtime"):
        driver.engine.pin("digits", "ann", workers=2)
        driver.drive(made.job_id, to=lambda: driver.report(made.job_id).reason_code == "cluster_unavailable")
        before = driver.report(made.job_id).step
        report = driver.to_step(made.job_id, before + 3)
        assert (report.phase, report.workers) == ("running", 1)
    driver.to_size(made.job_id, 2)


def test_a_cluster_that_cant_be_seen_gives_no_verdict_however_long(driver, make_job):
    made = driver.submit(make_job(start_timeout=2, STEPS=100_000))
    driver.to_step(made.job_id, 1)
    replicas = driver.cluster.root / "replicas"
    with file_in_place_of(replicas):
        for _ in range(3):
            assert driver.engine.step(made.job_id).phase == "unknown"
            time.sleep(0.8)
        assert "Not a directory" in driver.report(made.job_id).reason
        assert driver.events(made.job_id, "failed") == []
        assert driver.report(made.job_id).phase == "running"
    before = driver.report(made.job_id).step
    assert driver.to_step(made.job_id, before + 1).reason_code != "cluster_unavailable"


def test_a_replica_on_a_full_disk_can_be_asked_to_stop(driver, make_job):
    made = driver.submit(make_job(STEPS=100_000, SAVE_EVERY=0))
    driver.to_step(made.job_id, 1)
    (replica,) = driver.alive()
    folder = driver.cluster.root / "replicas" / replica.name
    (folder / "stop.json").mkdir()  # nothing can be written in its place
    with pytest.raises(ClusterUnavailable):
        driver.cluster.delete([replica], grace_seconds=5)
    ended = driver.drive(made.job_id, to=lambda: [r for r in driver.cluster.list() if r.phase.ended])
    assert ended[0].exit_code == 0


@pytest.mark.parametrize("where", ["cluster", "cluster/local", "cluster/local/replicas"])
def test_a_cluster_whose_folder_cant_be_made_says_so(settings, make_job, where):
    with file_in_place_of(settings.home / where):
        engine = Engine(settings, opener(settings))
        with pytest.raises(ClusterUnavailable, match=r"records can't be used now: .*(Not a directory|File exists)"):
            engine.ctx.cluster("local")
    assert isinstance(engine.ctx.cluster("local"), LocalCluster)
