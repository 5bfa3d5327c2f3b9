"""The convergence model: true on synthetic truth, sane on real curves, honest where nothing can be known."""

import csv
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus_core.models import ConvergenceModel, converged_at


def curve(steps, b0=0.02, b1=0.5, b2=0.3):
    return 1 / (b0 * np.asarray(steps, dtype=float) + b1) + b2


def real_curves():
    runs = defaultdict(list)
    with (Path(__file__).parent / "data" / "mlperf.csv").open() as file:
        for row in csv.DictReader(file):
            runs[row["model"], row["run"]].append((float(row["step"]), float(row["loss"])))
    return {key: np.array(points).T for key, points in runs.items()}


@pytest.mark.parametrize("noise", [pytest.param(0.0, id="no noise"), pytest.param(0.05, id="5 % of noise")])
def test_the_end_of_a_run_is_predicted_from_its_first_half(noise):
    steps = np.arange(1, 1001)
    losses = curve(steps) * (1 + noise * np.random.default_rng(3).standard_normal(1000))
    model = ConvergenceModel(drift=0).fit(steps[:500], losses[:500])
    assert model.predict([1000])[0] == pytest.approx(curve(1000), rel=0.02 + noise)


def test_an_interval_holds_most_of_the_losses_to_come():
    inside = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        steps = np.arange(1, 1001)
        losses = curve(steps) * (1 + 0.03 * rng.standard_normal(1000))
        low, high = ConvergenceModel().fit(steps[:400], losses[:400]).predict_interval([1000], 0.8, points=True)
        inside += low[0] <= losses[999] <= high[0]
    assert 26 <= inside <= 40


def test_outliers_among_the_losses_change_little():
    steps = np.arange(1, 301)
    losses = curve(steps)
    spoiled = losses.copy()
    spoiled[[40, 120, 200]] *= 50
    clean, robust = ConvergenceModel().fit(steps, losses), ConvergenceModel().fit(steps, spoiled)
    assert robust.predict([600])[0] == pytest.approx(clean.predict([600])[0], rel=0.02)


@pytest.mark.parametrize("model", ["gnmt", "ssd"])
def test_the_end_of_real_curves_is_predicted_from_60_percent(model):
    errors = []
    for (name, _), (steps, losses) in real_curves().items():
        if name == model:
            seen = int(len(steps) * 0.6)
            predicted = ConvergenceModel().fit(steps[:seen], losses[:seen]).predict(steps[-10:])
            errors.append(abs(predicted.mean() / losses[-10:].mean() - 1))
    assert np.median(errors) < 0.3


def test_the_step_of_a_loss_is_where_the_curve_crosses_it():
    steps = np.arange(1, 400)
    end = ConvergenceModel().fit(steps, curve(steps)).step_of_loss(0.4)
    assert end.value == pytest.approx((1 / 0.1 - 0.5) / 0.02, rel=0.1)
    assert end.low <= end.value <= end.high


def test_a_loss_below_the_floor_is_never_reached():
    steps = np.arange(1, 4000)
    assert ConvergenceModel().fit(steps, curve(steps)).step_of_loss(0.05).value == math.inf


def test_the_predicted_convergence_is_where_the_seen_one_comes():
    steps = np.arange(1, 2001)
    losses = curve(steps)
    predicted = ConvergenceModel().fit(steps[:400], losses[:400]).step_of_convergence(0.01, 3, 50)
    seen = converged_at(steps, losses, 0.01, 3, 50)
    assert predicted.value == pytest.approx(seen, rel=0.25)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        pytest.param([4, 2, 1, 0.5], None, id="still falling"),
        pytest.param([4, 2, 1, 0.99, 0.985, 0.98, 0.98], 40, id="calm for two epochs"),
        pytest.param([4, 2, 1, 0.99, 0.5, 0.49, 0.4], None, id="calm interrupted"),
        pytest.param([], None, id="no losses"),
        pytest.param([1.0], None, id="one epoch"),
    ],
)
def test_a_seen_loss_has_converged_after_calm_epochs_in_a_row(losses, expected):
    per_epoch = 8
    steps = np.arange(len(losses) * per_epoch)
    assert converged_at(steps, np.repeat(losses, per_epoch), 0.01, 2, per_epoch) == expected


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param([1.0, 0.9], id="two points"),
        pytest.param([math.nan] * 10, id="nothing but NaN"),
        pytest.param([-1.0] * 10, id="negative"),
        pytest.param([], id="none"),
    ],
)
def test_what_is_no_curve_is_refused_with_what_is_needed(losses):
    with pytest.raises(ValueError, match="3 points"):
        ConvergenceModel().fit(range(len(losses)), losses)


