"""A replay of arrivals: simple cases that can be reckoned by hand, and invariants."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus_core.models import SpeedKind, SpeedModel
from optimus_core.scheduling.baselines import equal_sizes
from optimus_core.scheduling.plan import plan
from optimus_core.scheduling.types import JobView, Node, PlanSettings, Size
from optimus_core.simulation import Arrival, replay

NODES = [Node(name="n1", allocatable={"cpu": 4000})]
LINEAR = SpeedModel.default(SpeedKind.ALL_REDUCE).to_dict() | {"coefficients": [1.0, 0.0, 0.0], "is_default": False}
"""One step a second and worker."""
FREE = PlanSettings(default_restart_cost=0, min_gain=0)


def arrival(name, work, at=0.0, most=4, cost=0.0):
    view = JobView(
        name=name, state="queued", arrived=at, worker_demand={"cpu": 1000}, max_workers=most, speed=LINEAR,
        restart_cost=cost,
    )  # fmt: skip
    return Arrival(view, work)


def fixed(workers):
    return lambda snapshot: equal_sizes(snapshot, Size(workers=workers))


def test_a_job_alone_gets_all_and_takes_its_work_over_its_speed():
    outcome = replay(NODES, [arrival("a", 40)], settings=FREE)
    assert outcome.makespan == pytest.approx(10)
    assert outcome.average_completion == pytest.approx(10)


def test_with_fixed_sizes_a_third_job_waits_for_the_first():
    jobs = [arrival("a", 20), arrival("b", 40), arrival("c", 20)]
    outcome = replay(NODES, jobs, fixed(2), FREE)
    assert outcome.completions == pytest.approx({"a": 10, "b": 20, "c": 20})


def test_who_is_left_grows_into_the_room_of_who_has_ended():
    jobs = [arrival("a", 8), arrival("b", 80)]
    assert replay(NODES, jobs, plan, FREE).makespan < replay(NODES, jobs, fixed(2), FREE).makespan


def test_a_change_of_size_costs_its_restart():
    jobs = [arrival("a", 8), arrival("b", 400)]
    free = replay(NODES, jobs, plan, FREE).completions["b"]
    costly = [arrival("a", 8), arrival("b", 400, cost=5)]
    assert replay(NODES, costly, plan, FREE).completions["b"] == pytest.approx(free + 5)


def test_arrivals_are_awaited():
    assert replay(NODES, [arrival("a", 4), arrival("b", 4, at=100)], settings=FREE).makespan == pytest.approx(101)


def test_a_job_that_never_fits_is_told():
    with pytest.raises(ValueError, match="never end"):
        replay([Node(name="n1", allocatable={"cpu": 500})], [arrival("a", 1)])


def test_no_arrivals_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        replay(NODES, [])


works = st.lists(st.tuples(st.floats(1, 500), st.floats(0, 100), st.integers(1, 4)), min_size=1, max_size=6)


@given(works)
@settings(deadline=None, max_examples=40)
def test_every_job_ends_and_none_is_faster_than_alone(jobs):
    arrivals = [arrival(f"j{i}", work, at, most) for i, (work, at, most) in enumerate(jobs)]
    outcome = replay(NODES, arrivals, settings=FREE)
    for i, (work, _, most) in enumerate(jobs):
        assert outcome.completions[f"j{i}"] >= work / most - 1e-6
