"""The prior: earlier runs foretell what no smooth curve can, and give way where they do not fit."""

import json

import numpy as np
import pytest

from optimus_core.models import ConvergenceModel, CurvePrior
from optimus_core.workload import prior_of, remember


def dropping(seed, drop=600, length=1000, noise=0.02):
    """A run whose learning rate drops at a step, by which the loss falls a quarter."""
    rng = np.random.default_rng(seed)
    steps = np.arange(1, length + 1)
    losses = 1 / (0.02 * steps + 0.5) + 1.0
    losses[drop:] = losses[drop:] * (0.75 + 0.25 * np.exp(-np.arange(length - drop) / 20))
    return steps, losses * (1 + noise * rng.standard_normal(length))


@pytest.mark.parametrize("seen", [pytest.param(300, id="30 %"), pytest.param(550, id="55 %")])
def test_earlier_runs_foretell_a_drop_that_was_not_seen_yet(seen):
    prior = CurvePrior(dropping(seed) for seed in range(3))
    steps, losses = dropping(9)
    truth = losses[-50:].mean()
    model = ConvergenceModel(prior=prior).fit(steps[:seen], losses[:seen])
    assert model.predict([975])[0] == pytest.approx(truth, rel=0.05)
    low, high = model.predict_interval([975])
    assert low[0] <= truth <= high[0]
    alone = ConvergenceModel().fit(steps[:seen], losses[:seen])
    assert abs(alone.predict([975])[0] / truth - 1) > 0.1


def test_earlier_runs_with_other_numbers_of_steps_are_stretched():
    prior = CurvePrior([dropping(0, drop=1200, length=2000)])
    steps, losses = dropping(9, drop=600, length=1000)
    stretched = CurvePrior([(dropping(0)[0] * 1.5, dropping(0)[1])])
    model = ConvergenceModel(prior=stretched).fit(steps[:550], losses[:550])
    assert model.predict([990])[0] == pytest.approx(losses[-50:].mean(), rel=0.08)
    assert prior.ends == [pytest.approx(2000, rel=0.02)]


def test_a_prior_that_does_not_fit_fades_as_own_points_arrive():
    steps = np.arange(1, 1001)
    losses = 3 * np.exp(-steps / 300) + 0.1
    shares = [
        ConvergenceModel(prior=CurvePrior([dropping(0)])).fit(steps[:seen], losses[:seen]).prior_share_
        for seen in (5, 50, 900)
    ]
    assert shares[-1] < 0.01
    assert shares[0] > shares[-1]


def test_without_runs_a_prior_changes_nothing():
    steps, losses = dropping(1)
    with_prior = ConvergenceModel(prior=CurvePrior()).fit(steps, losses)
    assert with_prior.predict([2000])[0] == ConvergenceModel().fit(steps, losses).predict([2000])[0]
    assert with_prior.prior_share_ == 0


def test_a_model_with_a_prior_survives_json():
    steps, losses = dropping(1)
    model = ConvergenceModel(prior=CurvePrior([dropping(0)])).fit(steps[:300], losses[:300])
    again = ConvergenceModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert (again.predict([500, 5000]) == model.predict([500, 5000])).all()
    assert again.step_of_loss(1.0) == model.step_of_loss(1.0)


def test_a_workload_remembers_its_newest_runs():
    known = None
    for seed in range(12):
        known = json.loads(json.dumps(remember(known, *dropping(seed, length=700 + seed, drop=600))))
    prior = prior_of(known)
    assert len(prior) == 8
    assert prior.ends[-1] == pytest.approx(711, rel=0.02)


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(None, id="nothing"),
        pytest.param({"coefficients": [1, 2, 3]}, id="another form"),
        pytest.param({"runs": [{"steps": [1]}]}, id="half a run"),
        pytest.param({"runs": []}, id="no run"),
    ],
)
def test_a_workload_of_which_nothing_usable_is_kept_has_no_prior(known):
    assert prior_of(known) is None


def test_a_run_without_a_curve_teaches_nothing():
    assert remember(None, [1, 2], [1.0, 0.5]) is None