def test_steps_and_losses_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="one loss for each step"):
        ConvergenceModel().fit([1, 2, 3], [1.0])


def test_a_model_survives_json():
    steps = np.arange(1, 100)
    model = ConvergenceModel().fit(steps, curve(steps))
    again = ConvergenceModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert again.predict([500])[0] == model.predict([500])[0]
    assert again.step_of_loss(0.5).value == model.step_of_loss(0.5).value


@given(st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=60), st.floats(1e-3, 1e3), st.randoms())
@settings(deadline=None, max_examples=60)
def test_scale_and_order_of_the_points_do_not_matter(losses, factor, random):
    steps = list(range(len(losses)))
    pairs = list(zip(steps, losses, strict=True))
    random.shuffle(pairs)
    one = ConvergenceModel().fit(steps, losses).predict([len(losses) * 2.0])[0]
    shuffled_steps, shuffled = zip(*pairs, strict=True)
    other = ConvergenceModel().fit(shuffled_steps, np.array(shuffled) * factor).predict([len(losses) * 2.0])[0]
    assert other == pytest.approx(one * factor, rel=1e-6)
    assert math.isfinite(one)


def test_a_million_points_are_thinned():
    steps = np.arange(1, 1_000_001)
    model = ConvergenceModel(max_points=200).fit(steps, curve(steps, b0=2e-5))
    assert model.predict([2_000_000])[0] == pytest.approx(curve(2_000_000, b0=2e-5), rel=0.05)


@pytest.mark.parametrize(
    "losses_at",
    [
        pytest.param(lambda k: 1.5 * (k + 20) ** -0.4 + 0.2, id="power law"),
        pytest.param(lambda k: 2 * np.exp(-k / 150) + 0.3, id="exponential"),
        pytest.param(lambda k: 2 * np.exp(-((k / 100) ** 0.6)) + 0.3, id="stretched"),
    ],
)
def test_curves_of_other_families_are_followed(losses_at):
    steps = np.arange(1.0, 501)
    losses = losses_at(steps) * (1 + 0.01 * np.random.default_rng(0).standard_normal(500))
    assert ConvergenceModel(drift=0).fit(steps, losses).predict([1000])[0] == pytest.approx(losses_at(1000.0), rel=0.06)


def test_a_metric_that_rises_is_foretold_and_crosses_its_goal():
    steps = np.arange(1.0, 401)
    accuracy = 0.9 - 0.8 * np.exp(-steps / 200)
    model = ConvergenceModel(rises=True).fit(steps, accuracy)
    assert model.predict([1000])[0] == pytest.approx(0.9 - 0.8 * math.exp(-5), rel=0.03)
    assert model.step_of_loss(0.82).value == pytest.approx(200 * math.log(10), rel=0.1)


def test_a_loss_that_may_or_may_not_be_reached_can_not_be_known_yet():
    steps = np.arange(1, 2001)
    losses = curve(steps) * (1 + 0.02 * np.random.default_rng(0).standard_normal(2000))
    model = ConvergenceModel().fit(steps, losses)
    assert model.step_of_loss(0.27).is_known is False
    assert model.step_of_loss(0.4).is_known


def test_the_newest_points_count_most_after_a_drop():
    steps = np.arange(1, 1001)
    losses = np.where(steps <= 800, 1.0 + 2 * np.exp(-steps / 50), 0.6)
    assert ConvergenceModel(drift=0).fit(steps, losses).predict([1200])[0] == pytest.approx(0.6, rel=0.1)


def test_a_single_point_may_lie_further_off_than_the_level():
    steps = np.arange(1, 301)
    losses = curve(steps) * (1 + 0.05 * np.random.default_rng(1).standard_normal(300))
    model = ConvergenceModel().fit(steps, losses)
    (low, high), (lowest, highest) = model.predict_interval([400]), model.predict_interval([400], points=True)
    assert lowest[0] < low[0] < high[0] < highest[0]
