"""Output becomes points and events, and nothing in it breaks anything."""

import dataclasses
import json
from itertools import product

import pytest

from optimus_core.cluster.base import OutputLine
from optimus_core.engine import collect
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.engine.reader import Reader
from optimus_core.job import Steps
from optimus_core.store import migrate
from optimus_core.store.database import open_database
from optimus_core.telemetry import BoundedSeries, Event, EventKind
from tests.conftest import Driver


def test_a_loss_that_is_no_number_is_an_event_and_the_job_goes_on(driver, make_job, script):
    code = """
        import time, optimus_train
        for step in range(1, 9):
            optimus_train.report(step, float("nan") if step == 4 else 1 / step)
            time.sleep(0.02)
    """
    made = driver.submit(make_job(command=script(code, "nan.py")))
    report = driver.to_end(made.job_id)
    assert (report.state, report.step, report.loss) == ("succeeded", 8, 1 / 8)
    (diverged,) = driver.events(made.job_id, "diverged")
    assert diverged["cause"]["step"] == 4
    with driver.ctx.store.transaction() as tx:
        points = BoundedSeries.from_state(tx.series(made.job_id, "loss").state).points()
    assert [p.step for p in points] == [1, 2, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("wait", [pytest.param(0, id="in one read"), pytest.param(0.5, id="in two reads")])
def test_a_checkpoint_told_of_after_later_steps_takes_none_of_them_back(driver, make_job, script, wait):
    code = f"""
        import time, optimus_train
        for step in range(1, 7):
            optimus_train.report(step, 1 / step)
        time.sleep({wait})
        print('{{"optimus": "checkpoint", "step": 5, "path": "/nowhere/step-5"}}', flush=True)
    """
    made = driver.submit(make_job(command=script(code, "late.py")))
    report = driver.to_end(made.job_id)
    assert (report.state, report.step) == ("succeeded", 6)
    assert report.result["steps"] == 6


def test_lines_that_tell_nothing_are_counted_and_break_nothing(driver, make_job, script):
    code = """
        import os, sys, optimus_train
        for junk in (
            b"\\xff\\xfe\\x00loss=\\n", b"{\\"optimus\\": \\"report\\", \\"step\\": \\n", b"loss: inf\\n" * 3,
            b"x" * 100_000 + b"\\n", b"{\\"optimus\\": 7}\\n", b"step 1e999 loss 1\\n",
        ):
            sys.stdout.buffer.write(junk)
            sys.stdout.flush()
        optimus_train.report(1, 0.5)
    """
    made = driver.submit(make_job(command=script(code, "junk.py")))
    report = driver.to_end(made.job_id)
    assert (report.state, report.loss) == ("succeeded", 0.5)
    with driver.ctx.store.transaction() as tx:
        (output,) = tx.outputs(made.job_id)
    assert output.unread > 0
    assert "\x00" not in output.tail


def test_steps_that_come_again_after_a_restart_are_kept_once(driver, make_job):
    made = driver.submit(make_job(STEPS=25, SAVE_EVERY=10))
    driver.to_step(made.job_id, 15)
    driver.cluster.delete(driver.alive(), grace_seconds=0)
    assert driver.to_end(made.job_id).state == "succeeded"
    with driver.ctx.store.transaction() as tx:
        steps = [p.step for p in BoundedSeries.from_state(tx.series(made.job_id, "loss").state).points()]
    assert steps == sorted(set(steps))
    assert steps[-1] == 25


def test_a_script_that_prints_ever_new_names_does_not_fill_the_store(driver, make_job, script):
    code = """
        import optimus_train
        for step in range(1, 60):
            optimus_train.report(step, 1 / step, **{"metric%d" % step: 1.0})
    """
    made = driver.submit(make_job(command=script(code, "names.py")))
    driver.to_end(made.job_id)
    with driver.ctx.store.transaction() as tx:
        names = {row.name for row in tx.all_series(made.job_id)}
    assert len(names) <= 20
    assert "loss" in names


def test_the_end_of_every_replicas_output_is_kept(driver, make_job, script):
    code = "import optimus_train; print('I am', optimus_train.rank())"
    made = driver.submit(make_job(workers=(3, 3), command=script(code, "hello.py")))
    driver.to_end(made.job_id)
    tails = sorted(output["tail"] for output in driver.engine.outputs(made.job_id))
    assert tails == ["I am 0\n", "I am 1\n", "I am 2\n"]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(r'{"\ud800": 1.0, "loss": 0.5, "step": 2}', id="a name that is half a character"),
        pytest.param(r'{"a\u0000b": 1, "loss": 0.5, "step": 2}', id="a name with a NUL"),
        pytest.param(r'{"optimus": "checkpoint", "step": 2, "path": "/x/\ud800"}', id="such a path"),
        pytest.param('{"optimus": "report", "step": 2, "loss": 1, "time": 1e15}', id="a time that no calendar has"),
        pytest.param('{"optimus": "report", "step": 999999999999999872, "loss": 1}', id="a step that is none"),
        pytest.param('{"optimus": "total", "steps": 999999999999999872}', id="a total that is none"),
    ],
)
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_no_line_keeps_a_job_from_being_driven(request, cluster, settings, make_job, script, line, database):
    if database == "postgres":
        settings = dataclasses.replace(settings, database_url=request.getfixturevalue("postgres_url"))
        migrate.upgrade(open_database(settings.database_url))
    driver = Driver(Engine(settings, clusters_from({"local": cluster})), cluster)
    code = f"""
        import optimus_train, time
        optimus_train.report(1, 1.0)
        for _ in range(3):
            print({line!r}, flush=True)
            time.sleep(0.3)
        optimus_train.report(3, 0.25)
    """
    report = driver.to_end(driver.submit(make_job(command=script(code, "odd.py"))).job_id)
    assert (report.state, report.step, report.loss) == ("succeeded", 3, 0.25)


