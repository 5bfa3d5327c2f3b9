"""Which worker is slower than its like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.scheduling.stragglers import expected_gain, slow_by_arrival, slow_by_speed, slow_by_step_time

SPEED = st.floats(0.75, 1.25)
EVEN = st.lists(st.lists(SPEED, min_size=5, max_size=9), min_size=4, max_size=12).map(
    lambda rows: {f"w{i:02}": row for i, row in enumerate(rows)}
)


@given(EVEN)
def test_noise_makes_no_straggler(speeds: dict[str, list[float]]) -> None:
    assert slow_by_speed(speeds) == []


@given(EVEN)
def test_one_slow_sample_makes_no_straggler(speeds: dict[str, list[float]]) -> None:
    speeds["w00"] = [*speeds["w00"], 0.001]
    assert slow_by_speed(speeds) == []


@given(EVEN, st.floats(0.0, 0.5))
def test_a_worker_far_below_half_of_the_median_is_found_and_only_that(
    speeds: dict[str, list[float]], share: float
) -> None:
    speeds["w00"] = [0.7 * share * speed for speed in speeds["w00"]]
    assert [each.name for each in slow_by_speed(speeds)] == ["w00"]


@given(EVEN, st.floats(0.01, 100))
def test_the_unit_of_the_speed_does_not_matter(speeds: dict[str, list[float]], unit: float) -> None:
    speeds["w01"] = [0.2 * speed for speed in speeds["w01"]]
    scaled = {worker: [unit * speed for speed in row] for worker, row in speeds.items()}
    assert [each.name for each in slow_by_speed(scaled)] == [each.name for each in slow_by_speed(speeds)]


def test_a_slow_node_is_the_finding_and_not_its_workers() -> None:
    speeds = {f"w{i}": [0.3 if i < 2 else 1.0] * 5 for i in range(8)}
    nodes = {f"w{i}": f"n{i // 2}" for i in range(8)}
    (found,) = slow_by_speed(speeds, nodes)
    assert (found.kind, found.name, found.workers) == ("node", "n0", ("w0", "w1"))
    assert found.relative_speed == pytest.approx(0.3)


def test_a_slow_worker_beside_a_fast_one_on_its_node_is_the_finding_itself() -> None:
    speeds = {f"w{i}": [0.3 if i == 0 else 1.0] * 5 for i in range(8)}
    (found,) = slow_by_speed(speeds, {f"w{i}": f"n{i // 2}" for i in range(8)})
    assert (found.kind, found.name) == ("worker", "w0")


@pytest.mark.parametrize(
    "speeds",
    [
        pytest.param({"a": [1.0] * 5, "b": [0.1] * 5}, id="two workers"),
        pytest.param({"a": [1.0] * 5, "b": [1.0] * 5, "c": [0.1]}, id="one sample"),
        pytest.param({w: [0.0] * 5 for w in "abc"}, id="all stand still"),
    ],
)
def test_too_little_is_known_to_find_anyone(speeds: dict[str, list[float]]) -> None:
    assert slow_by_speed(speeds) == []


def test_step_times_and_arrivals_find_the_same_synchronous_worker() -> None:
    rng = np.random.default_rng(0)
    steps = [{f"w{i}": float(t) for i, t in enumerate(rng.normal(1, 0.05, 6))} for _ in range(20)]
    for step in steps:
        step["w3"] *= 3
    times = {worker: [step[worker] for step in steps] for worker in steps[0]}
    assert [each.name for each in slow_by_arrival(steps)] == ["w3"]
    assert slow_by_arrival(steps) == slow_by_step_time(times)


def test_a_replacement_pays_only_if_it_saves_more_than_it_costs() -> None:
    assert expected_gain(0.4, 1000, 100, 4, synchronous=True) == pytest.approx(500)
    assert expected_gain(0.4, 1000, 100, 4, synchronous=False) == pytest.approx(50)
    assert expected_gain(0.4, 100, 100, 4, synchronous=True) < 0


def test_a_gain_of_impossible_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="out of its range"):
        expected_gain(2.0, 100, 10, 4, synchronous=True)
