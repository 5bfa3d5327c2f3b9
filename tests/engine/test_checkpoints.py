"""Which checkpoints a job may see, and which are deleted."""

import dataclasses
import shutil
from datetime import timedelta

import pytest

from optimus_core.engine import collect
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from tests.conftest import TRAIN, Driver


def forget(driver, days=0):
    """Delete the ended jobs, as ``db clean`` does."""
    return driver.engine.delete_ended(days)


def wipe(driver):
    """Delete the job as if Optimus had never known it: its checkpoints stay."""
    with driver.ctx.store.transaction() as tx:
        tx.delete_ended_before(tx.now + timedelta(seconds=1))
    return driver


def begin_anew(driver):
    """Lose the store: the next one is empty."""
    url = f"sqlite:///{driver.ctx.settings.home / 'another.db'}"
    settings = dataclasses.replace(driver.ctx.settings, database_url=url)
    return Driver(Engine(settings, clusters_from({"local": driver.cluster})), driver.cluster)


def folders(driver, name):
    """What lies in the folder of a job's checkpoints."""
    folder = driver.ctx.settings.checkpoint_root / name
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    "lose", [pytest.param(wipe, id="after its job was deleted"), pytest.param(begin_anew, id="after a lost store")]
)
def test_a_new_job_never_sees_the_checkpoints_of_an_earlier_one_of_its_name(driver, make_job, lose, fresh):
    made = driver.submit(make_job(STEPS=10))
    assert driver.to_end(made.job_id).step == 10
    later = lose(driver)
    again = later.submit(make_job(STEPS=10), fresh=fresh)
    assert later.to_end(again.job_id).step == 10
    assert later.generations(again.job_id)[0]["first_step"] == 1
    assert len(folders(later, made.name)) == 2


def test_a_later_try_of_the_same_job_does(driver, make_job):
    made = driver.submit(make_job(STEPS=10_000))
    driver.to_step(made.job_id, 6)
    driver.engine.stop("digits", "ann")
    driver.to_end(made.job_id)
    driver.submit(make_job(STEPS=10_000), 2)
    driver.drive(made.job_id, to=lambda: driver.generations(made.job_id)[-1]["first_step"])
    assert driver.generations(made.job_id)[-1]["first_step"] > 6


@pytest.mark.parametrize(
    ("state", "days", "deleted"),
    [
        pytest.param("succeeded", 0, True, id="succeeded"),
        pytest.param("stopped", 0, True, id="stopped"),
        pytest.param("succeeded", 1, False, id="too new"),
    ],
)
def test_the_checkpoints_of_a_deleted_job_go_with_it_and_no_others_do(driver, make_job, state, days, deleted):
    made = driver.submit(make_job(STEPS=6 if state == "succeeded" else 10_000))
    driver.to_step(made.job_id, 6)
    if state == "stopped":
        driver.engine.stop("digits", "ann")
    assert driver.to_end(made.job_id).state == state
    (own,) = folders(driver, made.name)
    strangers = driver.ctx.settings.checkpoint_root / made.name / "l1-20200101T000000000000"
    strangers.mkdir()
    assert forget(driver, days) == deleted
    assert folders(driver, made.name) == sorted({strangers.name} | ({own} - ({own} if deleted else set())))
    assert [report.title for report in driver.engine.jobs()] == ([] if deleted else ["digits"])


def test_a_folder_that_is_empty_then_goes_too(driver, make_job):
    made = driver.submit(make_job(STEPS=6))
    driver.to_end(made.job_id)
    forget(driver)
    assert not (driver.ctx.settings.checkpoint_root / made.name).exists()


def test_old_checkpoints_of_a_success_are_deleted_but_not_what_a_new_start_writes(driver, make_job):
    made = driver.submit(make_job(STEPS=6))
    driver.to_end(made.job_id)
    (old,) = folders(driver, made.name)
    new = driver.ctx.settings.checkpoint_root / made.name / old.replace("l1-", "l2-")
    new.mkdir()
    driver.engine.upkeep()
    assert folders(driver, made.name) == [old, new.name]
    with driver.ctx.store.transaction() as tx:
        tx.job(made.job_id).ended_at -= timedelta(days=30)
    driver.engine.upkeep()
    assert folders(driver, made.name) == [new.name]


def test_a_checkpoint_that_is_gone_fails_the_job_in_place_of_beginning_anew(driver, make_job, script):
    impatient = script("import optimus_train.checkpoints as c\nc.PATIENCE = 0.5\n" + TRAIN)
    made = driver.submit(make_job(command=impatient, STEPS=10_000))
    driver.to_step(made.job_id, 6)
    driver.engine.stop("digits", "ann")
    driver.to_end(made.job_id)
    shutil.rmtree(driver.ctx.settings.checkpoint_root / made.name)
    driver.submit(make_job(command=impatient, STEPS=10_000), 2)
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "checkpoint_missing")
    assert report.reason.startswith("A checkpoint that was confirmed, of step ")
    assert "the newest in " in report.reason
    assert "each node sees another volume" in report.reason
    driver.submit(make_job(command=impatient, STEPS=10), 3, fresh=True)
    assert driver.to_end(made.job_id).state == "succeeded", "who wants to begin anew says so"


def test_what_an_older_generation_says_late_confirms_nothing(driver, make_job):
    made = driver.submit(make_job(STEPS=10))
    driver.to_end(made.job_id)
    with driver.ctx.store.transaction() as tx:
        row = tx.job(made.job_id)
        row.checkpoint_path = row.checkpoint_path.replace("/g000001/", "/g000002/")
        collect._confirm_checkpoint(tx, row, tx.generation(row.id, 1), 99, row.checkpoint_path)
        assert row.checkpoint_step == 10
