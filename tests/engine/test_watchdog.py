"""Jobs that run and make no step: noticed whatever the cause, ended, and gone on with from their checkpoints."""

import os
import signal
from datetime import timedelta

import pytest

from optimus_core.engine import watchdog
from optimus_core.names import replica_name
from optimus_core.store import OutputRow
from tests.engine.test_driving import worker_pid

LOCKSTEP = """
import os, signal, socket, time
import optimus_train

rank, step = optimus_train.rank(), 0
latest = optimus_train.latest_checkpoint()
if latest:
    step = optimus_train.checkpoint_step(latest)
address = optimus_train.worker_addresses()[0]
if rank == 0:
    with socket.create_server((address.host, address.port)) as server:
        peer, _ = server.accept()
else:
    while True:
        try:
            peer = socket.create_connection((address.host, address.port))
            break
        except OSError:
            time.sleep(0.05)

while step < 30:
    time.sleep(0.02)
    if rank == 1 and step == 12 and not latest:
        os.kill(os.getpid(), signal.SIGSTOP)
    peer.sendall(b"g")
    assert peer.recv(1) == b"g"
    step += 1
    if rank == 0:
        optimus_train.report(step, 1 / step)
        if step % 5 == 0:
            with optimus_train.checkpoint(step) as folder:
                (folder / "model").write_text(str(step))
"""
"""Two workers that wait for each other after each step, as in synchronous training; the second one freezes once."""


@pytest.fixture
def impatient(driver):
    def set_to(seconds, factor=20.0):
        object.__setattr__(driver.engine.settings, "hung_min_seconds", seconds)
        object.__setattr__(driver.engine.settings, "hung_factor", factor)

    return set_to


def test_a_job_that_waits_for_a_frozen_worker_is_ended_and_goes_on_from_its_checkpoint(
    driver, make_job, script, impatient
):
    impatient(2.0)
    made = driver.submit(make_job(workers=(2, 2), command=script(LOCKSTEP, "train.py"), grace_seconds=0.5))
    report = driver.to_end(made.job_id)
    assert (report.state, report.step) == ("succeeded", 30)
    (failure,) = driver.events(made.job_id, "failed")
    told = failure["cause"]["numbers"]
    assert (failure["cause"]["code"], told["step"], told["generation"]) == ("hung", 12, 1)
    assert told["seconds"] >= told["allowed"] >= 2.0 > told["usual"] > 0
    assert [g["first_step"] for g in driver.generations(made.job_id)] == [1, 11]
    assert "Hung: no step for " in driver.generations(made.job_id)[0]["ended_by"]
    assert [e["cause"]["failure"] for e in driver.events(made.job_id, "retried")] == ["hung"]


SILENT = "import time; time.sleep(60)"
HANGS_WHEN_RESUMED = """
import time, optimus_train
latest = optimus_train.latest_checkpoint()
while latest:
    time.sleep(1)
for step in range(1, 1000):
    time.sleep(0.02)
    optimus_train.report(step, 1.0)
    if step == 5:
        with optimus_train.checkpoint(step) as folder:
            (folder / "model").write_text("5")
"""


def test_a_restart_that_never_comes_to_its_first_step_hangs_since_the_first_start_did(
    driver, make_job, script, impatient
):
    made = driver.submit(make_job(command=script(HANGS_WHEN_RESUMED), retries=0, grace_seconds=0.2))
    driver.drive(made.job_id, to=lambda: driver.report(made.job_id).checkpoint_step == 5)
    driver.cluster.delete(driver.alive(), grace_seconds=0)
    with driver.ctx.store.transaction() as tx:
        row = tx.job(made.job_id)
        row.specification = row.specification | {"retries": 1}
    impatient(0.5)
    report = driver.to_end(made.job_id)
    assert len(driver.generations(made.job_id)) >= 2
    assert (report.state, report.reason_code) == ("failed", "hung")
    assert "step" not in report.reason.replace("no step", "")


def test_a_job_hangs_by_its_own_time_even_before_its_first_step(driver, make_job, script):
    made = driver.submit(make_job(command=script(SILENT), hang_timeout=0.3, retries=1, grace_seconds=0.2))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "hung")
    assert [e["cause"]["failure"] for e in driver.events(made.job_id, "retried")] == ["hung"]
    assert driver.alive() == []


