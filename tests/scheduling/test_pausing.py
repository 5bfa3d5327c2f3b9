"""What pausing promises: who may be paused, for how long, and who is first to come back."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimus_core.scheduling.pausing import Spell, is_overdue, may_wait, paused_in_all
from optimus_core.scheduling.placement import Room
from optimus_core.scheduling.plan import apply_plan, plan
from optimus_core.scheduling.rows import pair, prepare
from optimus_core.scheduling.speeds import model_rate
from optimus_core.scheduling.types import NOTHING, JobView, Plan, Remaining, Snapshot
from tests.scheduling.builders import make_job, make_node, make_snapshot, running, speed
from tests.scheduling.test_properties import eventful, under

FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
LINEAR = speed(10.0, 0.0, 0.0)
MOST, BEAT = 1800.0, 300.0
"""Seconds that a job may be paused in all here, and between two plans."""


@st.composite
def with_paused(draw: st.DrawFn) -> Snapshot:
    """Any snapshot in which jobs were paused, some for as long as they may be."""
    snapshot = under(draw(eventful()), "auto")
    jobs = []
    for job in snapshot.jobs:
        update: dict[str, object] = {"paused_seconds": draw(st.sampled_from([0.0, 0.0, 3000.0, 3599.0, 9000.0]))}
        if not job.size and job.pinned is None and draw(st.booleans()):
            update |= {"state": "paused", "has_checkpoint": True}
        jobs.append(job.model_copy(update=update))
    return snapshot.model_copy(update={"jobs": jobs})


def kept_out(snapshot: Snapshot, made: Plan) -> list[str]:
    """Who must be back, is not, and would fit beside those who can't be paused."""
    problem = prepare(snapshot, model_rate)
    decisions = {decision.job: decision for decision in made.decisions}
    room = Room([node.name for node in problem.nodes], problem.offers, len(problem.resources))
    for row in problem.rows:
        if is_overdue(problem, row) or (row.present != (0, 0) and not may_wait(problem, row)):
            room.take(row, {node: pair(size) for node, size in decisions[row.name].placement.items()})
    late = [row for row in problem.rows if is_overdue(problem, row) and not row.deferred]
    late = [row for row in late if decisions[row.name].size == NOTHING]
    return [row.name for row in late if room.place(row, row.floor) is not None]


@FEW
@given(with_paused())
def test_only_who_may_be_paused_is_paused(snapshot: Snapshot) -> None:
    views = {job.name: job for job in snapshot.jobs}
    for decision in plan(snapshot).decisions:
        job = views[decision.job]
        if decision.size == NOTHING and decision.present != NOTHING and job.pinned != NOTHING:
            assert job.has_checkpoint
            assert job.resizable
            assert job.remaining.value is not None
            assert job.paused_seconds < snapshot.settings.max_paused


@FEW
@given(with_paused())
def test_who_was_paused_long_enough_is_back_unless_what_can_not_be_paused_is_in_the_way(snapshot: Snapshot) -> None:
    assert kept_out(snapshot, plan(snapshot)) == []


@st.composite
def busy(draw: st.DrawFn) -> Snapshot:
    """A node with long jobs that arrive one after another; of some nothing is known, or no checkpoint."""
    jobs = []
    for number in range(draw(st.integers(2, 5))):
        steps = draw(st.sampled_from([None, 100.0, 1000.0, 5000.0, 5000.0]))
        jobs.append(
            make_job(
                f"j{number}", number * draw(st.sampled_from([0.0, 600.0])), steps, speed=LINEAR, restart_cost=0.0,
                min_workers=draw(st.integers(1, 4)), has_checkpoint=draw(st.sampled_from([True, True, False])),
            )
        )  # fmt: skip
    return make_snapshot([make_node("n")], jobs, pausing="auto", max_paused=MOST)


class Life:
    """A job over time: how long it was away and had its minimum, in turn."""

    def __init__(self) -> None:
        self.spells: list[Spell] = []

    def pass_by(self, job: JobView) -> JobView:
        """Let a beat go by and return what a snapshot then says of the job."""
        if job.state == "paused":
            away, held = self.spells.pop() if self.spells and self.spells[-1][1] == 0 else (0.0, 0.0)
            self.spells.append((away + BEAT, held))
        elif job.size and self.spells:
            away, held = self.spells.pop()
            self.spells.append((away, held + BEAT))
        left = job.remaining.value
        if left is not None and job.size:
            left = max(0.0, left - BEAT * job.size.workers / 10.0)
        return job.model_copy(
            update={"paused_seconds": paused_in_all(self.spells), "remaining": Remaining(value=left, source="declared")}
        )


@settings(FEW, max_examples=15)
@given(busy())
def test_as_time_goes_by_each_is_back_in_time_unless_what_can_not_be_paused_is_in_the_way(snapshot: Snapshot) -> None:
    lives = {job.name: Life() for job in snapshot.jobs}
    for beat in range(24):
        now = beat * BEAT
        here = [job for job in snapshot.jobs if job.arrived <= now]
        seen = snapshot.model_copy(update={"jobs": here, "time": now})
        made = plan(seen)
        assert kept_out(seen, made) == []
        after = [lives[job.name].pass_by(job) for job in apply_plan(seen, made).jobs]
        to_come = [job for job in snapshot.jobs if job.arrived > now]
        snapshot = snapshot.model_copy(update={"jobs": [j for j in after if j.remaining.value != 0.0] + to_come})


def test_a_newcomer_does_not_take_the_room_that_is_made_for_one_who_must_be_back() -> None:
    late = make_job("late", 0, 5000.0, speed=LINEAR, min_workers=4, state="paused", has_checkpoint=True,
                    paused_seconds=4000.0)  # fmt: skip
    runs = running("runs", {"n": (0, 3)}, 1, 5000.0, speed=LINEAR, min_workers=3, max_workers=3, has_checkpoint=True)
    new = make_job("new", 2, None, speed=LINEAR)
    made = plan(make_snapshot([make_node("n")], [late, runs, new], pausing="auto"))
    assert {d.job: d.size.workers for d in made.decisions} == {"late": 4, "new": 0, "runs": 0}


@pytest.mark.parametrize(
    ("spells", "want"),
    [
        pytest.param([], 0.0, id="never-paused"),
        pytest.param([(10.0, 0.0)], 10.0, id="away-now"),
        pytest.param([(10.0, 9.0), (5.0, 0.0)], 15.0, id="back-for-a-moment-only"),
        pytest.param([(10.0, 10.0), (5.0, 0.0)], 5.0, id="back-for-good"),
        pytest.param([(10.0, 9.0), (5.0, 14.0), (1.0, 0.0)], 16.0, id="twice-back-for-a-moment"),
    ],
)
def test_pauses_add_up_until_a_job_was_back_for_as_long(spells: list[Spell], want: float) -> None:
    assert paused_in_all(spells) == want


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)), max_size=10), st.floats(0, 1e5))
def test_one_more_pause_never_makes_it_less_and_counts_once(spells: list[Spell], away: float) -> None:
    assert paused_in_all([*spells, (away, 0.0)]) == pytest.approx(paused_in_all(spells) + away)
    assert paused_in_all(spells) <= sum(each for each, _ in spells) + 1e-6