def test_an_error_while_output_is_read_leaves_the_job_drivable(driver, make_job, monkeypatch):
    made = driver.submit(make_job(STEPS=100_000))
    driver.to_step(made.job_id, 2)
    monkeypatch.setattr(collect, "_learn", lambda *_: 1 / 0)
    driver.engine.request_stop(made.job_id, by="ann")
    assert driver.to_end(made.job_id).state == "stopped"


def test_a_piece_of_output_that_cant_be_taken_in_is_passed_over_and_told_of(driver, make_job, monkeypatch):
    made = driver.submit(make_job(STEPS=100_000))
    driver.to_step(made.job_id, 2)
    monkeypatch.setattr(collect, "_learn", lambda *_: 1 / 0)
    driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "output_unread"))
    before = driver.report(made.job_id).step
    monkeypatch.undo()
    assert driver.to_step(made.job_id, before + 2).phase == "running"
    told = driver.events(made.job_id, "output_unread")
    assert 1 <= len(told) <= 5
    assert told[0]["cause"]["error"] == "ZeroDivisionError: division by zero"


NUMBERS = (
    "1", "0.5", "-1", "-1e17", "1e17", "1e18", "1e308", "-1e308", "1e400", "9007199254740991", "9007199254740992",
    "9" * 400, "NaN", "Infinity", "true", "null", '"1e308"', '"nan"',
)  # fmt: skip


@pytest.mark.parametrize("steps_per_epoch", [None, 1000])
@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{{"optimus": "report", "step": {a}, "epoch": {b}, "loss": 1}}', id="a report"),
        pytest.param('{{"optimus": "report", "epoch": {a}, "loss": {b}}}', id="a report of epochs"),
        pytest.param('{{"optimus": "report", "step": {a}, "time": {b}, "loss": 1}}', id="a report with a time"),
        pytest.param('{{"optimus": "total", "steps": {a}, "x": {b}}}', id="a total"),
        pytest.param('{{"optimus": "checkpoint", "step": {a}, "path": {b}}}', id="a checkpoint"),
        pytest.param('{{"optimus": "last", "step": {a}, "checkpoint": {b}}}', id="a last message"),
        pytest.param('{{"loss": 1, "step": {a}, "epoch": {b}}}', id="an object"),
        pytest.param('{{"loss": 1, "batch": {a}, "epoch": {b}}}', id="an object of batches"),
        pytest.param("{{'loss': {a}, 'epoch': {b}}}", id="a dictionary"),
        pytest.param("Epoch [{a}/{b}] Batch [{a}-{b}] loss=1", id="a line"),
        pytest.param("Epoch: [{a}][{b}/{a}] loss=1", id="a line of an epoch's steps"),
        pytest.param("#argo progress={a}/{b}", id="progress"),
    ],
)
def test_whatever_number_a_line_has_only_what_can_be_is_read(line, steps_per_epoch):
    for a, b in product(NUMBERS, repeat=2):
        reader = Reader(None, steps_per_epoch, 1.0, None)
        lines = [OutputLine(1e9 + second, line.format(a=a, b=b).encode()) for second in range(3)]
        reading = reader.read(lines)
        json.dumps(reader.state(), allow_nan=False)
        steps = reading.steps + [s for s, _ in reading.points] + [n for e in reading.events for n in (e.step, e.total)]
        assert all(0 <= step < 2**53 for step in steps if step is not None), (a, b)
        assert all(0 <= p.epoch < 1e18 for _, p in reading.points if p.epoch is not None), (a, b)


