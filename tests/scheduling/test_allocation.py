"""Marginal gain by cases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optimus_core.scheduling.allocation import best_step, grow, share
from optimus_core.scheduling.rows import Row, prepare
from optimus_core.scheduling.types import JobView
from tests.scheduling.builders import GPU, make_job, make_node, make_snapshot


def rows_of(jobs: list[JobView], rate: Callable[[int, int], float], cpu: int = 10, gpu: int = 4) -> list[Row]:
    return prepare(make_snapshot([make_node("n", cpu, gpu)], jobs), lambda _: rate).rows


def test_the_share_is_that_of_the_dominant_resource() -> None:
    assert share((1, 0, 3), (10, 10, 10)) == 0.3
    assert share((0, 0), (10, 0)) > 0


def test_the_gain_is_time_saved_by_share() -> None:
    (row,) = rows_of([make_job("a", steps=100.0, worker_demand={"cpu": 1000, GPU: 1})], lambda _, w: float(w))
    left = (10000, 10**12, 4)
    gain, size = best_step(row, (0, 1), left, left)
    assert size == (0, 2)
    assert gain == pytest.approx((100 - 50) / (1 / 4))


def test_what_does_not_fit_is_no_candidate() -> None:
    (row,) = rows_of([make_job("a")], lambda _, w: float(w))
    assert best_step(row, (0, 1), (999, 10**12, 4), (10000, 10**12, 4)) == (0.0, (0, 1))


def test_a_server_is_taken_where_it_saves_more() -> None:
    job = make_job("a", strategy="ps_sync")
    (row,) = rows_of([job], lambda p, w: min(4.0 * p, w) + 0.01 * p if w < 5 else float(p))
    path = grow([row], {"a": (1, 4)}, (10000, 10**12, 4), (10000, 10**12, 4))["a"]
    assert path[0] == (1, 4)
    assert path[-1][0] > 1


def test_a_plateau_is_stepped_over() -> None:
    (row,) = rows_of([make_job("a")], lambda _, w: float(1 + w // 4))
    assert grow([row], {"a": (0, 4)}, (10000, 10**12, 4), (14000, 10**12, 4))["a"][-1] == (0, 8)


def test_growth_stops_where_speed_falls() -> None:
    (row,) = rows_of([make_job("a")], lambda _, w: float(w if w <= 3 else 1))
    assert grow([row], {"a": (0, 1)}, (10000, 10**12, 4), (10000, 10**12, 4))["a"][-1] == (0, 3)


def test_equal_gains_go_to_the_first() -> None:
    rows = rows_of([make_job("b"), make_job("a")], lambda _, w: float(w))
    paths = grow(rows, {"a": (0, 1), "b": (0, 1)}, (1000, 10**12, 4), (10000, 10**12, 4))
    assert (paths["a"][-1], paths["b"][-1]) == ((0, 2), (0, 1))


def test_a_batch_per_worker_makes_steps_worth_more() -> None:
    jobs = [make_job("a", work_per_step="workers"), make_job("b")]
    rows = rows_of(jobs, lambda _, __: 1.0)
    paths = grow(rows, {"a": (0, 1), "b": (0, 1)}, (3000, 10**12, 4), (10000, 10**12, 4))
    assert (paths["a"][-1], paths["b"][-1]) == ((0, 4), (0, 1))


def test_what_never_advances_gains_all_by_advancing() -> None:
    (row,) = rows_of([make_job("a")], lambda _, w: 1.0 if w > 1 else 0.0)
    assert grow([row], {"a": (0, 1)}, (9000, 10**12, 4), (9000, 10**12, 4))["a"][-1] == (0, 2)