def test_a_job_that_never_told_a_step_is_left_alone(driver, make_job, script, impatient):
    impatient(0.0, 1.1)
    made = driver.submit(make_job(command=script("import time; time.sleep(1.5)")))
    assert driver.to_end(made.job_id).state == "succeeded"


def test_a_script_that_seldom_tells_its_step_does_not_hang_in_between(driver, make_job, script, impatient):
    impatient(0.2)  # a step takes a millisecond, and twenty of them are nothing beside the time between two lines
    code = """
        import time, optimus_train
        for step in range(500, 3001, 500):
            time.sleep(0.5)
            optimus_train.report(step, 1 / step)
    """
    made = driver.submit(make_job(command=script(code)))
    assert driver.to_end(made.job_id).state == "succeeded"
    assert driver.events(made.job_id, "failed") == []


def test_a_job_that_hangs_while_a_resize_waits_for_room_is_ended(driver, make_job, impatient):
    made = driver.submit(make_job(workers=(1, 2), STEPS=10_000, grace_seconds=0.2))
    driver.to_step(made.job_id, 3)
    (generation,) = driver.generations(made.job_id)
    with driver.ctx.store.transaction() as tx:
        row = tx.job(made.job_id)
        present = tx.generation(row.id, generation["number"])
        fields = {c.name: getattr(present, c.name) for c in present.__table__.columns}
        fields |= {"number": 2, "state": "wanted", "workers": 9, "placement": {"a": {"workers": 9}}, "version": 1}
        tx.add(type(present)(**fields))
        row.wanted = 2
    for replica in driver.alive():
        os.kill(worker_pid(replica), signal.SIGSTOP)
    impatient(0.5)
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "failed"))
    assert driver.events(made.job_id, "failed")[0]["cause"]["code"] == "hung"


# generations of a job, each with its seconds to the first step (None: none yet) and its pace; the last one is looked at
SLOW_START = (100.0, None)
EACH_SECOND = (5.0, {"reports": 50, "seconds": 50.0, "longest": 1.5})
EVALUATES = (5.0, {"reports": 50, "seconds": 350.0, "longest": 300.0})


@pytest.mark.parametrize(
    ("generations", "expected"),
    [
        pytest.param([(None, None)], (None, None), id="nothing-is-known"),
        pytest.param([EACH_SECOND], (1.0, 60.0), id="never-less-than-the-least"),
        pytest.param([EVALUATES], (7.0, 900.0), id="three-times-its-longest-pause"),
        pytest.param([(5.0, {"reports": 4, "seconds": 400.0, "longest": 101.0})], (100.0, 2000.0), id="tells-seldom"),
        pytest.param([EVALUATES, EACH_SECOND], (1.0, 900.0), id="pauses-of-earlier-generations-count"),
        pytest.param([EVALUATES, (None, None)], (None, 900.0), id="before-the-first-step"),
        pytest.param([SLOW_START], (None, 300.0), id="after-the-first-step-its-start-tells"),
        pytest.param([SLOW_START, (None, None)], (None, 300.0), id="an-earlier-start-tells"),
        pytest.param([SLOW_START, EACH_SECOND], (1.0, 60.0), id="not-once-there-is-a-pace"),
    ],
)
def test_what_is_too_long_is_learned_from_the_job(driver, make_job, impatient, generations, expected):
    impatient(60.0)
    made = driver.submit(make_job(STEPS=10_000))
    driver.to_step(made.job_id, 1)
    with driver.ctx.store.transaction() as tx:
        job, (first,) = tx.job(made.job_id), tx.generations(made.job_id)
        columns = {c.name: getattr(first, c.name) for c in first.__table__.columns}
        for number, (start, pace) in enumerate(generations, start=11):
            at = None if start is None else first.running_at + timedelta(seconds=start)
            tx.add(type(first)(**columns | {"number": number, "first_step_at": at, "version": 1}))
            name = replica_name(job.name, "worker", 0, number)
            kept = {
                "tail": "",
                "written": 0,
                "told": 0,
                "gaps": 0,
                "unread": 0,
                "ended": False,
                "reader": {"pace": pace},
            }
            tx.add(OutputRow(job_id=job.id, replica=name, uid=name, generation=number, **kept))
        first.first_step_at = None
    with driver.ctx.store.transaction() as tx:
        job, last = tx.job(made.job_id), tx.generations(made.job_id)[-1]
        assert watchdog._allowed(driver.ctx, tx, job, last) == expected
