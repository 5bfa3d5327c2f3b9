"""A round in which nothing is new: nothing is fitted, asked for one by one, or written."""

from contextlib import contextmanager

import pytest
from sqlalchemy import event

from optimus_core.engine import estimate
from optimus_core.engine.identity import Identity
from optimus_core.job import Steps
from optimus_core.store import SpeedRow


@pytest.fixture
def fits(monkeypatch):
    """The names of the jobs that were fitted, in their order."""
    made, fit = [], estimate.estimate

    def counted(ctx, tx, row):
        made.append(row.title)
        return fit(ctx, tx, row)

    monkeypatch.setattr(estimate, "estimate", counted)
    return made


@contextmanager
def statements(engine):
    """Yield a list of what the store is asked while the block runs."""
    asked = []

    def note(_, __, statement, *___):
        asked.append(statement)

    event.listen(engine.store.engine, "before_cursor_execute", note)
    yield asked
    event.remove(engine.store.engine, "before_cursor_execute", note)


def submit_many(engine, make_job, count):
    for number in range(count):
        job = make_job(name=f"job-{number}", cpu="100m")
        engine.submit(job, Identity.of_name("default", job.name), 1)


def test_a_job_is_fitted_again_only_when_something_was_learned(driver, make_job, fits):
    made = driver.submit(make_job(STEPS=100_000, stop=Steps(100_000)))
    driver.to_step(made.job_id, 3)
    driver.engine.round()
    fits.clear()
    driver.engine.round()
    assert fits == []


@pytest.mark.parametrize(
    "news",
    [
        pytest.param(lambda tx, row: setattr(row, "step", (row.step or 0) + 1), id="a step"),
        pytest.param(lambda tx, row: setattr(row, "total_steps", 77), id="its length"),
        pytest.param(
            lambda tx, row: setattr(row, "specification", row.specification | {"stop": {"steps": 9}}),
            id="what is asked",
        ),
        pytest.param(
            lambda tx, row: tx.add_speed(
                SpeedRow(
                    job_id=row.id, workload=row.workload, specification_hash=row.specification_hash, generation=1,
                    servers=0, workers=1, steps=10, seconds=1.0, time=tx.now,
                )
            ),
            id="a speed",
        ),
        pytest.param(lambda tx, row: setattr(tx.workload(row.workload), "total_steps", 50.0), id="an earlier run"),
    ],
)  # fmt: skip
def test_news_of_each_kind_lead_to_a_new_fit_of_that_job_alone(driver, make_job, fits, news):
    first, _ = driver.submit(make_job(name="first")), driver.submit(make_job(name="second"))
    driver.engine.round()
    with driver.ctx.store.transaction() as tx:
        news(tx, tx.job(first.job_id))
    fits.clear()
    driver.engine.round()
    assert [title.rpartition("/")[2] for title in fits] == ["first"]


def test_a_round_asks_the_store_as_often_for_nine_jobs_as_for_three(driver, make_job):
    submit_many(driver.engine, make_job, 3)
    driver.engine.round()
    with statements(driver.engine) as of_three:
        driver.engine.round()
    submit_many(driver.engine, make_job, 9)
    driver.engine.round()
    with statements(driver.engine) as of_nine:
        report = driver.engine.round()
    assert (report.changes, len(of_nine)) == ([], len(of_three))


def test_an_idle_round_leaves_the_rows_of_jobs_as_they_are(driver, make_job):
    submit_many(driver.engine, make_job, 2)
    driver.engine.round()
    with statements(driver.engine) as asked:
        driver.engine.round()
    assert [each for each in asked if each.startswith("UPDATE optimus_jobs")] == []
