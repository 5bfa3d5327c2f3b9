from __future__ import annotations

import pytest

from optimus_core.telemetry import SpeedMeter, SpeedSample


def samples(pairs: list[tuple[float, int]], window: float = 10.0) -> list[SpeedSample]:
    meter = SpeedMeter(window)
    return [s for time, step in pairs if (s := meter.add(time, step)) is not None]


def test_one_sample_comes_from_each_window_but_the_first() -> None:
    got = samples([(100.0 + t, 2 * t) for t in range(31)])
    assert got == [SpeedSample(120.0, 40, 20, 10.0), SpeedSample(130.0, 60, 20, 10.0)]
    assert got[0].steps_per_second == 2.0


def test_repeated_steps_tell_nothing() -> None:
    pairs = [(float(t), t // 5) for t in range(41)]
    assert [s.steps_per_second for s in samples(pairs)] == [pytest.approx(0.2)] * 3


def test_steps_that_go_back_start_again_with_a_warm_up() -> None:
    before = [(float(t), t) for t in range(21)]
    after = [(30.0 + t, 5 + t) for t in range(21)]
    assert [s.time for s in samples(before + after)] == [20.0, 50.0]


def test_slow_steps_give_one_sample_a_step() -> None:
    assert [s.seconds for s in samples([(60.0 * n, n) for n in range(4)])] == [60.0, 60.0]


@pytest.mark.parametrize(
    "time",
    [
        pytest.param(float("nan"), id="nan"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param(-5.0, id="back"),
    ],
)
def test_a_time_that_cannot_be_tells_nothing(time: float) -> None:
    pairs = [(float(t), t) for t in range(15)]
    pairs += [(time, 15), *[(float(t), t) for t in range(16, 25)]]
    assert samples(pairs) == [SpeedSample(20.0, 20, 10, 10.0)]


@pytest.mark.parametrize("window", [0.0, -1.0, float("nan")])
def test_a_window_must_be_positive(window: float) -> None:
    with pytest.raises(ValueError, match="for example 10"):
        SpeedMeter(window)
