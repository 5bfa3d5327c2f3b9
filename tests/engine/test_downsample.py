"""What a screen is given of a long series."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.engine.downsample import downsample

values = st.lists(st.floats(-1e300, 1e300) | st.just(math.nan) | st.just(math.inf), max_size=300)


@given(values=values, limit=st.integers(4, 60))
def test_ends_and_extremes_survive_within_the_limit(values, limit):
    points = list(enumerate(values))
    finite = [(float(x), y) for x, y in points if math.isfinite(y)]
    kept = downsample([(float(x), y) for x, y in points], limit)
    assert len(kept) <= limit
    assert kept == sorted(kept)
    assert set(kept) <= set(finite)
    if finite:
        assert (kept[0], kept[-1]) == (finite[0], finite[-1])
        assert {min(y for _, y in kept), max(y for _, y in kept)} == {
            min(y for _, y in finite),
            max(y for _, y in finite),
        }


def test_a_short_series_stays_whole():
    assert downsample([(0.0, 1.0), (1.0, 2.0)], 4) == [(0.0, 1.0), (1.0, 2.0)]


def test_too_few_points_keep_no_shape():
    with pytest.raises(ValueError, match="4 or more"):
        downsample([], 3)
