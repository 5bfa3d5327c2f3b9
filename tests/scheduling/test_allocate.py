"""Sizes by price."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus_core.scheduling.allocate import allocate
from optimus_core.scheduling.request import NOTHING, Request, spread

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def job(name: str, remaining: float | None = 1000.0, most: int = 8, **more: object) -> Request:
    """A job of one to ``most`` workers with a device each, that gains less and less from more of them."""
    given: dict[str, object] = {"workers": (1, most), "worker_demand": {"gpu": 1.0}, "remaining": remaining} | more
    return Request.from_speed(name, lambda _, w: w / (1 + 0.1 * w), **given)  # type: ignore[arg-type]


@st.composite
def requests(draw: st.DrawFn, resources: int, most: int = 4) -> list[Request]:
    made = []
    for number in range(draw(st.integers(1, most))):
        count = draw(st.integers(1, 4))
        amounts = st.lists(st.integers(1, 4), min_size=count, max_size=count)
        demand = {f"r{r}": np.cumsum(draw(amounts)) for r in range(resources)}
        seconds = draw(st.lists(st.floats(0.1, 10), min_size=count, max_size=count))
        sizes = [(0, w) for w in range(1, count + 1)]
        made.append(
            Request(
                f"j{number}",
                sizes,
                demand,  # type: ignore[arg-type]
                seconds,
                remaining=draw(st.floats(1, 1e5)),
                weight=draw(st.sampled_from([1.0, 2.0])),
                present=draw(st.sampled_from([NOTHING, *sizes])),
                may_pause=draw(st.integers(0, 3)) > 0,
            )
        )
    return made


CASES = st.integers(1, 3).flatmap(lambda r: st.tuples(requests(r), st.fixed_dictionaries(_capacity(r))))


def _capacity(resources: int) -> dict[str, st.SearchStrategy[int]]:
    return {f"r{number}": st.integers(1, 24) for number in range(resources)}


def worths(made: list[Request], capacity: dict[str, int]) -> dict[str, dict[tuple[int, int], float]]:
    """Worth of each size of each job, by asking for that job's sizes one at a time in an unlimited cluster."""
    table: dict[str, dict[tuple[int, int], float]] = {request.name: {NOTHING: 0.0} for request in made}
    endless = {name: amount for name, amount in capacity.items()}
    for request in made:
        for index, size in enumerate(request.sizes):
            table[request.name][size] = _worth_of(made, request, index, endless)
    return table


def _worth_of(made: list[Request], request: Request, index: int, capacity: dict[str, int]) -> float:
    """The formula of the module, written out once more."""

    def share(other: Request, at: int) -> float:
        return max(float(np.asarray(d)[at]) / capacity[r] for r, d in other.demand.items())

    def work(other: Request) -> float:
        at = min(range(len(other.sizes)), key=lambda i: share(other, i))
        return other.remaining * float(np.asarray(other.seconds)[at]) * share(other, at)  # type: ignore[operator]

    own = (work(request) / request.weight, request.name)
    longer = sum(o.weight for o in made if (work(o) / o.weight, o.name) > own)
    seconds = [float(s) for s in np.asarray(request.seconds)]
    unit = min((request.weight + longer * share(request, i)) * s for i, s in enumerate(seconds))
    left = min(request.remaining * seconds[index], 900.0)  # type: ignore[operator]
    kept = request.sizes[index] == request.present
    return unit / seconds[index] * (1.0 if kept else left / (left + request.change_cost))


@QUICK
@given(CASES)
def test_small_problems_are_solved_as_well_as_by_trying_everything(case: tuple[list[Request], dict[str, int]]) -> None:
    made, capacity = case
    made = [replace(request, may_pause=True) for request in made]
    table, best = worths(made, capacity), 0.0
    for sizes in itertools.product(*[[NOTHING, *request.sizes] for request in made]):
        if _fits(made, dict(zip([r.name for r in made], sizes, strict=True)), capacity):
            best = max(best, sum(table[r.name][s] for r, s in zip(made, sizes, strict=True)))
    assert allocate(made, capacity).worth == pytest.approx(best, rel=1e-6)


def _fits(made: list[Request], sizes: dict[str, tuple[int, int]], capacity: dict[str, int]) -> bool:
    used = dict.fromkeys(capacity, 0.0)
    for request in made:
        if sizes[request.name] != NOTHING:
            at = list(request.sizes).index(sizes[request.name])
            for resource, demand in request.demand.items():
                used[resource] += float(np.asarray(demand)[at])
    return all(amount <= capacity[resource] + 1e-6 for resource, amount in used.items())


