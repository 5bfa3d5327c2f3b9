from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.telemetry import BoundedSeries, Point, StepCounter, compact, parse_file


def curve(values: list[float]) -> list[Point]:
    return [Point(n + 1, "loss", value, n, n / 10) for n, value in enumerate(values)]


def in_chunks(points: list[Point], size: int, limit: int) -> list[Point]:
    series = BoundedSeries(limit)
    for start in range(0, len(points), size):
        series.extend(points[start : start + size])
    return series.points()


CURVES = st.lists(st.floats(-1e6, 1e6), max_size=300).map(curve)


@given(CURVES, st.integers(4, 40))
def test_a_curve_is_bounded_and_keeps_its_ends_and_order(points: list[Point], limit: int) -> None:
    kept = compact(points, limit)
    assert len(kept) <= limit
    assert (kept[:1], kept[-1:]) == (points[:1], points[-1:])
    steps = [p.step for p in kept]
    assert steps == sorted(set(steps))


@given(CURVES, st.integers(4, 40), st.integers(1, 50))
def test_adding_in_chunks_gives_the_same_as_at_once(points: list[Point], limit: int, size: int) -> None:
    assert in_chunks(points, size, limit) == compact(points, limit)


@given(CURVES, st.integers(4, 40), st.integers(0, 300))
def test_a_series_that_was_stored_goes_on_as_if_it_had_not(points: list[Point], limit: int, cut: int) -> None:
    series = BoundedSeries(limit)
    series.extend(points[:cut])
    again = BoundedSeries.from_state(json.loads(json.dumps(series.state())))
    again.extend(points[cut:])
    assert again.points() == compact(points, limit)


@given(CURVES)
def test_a_short_curve_stays_as_it_is(points: list[Point]) -> None:
    assert compact(points, 300) == points


def test_buckets_hold_means() -> None:
    assert [(p.step, p.value) for p in compact(curve([9.0, 1.0, 3.0, 5.0, 7.0, 0.0]), 4)] == [
        (0, 9.0),
        (2, 2.0),
        (4, 6.0),
        (5, 0.0),
    ]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_mean_of_the_largest_numbers_is_a_number(sign: float) -> None:
    series = BoundedSeries(4)
    series.extend(curve([sign * 1.7e308] * 50))
    json.dumps(series.state(), allow_nan=False)
    first, *middle, last = series.points()
    assert (first.value, last.value) == (sign * 1.7e308, sign * 1.7e308)
    assert all(sign * p.value >= 0.99e290 for p in middle)


def test_a_million_points_are_few() -> None:
    series = BoundedSeries(limit=50)
    point = Point(1, "loss", 1.0, 1, None)
    for _ in range(100_000):
        series.add(point)
    assert len(series) == len(series.points()) <= 50
    assert series.count == 100_000


def test_a_limit_that_keeps_no_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="for example 2000"):
        BoundedSeries(3)


@pytest.mark.parametrize(
    ("text", "given_steps", "want"),
    [
        pytest.param("step=3 loss=1\nstep=7 loss=1", None, [3, 7], id="steps-of-the-run"),
        pytest.param(
            "Epoch 1/2\n57/57 - 1s - 4ms/step - loss: 1\nEpoch 2/2\n10/57 - 1s - 4ms/step - loss: 1",
            None,
            [57, 67],
            id="bars-with-a-total",
        ),
        pytest.param(
            "Epoch[0] Batch [40-60] loss=1\nEpoch[0] Batch [60-80] loss=1\nEpoch[1] Batch [0-20] loss=1",
            None,
            [60, 80, 100],
            id="batches-without-a-total",
        ),
        pytest.param("{'loss': '1', 'epoch': '0.2'}", 40, [8], id="epoch-only"),
        pytest.param("{'loss': '1', 'epoch': '0.2'}", None, [None], id="epoch-only-of-unknown-length"),
        pytest.param("loss=1", 40, [None], id="no-coordinate"),
        pytest.param("Epoch[3] Train-loss=1", 40, [120], id="whole-epoch"),
    ],
)
def test_coordinates_become_steps_of_the_run(text: str, given_steps: int | None, want: list[int | None]) -> None:
    counter = StepCounter(given_steps)
    assert [counter.global_step(p) for p in parse_file(text.encode()).points] == want


def test_a_counter_that_was_stored_goes_on_as_if_it_had_not() -> None:
    lines = [b"Epoch[%d] Batch [%d] loss=1\n" % (epoch, batch) for epoch in (1, 2, 3) for batch in (5, 9)]
    points = parse_file(b"".join(lines)).points
    one, steps = StepCounter(), []
    counter = StepCounter()
    for point in points:
        counter = StepCounter.from_state(json.loads(json.dumps(counter.state())))
        steps.append(counter.global_step(point))
    assert steps == [one.global_step(p) for p in points] == [5, 9, 14, 18, 23, 27]
