"""Groups are created whole, once, by whoever comes first."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from optimus_core.cluster import life, records
from optimus_core.cluster.base import Phase, Role
from optimus_core.errors import ClusterUnavailable, NameTaken, SpecificationError
from tests.cluster.helpers import Driver, processes_of, spec, until

SLEEP = ("sleep", "600")


def test_creating_twice_makes_one(driver):
    first = driver.start(spec(*SLEEP))
    driver.cluster.create("job-g1", [spec(*SLEEP)])
    assert driver.one() == first
    assert len(processes_of(first.uid)) == 1


def test_many_processes_that_create_at_once_make_one_group(driver):
    code = f"""
from pathlib import Path
from tests.cluster.helpers import Driver, spec
Driver(Path({str(driver.cluster.root)!r})).cluster.create("job-g1", [spec("sleep", "600", index=i) for i in range(3)])
"""
    creators = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [creator.wait() for creator in creators] == [0, 0, 0]
    for replica in driver.running(3):
        assert len(processes_of(replica.uid)) == 1


def test_many_supervisors_of_one_record_make_one_process(driver):
    folder = records.write(driver.cluster.root / "replicas", spec("echo begun; sleep 600"), [], 1 << 20)
    life.start([folder] * 6)
    driver.printed(b"begun")
    (replica,) = driver.running()
    until(lambda: len([p for p in psutil.process_iter(["cmdline"]) if str(folder) in (p.info["cmdline"] or [])]) == 1)
    assert len(processes_of(replica.uid)) == 2
    assert driver.text() == b"begun"


def test_a_name_in_use_by_something_else_is_refused_and_nothing_is_started(driver):
    driver.start(spec(*SLEEP, index=1))
    with pytest.raises(NameTaken, match="job-worker-1-g1"):
        driver.cluster.create("job-g1", [spec(*SLEEP), spec("sleep", "601", index=1)])
    assert [replica.index for replica in driver.cluster.list()] == [1]


def test_a_creator_that_died_before_the_start_is_made_up_for(driver, monkeypatch):
    monkeypatch.setattr(life, "start", lambda folders: None)
    driver.cluster.create("job-g1", [spec(*SLEEP)])
    assert driver.one().phase is Phase.PENDING
    monkeypatch.undo()
    monkeypatch.setattr(life, "HEAL_SECONDS", 0.0)
    driver.running()


def test_half_a_group_is_not_started_by_those_who_list_it(driver, monkeypatch):
    monkeypatch.setattr(life, "HEAL_SECONDS", 0.0)
    records.write(driver.cluster.root / "replicas", spec(*SLEEP), ["job-worker-0-g1", "job-worker-1-g1"], 1 << 20)
    driver.cluster.list()
    assert driver.one().phase is Phase.PENDING
    driver.cluster.create("job-g1", [spec(*SLEEP, index=0), spec(*SLEEP, index=1)])
    driver.running(2)


def test_a_supervisor_that_never_comes_up_is_a_failed_start(driver, monkeypatch):
    monkeypatch.setattr(life, "_SHIM", os.devnull)
    driver.cluster.create("job-g1", [spec(*SLEEP)])
    assert driver.one().phase is Phase.PENDING
    monkeypatch.setattr(life, "START_SECONDS", 0.0)
    replica = driver.one()
    assert (replica.phase, replica.reason) == (Phase.FAILED, "StartError")
    monkeypatch.undo()
    life.start([driver.cluster.root / "replicas" / replica.name])  # too late: the verdict stands
    assert driver.one() == replica


def test_what_is_asked_to_stop_before_it_started_never_starts(driver, monkeypatch):
    monkeypatch.setattr(life, "_SHIM", os.devnull)
    driver.cluster.create("job-g1", [spec(*SLEEP)])
    driver.cluster.delete([driver.one()])
    replica = driver.one()
    assert (replica.phase, replica.reason, replica.terminating) == (Phase.FAILED, "Deleted", True)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        pytest.param({"node": "node-9"}, "no node", id="node"),
        pytest.param({"command": ()}, "no command", id="command"),
        pytest.param({"working_dir": "/no/such/folder"}, "no folder", id="folder"),
        pytest.param({"name": "../up"}, "no name", id="name"),
        pytest.param({"env": {"A": "\0"}}, "NUL", id="environment"),
    ],
)
def test_what_cannot_start_is_refused_by_the_dry_run_and_by_create(driver, wrong, text):
    from dataclasses import replace

    bad = [spec(*SLEEP), replace(spec(*SLEEP, index=1), **wrong)]
    with pytest.raises(SpecificationError, match=text):
        driver.cluster.check(bad)
    with pytest.raises(SpecificationError, match=text):
        driver.cluster.create("job-g1", bad)
    assert driver.cluster.list() == []


def test_the_environment_is_clean(driver, monkeypatch):
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "secret")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    driver.run(spec("env; echo", env={"A": "1", "HOME": "/elsewhere"}))
    got = dict(line.split("=", 1) for line in driver.text().decode().splitlines() if "=" in line)
    allowed = {"PATH", "LANG", "TZ", "TMPDIR", "PWD", "SHLVL", "_", "A", "HOME", "LC_ALL", "OPTIMUS_REPLICA_UID"}
    assert set(got) <= allowed | {"OPTIMUS_TERMINATION_MESSAGE"} | {k for k in os.environ if k.startswith("LC_")}
    assert (got["A"], got["HOME"], got["LC_ALL"]) == ("1", "/elsewhere", "C.UTF-8")
    assert got["OPTIMUS_REPLICA_UID"] == driver.one().uid


def test_without_a_working_directory_it_starts_at_home(driver, tmp_path):
    driver.run(spec("pwd; true", env={"HOME": str(tmp_path)}))
    assert driver.text() == str(tmp_path).encode()


def test_nobody_else_can_read_the_environment(driver):
    driver.run(spec("true", env={"TOKEN": "x"}))
    folder = driver.cluster.root / "replicas" / driver.one().name
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "spec.json").stat().st_mode & 0o077 == 0


def test_it_starts_in_its_working_directory(driver, tmp_path):
    driver.run(spec("pwd; true", working_dir=str(tmp_path)))
    assert driver.text() == str(tmp_path).encode()


def test_nothing_is_left_after_forget_but_what_still_runs(driver):
    driver.cluster.endpoints("job-g1", [(Role.WORKER, 0)])
    driver.cluster.create("job-g1", [spec("true", index=0), spec(*SLEEP, index=1)])
    until(lambda: any(replica.phase.ended for replica in driver.cluster.list()))
    driver.running()
    driver.cluster.forget("job")
    running = driver.one()
    assert running.index == 1
    driver.cluster.delete([running], grace_seconds=0)
    driver.ended()
    driver.cluster.forget("job")
    assert driver.cluster.list() == []
    assert list((driver.cluster.root / "replicas").iterdir()) == []
    assert list((driver.cluster.root / "groups").glob("*.json")) == []


def test_a_list_can_be_of_one_job(driver):
    driver.cluster.create("a-g1", [spec(*SLEEP, job="a")])
    driver.cluster.create("b-g1", [spec(*SLEEP, job="b")])
    assert [replica.job for replica in driver.cluster.list("b")] == ["b"]


def test_a_cluster_whose_records_are_away_says_that_it_knows_nothing(tmp_path):
    driver = Driver(tmp_path / "cluster")
    Path(tmp_path / "cluster").rename(tmp_path / "unmounted")
    with pytest.raises(ClusterUnavailable):
        driver.cluster.list()
