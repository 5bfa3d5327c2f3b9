"""What holds for every plan."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimus_core.scheduling.placement import Room
from optimus_core.scheduling.plan import apply_plan, plan
from optimus_core.scheduling.rows import prepare
from optimus_core.scheduling.speeds import model_rate
from optimus_core.scheduling.types import NOTHING, JobView, Plan, Size, Snapshot
from tests.scheduling.builders import snapshots, used

FEW = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
whether_jobs_may_be_paused_or_not = pytest.mark.parametrize("pausing", ["never", "auto"])


@st.composite
def eventful(draw: st.DrawFn) -> Snapshot:
    """A snapshot with running jobs: some were planned before, then more arrived, some ended or were pinned."""
    snapshot = draw(snapshots())
    known = snapshot.jobs[: draw(st.integers(0, len(snapshot.jobs)))]
    before = snapshot.model_copy(update={"jobs": known})
    after = apply_plan(before, plan(before)).jobs
    kept = [_touched(draw, job) for job in after if draw(st.integers(0, 4))]
    nodes = [node.model_copy(update={"ready": bool(draw(st.integers(0, 5)))}) for node in snapshot.nodes]
    return snapshot.model_copy(update={"jobs": kept + snapshot.jobs[len(known) :], "nodes": nodes})


def under(snapshot: Snapshot, pausing: str) -> Snapshot:
    """The snapshot with that setting."""
    return snapshot.model_copy(update={"settings": snapshot.settings.model_copy(update={"pausing": pausing})})


def _touched(draw: st.DrawFn, job: JobView) -> JobView:
    steps = draw(st.sampled_from([None, 1.0, 1.0, 100.0, 100000.0]))
    update: dict[str, object] = {"has_checkpoint": draw(st.booleans())}
    if steps != 1.0:
        update["remaining"] = job.remaining.model_copy(update={"value": steps})
    if draw(st.integers(0, 6)) == 0:
        update["pinned"] = Size(servers=min(1, job.size.servers), workers=draw(st.integers(0, 4)))
    if draw(st.integers(0, 6)) == 0:
        update["max_workers"] = job.min_workers
    return job.model_copy(update=update)


def free_of(snapshot: Snapshot, made: Plan) -> dict[str, dict[str, int]]:
    free = {
        node.name: {name: max(0, a - node.others.get(name, 0)) for name, a in node.allocatable.items()}
        for node in snapshot.nodes
    }
    views = {job.name: job for job in snapshot.jobs}
    for decision in made.decisions:
        for node, asked in used(views[decision.job], decision.placement).items():
            for resource, amount in asked.items():
                free[node][resource] = free[node].get(resource, 0) - amount
    return free


def assert_nodes_hold(snapshot: Snapshot, made: Plan) -> None:
    """No node is asked for more than it has, and the plan says truly what is left."""
    left = free_of(snapshot, made)
    assert all(amount >= 0 for node in left.values() for amount in node.values()), left
    assert all(
        left[name][r] == amount for name, room in made.free.items() for r, amount in room.items() if r in left[name]
    )


@whether_jobs_may_be_paused_or_not
@FEW
@given(snapshot=eventful())
def test_no_node_is_asked_for_more_than_it_has(pausing: str, snapshot: Snapshot) -> None:
    snapshot = under(snapshot, pausing)
    assert_nodes_hold(snapshot, plan(snapshot))


@whether_jobs_may_be_paused_or_not
@FEW
@given(snapshot=eventful(), chance=st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(pausing: str, snapshot: Snapshot, chance: random.Random) -> None:
    snapshot = under(snapshot, pausing)
    jobs, nodes = list(snapshot.jobs), list(snapshot.nodes)
    chance.shuffle(jobs)
    chance.shuffle(nodes)
    assert plan(snapshot.model_copy(update={"jobs": jobs, "nodes": nodes})) == plan(snapshot)


@FEW
@given(eventful())
def test_a_snapshot_read_back_gives_the_same_plan(snapshot: Snapshot) -> None:
    again = Snapshot.from_json(snapshot.to_json())
    assert again == snapshot
    assert plan(again).to_dict() == plan(snapshot).to_dict()


@whether_jobs_may_be_paused_or_not
@FEW
@given(snapshot=eventful())
def test_constant_load_comes_to_rest(pausing: str, snapshot: Snapshot) -> None:
    snapshot = under(snapshot, pausing)
    settled = apply_plan(snapshot, plan(snapshot))
    changed = [(d.job, d.present, d.size, d.reason) for d in plan(settled).decisions if d.changed]
    assert changed == []


@whether_jobs_may_be_paused_or_not
@FEW
@given(snapshot=eventful())
def test_sizes_stay_within_their_bounds(pausing: str, snapshot: Snapshot) -> None:
    snapshot = under(snapshot, pausing)
    views = {job.name: job for job in snapshot.jobs}
    for decision in plan(snapshot).decisions:
        job, size = views[decision.job], decision.size
        assert size == Size(
            servers=sum(part.servers for part in decision.placement.values()),
            workers=sum(part.workers for part in decision.placement.values()),
        )
        assert size in (NOTHING, job.size, job.pinned) or (
            job.min_workers <= size.workers <= job.max_workers
            and (job.strategy == "allreduce") == (size.servers == 0)
            and size.servers <= job.max_servers
            and size not in job.barred
        )


@FEW
@given(eventful())
def test_a_running_job_is_paused_for_nobody_unless_that_is_wanted(snapshot: Snapshot) -> None:
    views = {job.name: job for job in snapshot.jobs}
    for decision in plan(snapshot).decisions:
        if decision.size == NOTHING:
            assert decision.present == NOTHING or views[decision.job].pinned == NOTHING


@FEW
@given(eventful())
def test_who_waits_has_no_room(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    problem = prepare(snapshot, model_rate)
    names = [node.name for node in problem.nodes]
    room = Room(names, [problem.vector(made.free[name]) for name in names], len(problem.resources))
    decisions = {decision.job: decision for decision in made.decisions}
    for row in problem.rows:
        decision = decisions[row.name]
        if decision.size == NOTHING:
            assert decision.waits_for is not None
            assert row.deferred or room.place(row, row.floor) is None


@FEW
@given(eventful())
def test_on_one_node_who_waits_would_not_fit_beside_the_minimums_of_those_before(snapshot: Snapshot) -> None:
    queued = [job for job in snapshot.jobs if not job.size]
    snapshot = snapshot.model_copy(update={"nodes": snapshot.nodes[:1], "jobs": queued})
    made = plan(snapshot)
    problem = prepare(snapshot, model_rate)
    used_up = [0] * len(problem.resources)
    decisions = {decision.job: decision for decision in made.decisions}
    for row in sorted((row for row in problem.rows if not row.deferred), key=lambda row: row.turn):
        asked = [u + d for u, d in zip(used_up, row.demand(row.floor), strict=True)]
        fits = all(a <= c for a, c in zip(asked, problem.capacity, strict=True)) and bool(problem.nodes)
        assert fits == (decisions[row.name].size != NOTHING)
        used_up = asked if fits else used_up


@FEW
@given(eventful())
def test_changes_of_running_jobs_save_more_than_they_cost(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    rows = {row.name: row for row in prepare(snapshot, model_rate).rows}
    if any(d.changed and not d.present for d in made.decisions) or any(
        job.pinned or job.size.workers > job.max_workers for job in snapshot.jobs
    ):
        return
    changed = [d for d in made.decisions if d.changed]
    saved = 0.0
    for decision in changed:
        row, size = rows[decision.job], (decision.size.servers, decision.size.workers)
        saved += row.cost(row.present, False) - row.cost(size, True)
    assert saved > 0 or not changed