@pytest.mark.parametrize(
    "told",
    [
        pytest.param('"step": 999999, "path": "/etc/passwd"', id="a file of somebody else"),
        pytest.param('"step": 999999, "path": "{root}/../../other/l1/g000001/step-000000999999"', id="another job's"),
        pytest.param('"step": 999999, "path": "{root}"', id="the folder itself"),
        pytest.param('"step": 999999, "path": "{root}-2/g000001/step-000000999999"', id="a folder of a like name"),
        pytest.param('"step": 999999, "path": "{root}/g000001/step-000000999999"', id="one that is not there"),
        pytest.param('"step": 999999, "path": "{root}/g000001/step-000000000002"', id="one of another step"),
        pytest.param('"path": "{root}/g000001/step-000000000002"', id="one without a step"),
        pytest.param('"step": 999999', id="one without a path"),
        pytest.param('"step": 999999, "path": ["{root}"]', id="a path that is none"),
    ],
)
def test_only_a_checkpoint_of_the_job_itself_is_believed(driver, make_job, script, told):
    code = f"""
        import os, time, optimus_train
        root = os.environ["OPTIMUS_CHECKPOINTS"]
        for step in (1, 2):
            optimus_train.report(step, 1 / step)
        with optimus_train.checkpoint(2) as folder:
            (folder / "model").write_text("2")
        for _ in range(2):
            print('{{"optimus": "checkpoint", ' + {told!r}.replace("{{root}}", root) + "}}", flush=True)
            time.sleep(0.3)
        optimus_train.report(3, 0.1)
    """
    made = driver.submit(make_job(command=script(code, "false.py")))
    report = driver.to_end(made.job_id)
    assert (report.state, report.step, report.checkpoint_step) == ("succeeded", 3, 2)
    assert report.result["checkpoint"].endswith("/g000001/step-000000000002")
    (refused,) = driver.events(made.job_id, "checkpoint_refused")
    assert refused["cause"]["folder"] in report.result["checkpoint"]


def test_a_false_checkpoint_confirms_no_stop_criterion(driver, make_job, script):
    code = """
        import time, optimus_train
        for step in range(1, 100_000):
            optimus_train.report(step, 1.0)
            print('{"optimus": "checkpoint", "step": %d, "path": "/etc/passwd"}' % step, flush=True)
            time.sleep(0.05)
            if optimus_train.stop_requested():
                break
    """
    made = driver.submit(make_job(command=script(code, "false.py"), stop=Steps(5), retries=0))
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "no_checkpoint")


@pytest.mark.parametrize(
    ("root", "path", "believed"),
    [
        pytest.param("s3://bucket/ck/job/l1", "s3://bucket/ck/job/l1/g000001/step-000000000005", True, id="a URL"),
        pytest.param("s3://bucket/ck/job/l1", "s3:/bucket/ck/job/l1/g000001/step-000000000005", True, id="as a path"),
        pytest.param("s3://bucket/ck/job/l1", "s3://other/ck/job/l1/g000001/step-000000000005", False, id="another"),
        pytest.param("/mnt/ck//job/l1", "/mnt/ck/job/l1/5.pt", True, id="a file of the script's own kind"),
        pytest.param("/mnt/ck/job/l1", "job/l1/5.pt", False, id="relative"),
    ],
)
def test_a_checkpoint_elsewhere_is_judged_by_its_place(root, path, believed):
    event = Event(1, EventKind.CHECKPOINT, path, 5)
    assert collect.is_checkpoint(event, root, here=False) is believed
