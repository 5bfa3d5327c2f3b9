"""What a job's view draws."""

from datetime import UTC, datetime, timedelta

import pytest

from optimus_core.choices import Converged, Loss
from optimus_core.engine import charts, views
from optimus_core.engine.charts import note_prediction
from optimus_core.engine.identity import Identity
from optimus_core.models import Estimate
from optimus_core.store.views import Wanted

MOMENT = datetime(2025, 1, 1, tzinfo=UTC)


def drawn(driver, job_id):
    with driver.engine.store.transaction() as tx:
        return charts.of_job(tx, tx.peek_job(job_id))


@pytest.fixture
def trained(driver, make_job):
    made = driver.submit(make_job(STEPS=30))
    assert driver.to_end(made.job_id).state == "succeeded"
    driver.engine.peek()
    return made.job_id


def test_the_curve_of_a_run_lies_behind_the_next(driver, make_job, trained):
    (earlier,) = drawn(driver, trained)["earlier"]
    assert earlier[-1][0] == pytest.approx(30, abs=2)
    assert earlier[0][1] > earlier[-1][1] > 0


def test_what_a_job_used_is_what_its_replicas_were_held(driver, trained):
    with driver.engine.store.transaction() as tx:
        (generation,) = tx.generations(trained)
    held = (generation.gone_at - generation.starting_at).total_seconds() * generation.workers
    assert drawn(driver, trained)["replica_hours"] == pytest.approx(held / 3600, abs=1e-4)


@pytest.mark.parametrize(
    ("stop", "threshold"),
    [
        pytest.param(Loss(below=0.01), 0.01, id="a loss"),
        pytest.param(Converged(threshold=0.05, patience=2), None, id="at rest"),
    ],
)
def test_a_running_job_has_a_fit_with_its_band_and_an_end(driver, make_job, stop, threshold):
    made = driver.submit(make_job(STEPS=4000, PAUSE=0.02, stop=stop, steps_per_epoch=5))
    driver.to_step(made.job_id, 20)
    driver.engine.round()
    found = drawn(driver, made.job_id)
    curve = found["curve"]
    assert found["loss"] == "loss"
    assert all(low <= loss <= high for _, loss, low, high in curve["rows"])
    assert curve["rows"][-1][0] > 20
    assert curve["end"][0] is None or curve["end"][1] <= curve["end"][0]
    assert curve["threshold"] == (threshold or pytest.approx(curve["threshold"]))
    assert found["speed"]["workers"] == [1]


def test_predictions_are_kept_thinned_with_the_newest_last():
    rows = []
    for second in range(1000):
        rows = note_prediction(rows, MOMENT + timedelta(seconds=second), 1000 - second, Estimate(10, 5, 20))
    assert len(rows) <= 120
    assert rows[0][0] == MOMENT.timestamp()
    assert rows[-1] == [MOMENT.timestamp() + 999, 1, 0.5, 2.0]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)


def test_no_prediction_is_no_row():
    assert note_prediction([[1.0, 2.0, None, None]], MOMENT, None, Estimate()) == [[1.0, 2.0, None, None]]


def test_what_another_version_wrote_hides_nothing_else(driver, trained):
    with driver.engine.store.transaction() as tx:
        tx.job(trained).estimate = {"curve": {"of": "tomorrow"}, "speed": [], "predicted_seconds": 5}
    found = drawn(driver, trained)
    assert (found["curve"], found["speed"]) == (None, None)
    assert found["earlier"]


def test_a_list_of_jobs_asks_the_store_as_often_for_many_as_for_one(driver, make_job):
    from sqlalchemy import event

    asked = []
    event.listen(driver.engine.store.engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
    counts = []
    for number in range(3):
        identity = Identity.of_task("default", "dag", f"run{number}", "train", -1)
        driver.engine.submit(make_job(), identity)
        asked.clear()
        found = views.list_jobs(driver.engine.ctx, ["dag"], Wanted(), before=None, limit=50)
        assert len(found["jobs"]) == number + 1
        counts.append(len(asked))
    assert len(set(counts)) == 1
