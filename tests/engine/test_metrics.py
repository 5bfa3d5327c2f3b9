"""The values behind the metrics, out of a store."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from optimus_core.choices import Steps
from optimus_core.engine import estimate
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.engine.metrics import PHASES, direction, gauges, prediction_error
from optimus_core.engine.report import phase_of
from optimus_core.scheduling.types import Size
from optimus_core.store import GenerationRow, JobRow
from tests.conftest import Driver

THEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        pytest.param((0, 0), (2, 3), None, id="a start"),
        pytest.param((0, 2), (0, 3), "grow", id="one worker more"),
        pytest.param((1, 2), (2, 2), "grow", id="one server more"),
        pytest.param((2, 3), (1, 3), "shrink", id="one server less"),
        pytest.param((2, 3), (1, 1), "shrink", id="less of both"),
        pytest.param((2, 3), (0, 0), "shrink", id="paused"),
        pytest.param((2, 3), (1, 4), "reshape", id="a worker for a server"),
        pytest.param((2, 3), (2, 3), "move", id="other nodes"),
    ],
)
def test_a_change_has_a_direction(before, after, wanted):
    sizes = [Size(servers=servers, workers=workers) for servers, workers in (before, after)]
    assert direction(*sizes) == wanted


def ended(state="succeeded", attempt=1, predicted=60.0, of_attempt=1, took=40.0):
    first = {"seconds": predicted, "at": THEN.isoformat(), "attempt": of_attempt}
    return JobRow(
        state=state, attempt=attempt, ended_at=THEN + timedelta(seconds=took), estimate={"first": first, "young": False}
    )


@pytest.mark.parametrize(
    ("row", "error"),
    [
        pytest.param(ended(), 0.5, id="too long"),
        pytest.param(ended(predicted=30.0), 0.25, id="too short"),
        pytest.param(ended(predicted=40.0), 0.0, id="right"),
        pytest.param(ended(state="stopped"), None, id="it did not come to its end"),
        pytest.param(ended(attempt=2), None, id="the prediction was for an earlier attempt"),
        pytest.param(ended(took=0.0), None, id="it ended at once"),
        pytest.param(JobRow(state="succeeded", attempt=1, ended_at=THEN, estimate=None), None, id="nothing predicted"),
        pytest.param(JobRow(state="succeeded", attempt=1, ended_at=THEN, estimate={"first": None}), None, id="none"),
    ],
)
def test_a_prediction_is_compared_with_the_end(row, error):
    assert prediction_error(row) == error


def test_every_phase_is_told():
    states = [("queued", None), ("queued", THEN), ("paused", None), ("stopping", None), ("running", None)]
    found = {phase_of(JobRow(state=state, not_before=moment), []) for state, moment in states}
    for state, cause in (("starting", None), ("running", None), ("draining", "resize"), ("draining", "oom")):
        generation = GenerationRow(state=state, cause={"code": cause})
        found.add(phase_of(JobRow(state="running"), [generation]))
    found.add(phase_of(JobRow(state="paused"), [GenerationRow(state="draining", cause={"code": "paused"})]))
    assert found == set(PHASES)


def test_what_runs_and_what_waits_is_counted(driver, make_job):
    runs = driver.submit(make_job(workers=(2, 2), cpu="1500m", STEPS=100_000))
    driver.to_step(runs.job_id, 1)
    driver.submit(make_job(name="too-many", workers=(2, 2), cpu="3"))
    now = gauges(driver.ctx.store, "local")
    assert (now.jobs["running"], now.jobs["queued"], sum(now.jobs.values())) == (1, 1, 2)
    assert now.replicas == {"worker": 2, "server": 0}
    assert now.allocated == {"cpu": 3000, "memory": 2 * 64 * 2**20}
    assert gauges(driver.ctx.store, "another").allocated == {}


def test_a_job_that_cant_be_understood_hides_no_other(driver, make_job):
    good, bad = (driver.submit(make_job(name=name, STEPS=100_000)) for name in ("good", "bad"))
    driver.to_step(good.job_id, 1)
    driver.to_step(bad.job_id, 1)
    with driver.ctx.store.transaction() as tx:
        row = tx.job(bad.job_id)
        row.specification = row.specification | {"workers": {"cpu": "a lot"}}
    now = gauges(driver.ctx.store, "local")
    assert (now.allocated["cpu"], now.replicas["worker"], now.jobs["running"]) == (1000, 2, 2)


def test_a_curve_that_can_not_be_fitted_is_a_failure_once_there_are_points_for_one(driver, make_job, monkeypatch):
    def refuse(*_):
        raise ValueError("no curve")

    monkeypatch.setattr(estimate.ConvergenceModel, "fit", refuse)
    made = driver.submit(make_job(STEPS=100_000, PAUSE=0.01))
    driver.engine.round()
    assert gauges(driver.ctx.store, "local").failed_fits == {}
    driver.to_step(made.job_id, 10)
    driver.engine.round()
    assert gauges(driver.ctx.store, "local").failed_fits == {"convergence": 1}


def test_the_first_prediction_that_can_be_relied_on_is_kept(settings, cluster, make_job):
    settings = dataclasses.replace(settings, speed_window_seconds=0.5)
    driver = Driver(Engine(settings, clusters_from({"local": cluster})), cluster)
    made = driver.submit(make_job(STEPS=100_000, PAUSE=0.01, stop=Steps(100_000)))

    def first():
        driver.engine.round()
        with driver.ctx.store.transaction() as tx:
            return tx.peek_job(made.job_id).estimate.get("first")

    kept = driver.drive(made.job_id, to=first)
    assert (kept["seconds"] > 0, kept["attempt"]) == (True, 1)
    driver.to_step(made.job_id, driver.report(made.job_id).step + 20)
    assert first() == kept
