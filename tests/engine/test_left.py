"""What is left of a job between two rounds, of which the first may be long ago."""

import pytest

from optimus_core.choices import Steps
from optimus_core.engine.left import seconds_left, steps_left
from optimus_core.store import JobRow

PLANNED = {"remaining": {"value": 100.0}, "step": 20, "predicted_seconds": 50.0, "predicted_steps": 100.0}


@pytest.mark.parametrize(
    ("step", "changed", "steps", "seconds"),
    [
        pytest.param(20, {}, 100, 50, id="as-planned"),
        pytest.param(60, {}, 60, 30, id="after-some-steps"),
        pytest.param(120, {}, 0, 0, id="at-its-end"),
        pytest.param(130, {}, 0, 0, id="beyond-what-was-predicted"),
        pytest.param(0, {}, 120, 60, id="gone-back-to-a-checkpoint"),
        pytest.param(None, {"step": 0}, 100, 50, id="before-its-first-step"),
        pytest.param(60, {"remaining": {"value": 80.0}, "step": 60}, 80, 40, id="fitted-anew-since-the-plan"),
        pytest.param(60, {"predicted_seconds": None}, 60, None, id="no-size-yet"),
        pytest.param(60, {"remaining": {"value": None}}, None, 50, id="work-not-known"),
        pytest.param(60, {"predicted_steps": 0.0}, 60, 50, id="nothing-was-left"),
    ],
)
def test_what_is_left_falls_with_the_steps_that_are_made(step, changed, steps, seconds):
    row = JobRow(step=step, estimate=PLANNED | changed)
    assert (steps_left(row), seconds_left(row)) == (steps, seconds)


def test_of_a_job_without_estimate_nothing_is_told():
    assert (steps_left(JobRow()), seconds_left(JobRow())) == (None, None)


def test_a_report_counts_down_while_no_round_comes_and_a_look_at_the_plan_changes_nothing(driver, make_job):
    made = driver.submit(make_job(stop=Steps(2000)))
    with driver.ctx.store.transaction() as tx:
        row = tx.job(made.job_id)
        assert (row.estimate["step"], row.estimate["predicted_steps"]) == (0, 2000)
        row.estimate, row.step = row.estimate | {"predicted_seconds": 100.0}, 1010
    for look in (driver.engine.peek, lambda: None):
        report = driver.report(made.job_id)
        assert (report.remaining_steps, report.predicted_seconds) == (990, 49.5)
        look()
