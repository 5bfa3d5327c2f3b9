"""The choice of sample points: what tells most, inside what is allowed."""

import numpy as np
import pytest

from optimus_core.models import SpeedKind, SpeedModel, next_sizes

SIZES = [(p, w) for p in range(1, 9) for w in range(1, 9)]


@pytest.mark.parametrize("kind", [SpeedKind.PS_SYNC, SpeedKind.PS_ASYNC], ids=str)
def test_sizes_are_spread_and_not_all_of_equal_numbers(kind):
    chosen = next_sizes(SpeedModel.default(kind, batch_size=64), SIZES, 5)
    assert len(set(chosen)) == 5
    assert any(p != w for p, w in chosen)
    assert max(w for _, w in chosen) >= 6
    assert min(w for _, w in chosen) <= 2


@pytest.mark.parametrize("kind", [SpeedKind.PS_SYNC, SpeedKind.PS_ASYNC], ids=str)
def test_chosen_sizes_predict_better_than_those_of_equal_numbers(kind):
    truth = SpeedModel(kind, batch_size=64)
    truth.coefficients_ = (0.01, 0.05, 0.05, 0.01, 0.005) if kind is SpeedKind.PS_SYNC else (0.3, 0.2, 0.02, 0.01)
    chosen = next_sizes(SpeedModel.default(kind, batch_size=64), SIZES, 5)
    true, errors = truth.predict(*np.array(SIZES).T), {}
    for name, sizes in {"chosen": chosen, "equal": [(n, n) for n in (1, 2, 4, 6, 8)]}.items():
        columns = np.array(sizes).T
        model = SpeedModel(kind, batch_size=64).fit(*columns, truth.predict(*columns))
        errors[name] = np.abs(model.predict(*np.array(SIZES).T) / true - 1).mean()
    assert errors["chosen"] < errors["equal"]
    assert errors["chosen"] < 0.05


def test_what_was_seen_is_not_chosen_again_first():
    model = SpeedModel.default(SpeedKind.ALL_REDUCE, batch_size=64)
    allowed = [(0, w) for w in range(1, 9)]
    first = next_sizes(model, allowed, 2)
    assert not set(first) & set(next_sizes(model, allowed, 2, seen=first * 3))


@pytest.mark.parametrize(
    ("allowed", "count", "expected"),
    [
        pytest.param([], 3, [], id="nothing allowed"),
        pytest.param([(1, 1)], 3, [(1, 1)], id="one allowed"),
        pytest.param([(1, 2), (1, 2)], 1, [(1, 2)], id="the same twice"),
        pytest.param(SIZES, 0, [], id="none wanted"),
    ],
)
def test_no_more_sizes_are_chosen_than_there_are(allowed, count, expected):
    assert next_sizes(SpeedModel.default(SpeedKind.PS_SYNC), allowed, count) == expected


def test_the_order_of_the_allowed_sizes_does_not_matter():
    model = SpeedModel.default(SpeedKind.PS_SYNC, batch_size=64)
    assert next_sizes(model, SIZES, 4) == next_sizes(model, SIZES[::-1], 4)
