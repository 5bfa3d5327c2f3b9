"""`optimus run`: a job without Airflow, and its exit codes."""

import json
import os
import signal

import psutil
import pytest

from optimus_core.cluster.local import LocalCluster
from tests.conftest import until


def processes_of_jobs(home):
    """Live processes of this home's replicas."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("OPTIMUS_CHECKPOINTS", "").startswith(str(home)):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def the_job(engine, **what):
    """Return the only job once it is as said."""

    def look():
        found = engine.jobs()
        return found and all(getattr(found[0], key) == value for key, value in what.items()) and found[0]

    return until(look)


def test_a_job_that_succeeds_exits_0_and_says_what_it_came_to(optimus, job_file):
    result = optimus("run", job_file(STEPS=6))
    assert "digits succeeded: Finished." in result.stdout
    assert "6 steps, loss 0.1667, 0 resizes, checkpoint: " in result.stdout
    assert "job digits: created as digits-" in result.stderr
    assert "running  1 worker  " in result.stderr


def test_a_job_that_fails_exits_1_and_says_why(optimus, job_file):
    result = optimus("run", job_file(command=["sh", "-c", "echo out of cheese; exit 3"]), code=1)
    assert "digits failed: The script failed" in result.stdout
    assert "exit code 3" in result.stdout
    assert "-worker-0-g1: out of cheese" in result.stderr


def test_its_json_is_the_jobs_report(optimus_json, job_file):
    data = optimus_json("run", job_file(STEPS=2))
    assert (data["title"], data["state"], data["result"]["steps"]) == ("digits", "succeeded", 2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_job_and_leaves_nothing_and_the_next_run_goes_on(
    home, engine, optimus, start, job_file, number
):
    file = job_file(STEPS=40)
    process = start("run", file)
    until(lambda: (found := engine.jobs()) and (found[0].step or 0) >= 4)
    process.send_signal(number)
    output, complaints = process.communicate(timeout=60)
    assert process.returncode == 130, complaints
    assert "digits stopped: Stopped as asked by Ctrl-C." in output
    assert "stopping the job (again: leave it)" in complaints
    assert processes_of_jobs(home) == []
    result = optimus("run", file)
    assert "resumed as digits-" in result.stderr
    report = the_job(engine, state="succeeded")
    assert (report.attempt, report.step) == (2, 40)
    assert engine.history(report.id)["generations"][-1]["first_step"] > 4


def test_a_second_interrupt_leaves_the_job_to_others(home, engine, optimus, start, job_file):
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    process = start("run", job_file(command=["python3", "-c", code], grace_seconds=30))
    until(lambda: (found := engine.jobs()) and "deaf" in str(engine.outputs(found[0].id)))
    process.send_signal(signal.SIGINT)
    the_job(engine, state="stopping")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    for pid in processes_of_jobs(home):
        os.kill(pid, signal.SIGKILL)
    until(lambda: engine.step(1).final)


def test_a_second_command_attaches_to_the_job_that_runs(home, engine, start, job_file):
    file = job_file(STEPS=60, PAUSE=0.2)  # outlasts the start of a second command
    first = start("run", file)
    until(lambda: (found := engine.jobs()) and (found[0].step or 0) >= 2)
    second = start("run", file, "--json")
    output, complaints = second.communicate(timeout=60)
    assert second.returncode == 0, complaints
    assert "reattached as digits-" in complaints
    first.communicate(timeout=60)
    assert first.returncode == 0
    report = json.loads(output)
    assert (report["attempt"], report["step"]) == (1, 60)
    assert len(engine.history(report["id"])["generations"]) == 1


def test_the_interrupt_of_a_command_that_owns_the_job_no_more_leaves_it_running(engine, start, job_file):
    file = job_file(STEPS=60, PAUSE=0.2)  # outlasts the start of a second command
    first = start("run", file)
    until(lambda: (found := engine.jobs()) and (found[0].step or 0) >= 2)
    second = start("run", file)
    until(lambda: any(e["kind"] == "reattached" for e in engine.history(1)["events"]))
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)
    assert second.wait(60) == 0
    assert the_job(engine, state="succeeded").step == 60


def test_a_job_whose_command_was_killed_is_found_again(engine, start, optimus, job_file):
    file = job_file(STEPS=40)
    process = start("run", file)
    until(lambda: (found := engine.jobs()) and (found[0].step or 0) >= 2)
    process.kill()
    process.communicate()
    assert "reattached as digits-" in optimus("run", file).stderr
    assert the_job(engine, state="succeeded").step == 40


def test_fresh_begins_from_scratch(engine, optimus, job_file):
    optimus("run", job_file(STEPS=12, FAIL_AT=7, retries=0), code=1)
    result = optimus("run", job_file(STEPS=12), "--fresh")
    assert "restarted as digits-" in result.stderr
    assert engine.history(1)["generations"][-1]["first_step"] == 1


def test_a_store_that_is_away_for_a_while_does_not_end_the_command(home, engine, start, job_file):
    process = start("run", job_file(STEPS=60))
    until(lambda: (found := engine.jobs()) and (found[0].step or 0) >= 2)
    with engine.store.transaction() as tx:  # nobody moves the file while it is written to
        tx.cluster("local")
        for name in [path.name for path in home.iterdir() if path.name.startswith("optimus.db")]:
            (home / name).rename(home / f"away-{name}")
        (home / "optimus.db").mkdir()
    until(lambda: "can't be reached" in process.stderr.readline())
    (home / "optimus.db").rmdir()
    for path in [path for path in home.iterdir() if path.name.startswith("away-")]:
        path.rename(home / path.name.removeprefix("away-"))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "digits succeeded" in output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"worker": {}}, '"worker"', id="misspelt-key"),
        pytest.param({"workers": {"cpu": "1", "memory": "1Gi", "maxx": 2}}, '"maxx"', id="misspelt-key-within"),
        pytest.param({"workers": {"cpu": "64", "memory": "1Gi"}}, 'workers.cpu is "64"', id="more-than-there-is"),
        pytest.param({"strategy": None}, '"strategy" is missing', id="missing-key"),
    ],
)
def test_a_wrong_job_file_is_refused_in_one_sentence_and_nothing_is_stored(engine, optimus, job_file, change, said):
    result = optimus("run", job_file(**change), code=1)
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert engine.jobs() == []


def test_a_job_file_that_is_not_there_is_named(optimus, tmp_path):
    assert "nowhere.yaml" in optimus("run", tmp_path / "nowhere.yaml", code=1).stderr


def test_an_undeclared_cluster_is_refused(optimus, job_file):
    assert 'cluster "moon" is not declared' in optimus("run", job_file(), "--cluster", "moon", code=1).stderr


def test_nothing_of_an_ended_job_is_left_in_the_cluster(home, optimus, job_file):
    optimus("run", job_file(STEPS=2))
    assert LocalCluster("local", home / "cluster" / "local").list() == []