@QUICK
@given(CASES, st.sampled_from([0, 120]))
def test_no_more_is_given_than_there_is_and_the_bound_holds(
    case: tuple[list[Request], dict[str, int]], exact: int
) -> None:
    made, capacity = case
    result = allocate(made, capacity, exact=exact)
    assert _fits(made, {name: choice.size for name, choice in result.choices.items()}, capacity)
    assert result.worth <= result.bound * (1 + 1e-6)


@QUICK
@given(CASES, st.randoms(use_true_random=False))
def test_the_order_of_requests_changes_nothing(
    case: tuple[list[Request], dict[str, int]], chance: random.Random
) -> None:
    made, capacity = case
    shuffled = list(made)
    chance.shuffle(shuffled)
    assert allocate(shuffled, capacity) == allocate(made, capacity)


@QUICK
@given(CASES)
def test_who_may_not_be_paused_has_its_minimum_if_all_minimums_fit(case: tuple[list[Request], dict[str, int]]) -> None:
    made, capacity = case
    made = [replace(request, may_pause=False) for request in made]
    smallest = {request.name: request.sizes[0] for request in made}
    if _fits(made, smallest, capacity):
        assert all(choice.size != NOTHING for choice in allocate(made, capacity).choices.values())


@QUICK
@given(CASES)
def test_constant_load_comes_to_rest(case: tuple[list[Request], dict[str, int]]) -> None:
    made, capacity = case
    first = allocate(made, capacity)
    kept = [replace(request, present=first.choices[request.name].size) for request in made]
    again = allocate(kept, capacity)
    assert {n: c.size for n, c in again.choices.items()} == {n: c.size for n, c in first.choices.items()}


def test_short_jobs_come_before_long_ones() -> None:
    result = allocate([job("long", 1e6), job("short", 1e4)], {"gpu": 8})
    assert result.choices["short"].size[1] > result.choices["long"].size[1]
    assert result.choices["short"].longer == 1.0


def test_a_job_of_unknown_length_gets_its_minimum() -> None:
    result = allocate([job("new", None), job("old")], {"gpu": 8})
    assert result.choices["new"].size == (0, 1)
    assert result.choices["new"].seconds is None


def test_what_does_not_fit_is_stepped_over() -> None:
    result = allocate([job("big", workers=(9, 9), may_pause=False), job("small", 1e4)], {"gpu": 8})
    assert result.choices["big"].size == NOTHING
    assert result.choices["small"].size != NOTHING


def test_a_present_size_is_kept_where_a_change_costs_more_than_it_gives() -> None:
    kept = allocate([job("a", present=(0, 7), change_cost=500.0)], {"gpu": 8})
    assert kept.choices["a"].size == (0, 7)
    assert allocate([job("a", present=(0, 7), change_cost=0.0)], {"gpu": 8}).choices["a"].size == (0, 8)


def test_an_uncertain_size_is_worth_less() -> None:
    sizes, demand = [(0, 1), (0, 2)], {"gpu": [1, 2]}
    sure = Request("a", sizes, demand, [1.0, 0.8], remaining=100.0)
    unsure = replace(sure, deviation=[0.0, 0.3])
    assert allocate([sure], {"gpu": 2}).choices["a"].size == (0, 2)
    assert allocate([unsure], {"gpu": 2}).choices["a"].size == (0, 1)


def test_who_will_be_late_says_by_how_much() -> None:
    result = allocate([job("a", 1000.0, most=1, deadline=1000.0)], {"gpu": 1})
    assert result.choices["a"].late == pytest.approx(100.0)
    assert allocate([job("a", 1000.0, most=1, deadline=1200.0)], {"gpu": 1}).choices["a"].late is None


def test_a_resource_that_is_not_there_makes_a_job_wait() -> None:
    assert allocate([job("a", may_pause=False)], {"cpu": 4}).choices["a"].size == NOTHING


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({"sizes": []}, "at least one size", id="no-sizes"),
        pytest.param({"seconds": [-1.0]}, "seconds has a value that is negative", id="negative-seconds"),
        pytest.param({"demand": {"gpu": [float("nan")]}}, "demand of gpu", id="no-number"),
        pytest.param({"remaining": float("inf")}, "remaining is inf", id="endless"),
        pytest.param({"weight": 0.0}, "weight is above 0", id="no-weight"),
    ],
)
def test_what_can_not_be_is_refused(change: dict[str, object], want: str) -> None:
    fields: dict[str, object] = {"name": "a", "sizes": [(0, 1)], "demand": {"gpu": [1]}, "seconds": [1.0]}
    with pytest.raises(ValueError, match=want):
        Request(**(fields | change))  # type: ignore[arg-type]


def test_two_jobs_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        allocate([job("a"), job("a")], {"gpu": 1})


def test_large_ranges_are_thinned_out_and_keep_their_ends() -> None:
    numbers = spread(1, 1000)
    assert (numbers[0], numbers[-1]) == (1, 1000)
    assert len(numbers) < 130
