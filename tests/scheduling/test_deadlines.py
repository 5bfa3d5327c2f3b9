"""Deadlines and uncertain speeds in plans."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus_core.models import SpeedKind, SpeedModel
from optimus_core.scheduling.allocate import allocate
from optimus_core.scheduling.plan import apply_plan
from optimus_core.scheduling.priced import priced
from optimus_core.scheduling.worths import URGENT, weight_of
from tests.scheduling.builders import make_job, make_node, make_snapshot, sizes
from tests.scheduling.test_allocate import job

NOW = 1000.0
DOCS = Path(__file__).parents[2] / "docs"


def two(deadline: float | None) -> dict[str, int]:
    """Workers of two equal jobs of which one has a deadline so many seconds from now."""
    jobs = [make_job("late", deadline=None if deadline is None else NOW + deadline), make_job("other")]
    return {name: size[1] for name, size in sizes(priced(make_snapshot([make_node("n", 8)], jobs))).items()}


@pytest.mark.parametrize(
    ("deadline", "gains"),
    [
        pytest.param(1e6, False, id="that-is-met-at-the-minimum"),
        pytest.param(700.0, True, id="that-is-missed-at-the-minimum"),
        pytest.param(1.0, True, id="that-can-not-be-met"),
        pytest.param(-50.0, True, id="that-has-passed"),
    ],
)
def test_a_job_with_a_deadline(deadline: float, gains: bool) -> None:
    usual, now = two(None), two(deadline)
    assert (now["late"] > usual["late"]) == gains
    assert now["other"] >= 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e9), st.sampled_from([0.5, 1.0, 8.0]))
def test_no_deadline_weighs_more_than_two_steps_of_priority(deadline: float, steps: float, weight: float) -> None:
    made = job("a", steps, deadline=deadline, weight=weight)
    assert weight <= weight_of(made) <= weight * URGENT


def test_who_will_be_late_is_told_by_how_much_and_keeps_what_it_got() -> None:
    snapshot = make_snapshot([make_node("n", 8)], [make_job("late", deadline=NOW + 100), make_job("other")])
    made = priced(snapshot)
    decision = next(each for each in made.decisions if each.job == "late")
    assert decision.late_seconds == pytest.approx((decision.predicted_seconds or 0) + 15 - 100)
    assert re.search(r"; predicted to end .* after its deadline\.", str(decision.reason))
    assert [each.changed for each in priced(apply_plan(snapshot, made)).decisions] == [False, False]


def fitted(counts: list[int]) -> dict[str, Any]:
    """A model that has seen these numbers of workers, with the speeds of one truth."""
    workers = np.array(counts * 4)
    model = SpeedModel(SpeedKind.ALL_REDUCE, batch_size=1)
    return model.fit(np.zeros(len(workers)), workers, 1 / (1 / workers + 0.1 + 0.002 * workers)).to_dict()


def test_the_deviation_of_a_speed_is_discounted_in_plans() -> None:
    known = fitted([1, 2, 4, 8])
    precise = {**known, "precision": (np.eye(3) * 1e9).tolist(), "sigma": 0.01}
    vague = {**known, "precision": (np.eye(3) * 0.5).tolist(), "sigma": 0.01}
    got = []
    for model in (precise, vague):
        jobs = [make_job("a").model_copy(update={"speed": model}), make_job("b").model_copy(update={"speed": precise})]
        made = priced(make_snapshot([make_node("n", 8)], jobs))
        got.append({d.job: (d.size.workers, d.allocation["worth"]) for d in made.decisions})
    assert got[1]["a"][0] < got[0]["a"][0]
    assert got[1]["b"][0] > got[0]["b"][0]


def test_last_prices_lead_to_an_allocation_as_good() -> None:
    made = [job(f"j{n}", 1e3 * (n + 1), worker_demand={"gpu": 1.0, "cpu": 1.0 + n % 3}) for n in range(30)]
    capacity = {"gpu": 60, "cpu": 100}
    first = allocate(made, capacity)
    again = allocate(made, capacity, prices=first.prices)
    assert again.worth >= 0.99 * first.worth
    assert first.worth <= again.bound * (1 + 1e-6)


def test_the_example_for_use_elsewhere_runs_and_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "allocation.md").read_text(), re.DOTALL)
    assert len([line for line in example.splitlines() if line]) <= 20
    exec(compile(example, "docs/allocation.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(" (")[0] for line in printed] == ["long", "short", "long alone"]
