"""The speed model: recovers the formulas of the paper, keeps a sensible shape with few samples."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus_core.models import SpeedKind, SpeedModel

TRUTHS = {
    SpeedKind.PS_SYNC: lambda p, w: 1 / (0.01 * 64 / w + 0.05 + 0.02 * w / p + 0.003 * w + 0.002 * p),
    SpeedKind.PS_ASYNC: lambda p, w: w / (0.3 + 0.05 * w / p + 0.01 * w + 0.004 * p),
    SpeedKind.ALL_REDUCE: lambda p, w: 1 / (0.01 * 64 / w + 0.04 + 0.01 * w),
}
SIZES = np.array([(p, w) for p in range(1, 7) for w in range(1, 9)], dtype=float).T


@pytest.mark.parametrize("kind", TRUTHS, ids=str)
def test_a_truth_without_noise_is_recovered(kind):
    truth = TRUTHS[kind](*SIZES)
    model = SpeedModel(kind, batch_size=64).fit(*SIZES, truth)
    assert np.abs(model.predict(*SIZES) / truth - 1).max() < 0.05


@pytest.mark.parametrize("kind", TRUTHS, ids=str)
def test_ten_noisy_samples_predict_all_sizes(kind):
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(20):
        chosen = rng.choice(SIZES.shape[1], 10, replace=False)
        seen = TRUTHS[kind](*SIZES[:, chosen]) * (1 + 0.05 * rng.standard_normal(10))
        model = SpeedModel(kind, batch_size=64).fit(*SIZES[:, chosen], seen)
        errors.append(np.abs(model.predict(*SIZES) / TRUTHS[kind](*SIZES) - 1).mean())
    assert np.median(errors) < 0.12


@pytest.mark.parametrize("kind", TRUTHS, ids=str)
def test_one_sample_sets_the_level_and_the_usual_shape_the_rest(kind):
    model = SpeedModel(kind, batch_size=64).fit([1], [1], [10.0])
    assert model.predict(1, 1) == pytest.approx(10.0, rel=0.01)
    assert model.predict(1, 1) < model.predict(1, 2) < 20.0


@pytest.mark.parametrize("per", ["job", "worker"])
@pytest.mark.parametrize("kind", TRUTHS, ids=str)
def test_before_any_sample_speeds_are_relative(kind, per):
    model = SpeedModel.default(kind, batch_per=per, batch_size=64)
    assert model.is_default_
    assert model.predict(1, 1) == pytest.approx(1.0)


def test_far_from_what_was_seen_the_uncertainty_is_larger():
    model = SpeedModel(SpeedKind.ALL_REDUCE, batch_size=64).fit([0, 0], [1, 2], [1.0, 1.8])
    assert model.uncertainty(0, 16) > model.uncertainty(0, 2)
    low, high = model.predict_interval(0, 4)
    assert low < model.predict(0, 4) < high


def test_without_a_worker_or_a_needed_server_there_is_no_speed():
    model = SpeedModel(SpeedKind.PS_SYNC, batch_size=64).fit([1], [1], [10.0])
    assert list(model.predict([0, 1, 0], [2, 0, 0])) == [0, 0, 0]
    assert SpeedModel.default(SpeedKind.ALL_REDUCE).predict(0, 2) > 0


def test_samples_without_a_speed_are_refused():
    with pytest.raises(ValueError, match="positive speed"):
        SpeedModel(SpeedKind.PS_SYNC).fit([1], [1], [0.0])


@pytest.mark.parametrize("kind", TRUTHS, ids=str)
def test_a_model_survives_json(kind):
    model = SpeedModel(kind, batch_size=64).fit([1, 2], [1, 4], [10.0, 25.0])
    again = SpeedModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert (again.predict(*SIZES) == model.predict(*SIZES)).all()
    assert (again.uncertainty(*SIZES) == model.uncertainty(*SIZES)).all()


samples = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8), st.floats(1e-3, 1e3)), min_size=1, max_size=12)


@given(st.sampled_from(list(TRUTHS)), samples, st.floats(1e-2, 1e2))
@settings(deadline=None, max_examples=80)
def test_speeds_are_never_negative_and_scale_with_the_samples(kind, seen, factor):
    p, w, f = map(np.array, zip(*seen, strict=True))
    one = SpeedModel(kind, batch_size=64).fit(p, w, f).predict(*SIZES)
    other = SpeedModel(kind, batch_size=64).fit(p, w, f * factor).predict(*SIZES)
    assert (one > 0).all()
    assert np.isfinite(one).all()
    assert other == pytest.approx(one * factor, rel=1e-4)


def test_what_crosses_nodes_is_slower_by_what_the_samples_tell():
    workers, nodes = np.array([1, 2, 4, 4, 8, 16]), np.array([1, 1, 1, 2, 2, 4])
    seconds = 0.1 + 0.002 * workers + np.where(nodes > 1, 0.08, 0.0)
    model = SpeedModel(SpeedKind.ALL_REDUCE, batch_per="worker").fit(workers * 0, workers, 1 / seconds, nodes=nodes)
    assert 1 / model.predict(0, 4, 1) == pytest.approx(0.108, rel=0.06)
    assert 1 / model.predict(0, 4, 2) == pytest.approx(0.188, rel=0.06)
    again = SpeedModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert again.predict(0, 8, 2) == model.predict(0, 8, 2)


def test_overlapping_communication_is_noticed():
    p, w = SIZES
    compute, wire = 0.64 / w, 0.05 * w / p
    model = SpeedModel(SpeedKind.PS_SYNC, batch_size=64).fit(p, w, 1 / np.maximum(compute, wire))
    assert model.overlap_ > 1


def test_one_slow_sample_among_many_changes_little():
    truth = TRUTHS[SpeedKind.PS_SYNC](*SIZES)
    spoiled = truth.copy()
    spoiled[10] /= 20
    model = SpeedModel(SpeedKind.PS_SYNC, batch_size=64).fit(*SIZES, spoiled)
    assert np.abs(model.predict(*SIZES) / truth - 1).mean() < 0.05


def test_older_samples_count_less_by_their_weight():
    model = SpeedModel(SpeedKind.ALL_REDUCE).fit([0, 0], [2, 2], [5.0, 10.0], weights=[0.001, 1.0])
    assert model.predict(0, 2) == pytest.approx(10.0, rel=0.02)
