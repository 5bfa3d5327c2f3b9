"""Jobs leave nodes where their workers are slow, and are not placed there anew."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimus_core.reasons import ReasonCode
from optimus_core.scheduling.plan import apply_plan, plan
from optimus_core.scheduling.priced import priced
from optimus_core.scheduling.slow_nodes import NO_ROOM
from optimus_core.scheduling.types import NOTHING, Decision, JobView, Size, Snapshot
from tests.scheduling.builders import make_job, make_node, make_snapshot, running, speed
from tests.scheduling.test_properties import assert_nodes_hold, eventful

FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
FOUND: dict[str, Any] = {"slow": "a slow worker", "replica": "w1", "node": "a", "ratio": 0.25}
SLOW_ON_A: dict[str, Any] = {"avoid": ["a"], "straggler": FOUND}
LINEAR = speed(10.0, 0.0, 0.0)


def decided(job: JobView, *others: JobView, cpu: tuple[int, int] = (4, 4)) -> Decision:
    nodes = [make_node(name, cores) for name, cores in zip("ab", cpu, strict=True)]
    made = plan(make_snapshot(nodes, [job, *others]))
    return next(decision for decision in made.decisions if decision.job == job.name)


def of(**workers: int) -> dict[str, Size]:
    return {node: Size(workers=count) for node, count in workers.items()}


def test_a_running_job_leaves_the_node_of_its_straggler_at_the_same_size() -> None:
    found = decided(running("j", {"a": (0, 3)}, max_workers=3, **SLOW_ON_A))
    assert (found.placement, found.changed) == (of(b=3), True)
    assert found.reason.code is ReasonCode.STRAGGLER
    assert found.reason.numbers["avoids"] == "a"
    assert str(found.reason) == "Goes on without a slow worker: w1 on a, at 25% of the median speed."


@pytest.mark.parametrize(
    ("job", "other"),
    [
        pytest.param({"straggler": {}}, {}, id="there-is-none-to-be-replaced"),
        pytest.param({"resizable": False}, {}, id="it-can-not-be-moved"),
        pytest.param({}, {"b": (0, 2)}, id="no-room-elsewhere"),
        pytest.param({"avoid": ["a", "b"]}, {}, id="slow-everywhere"),
    ],
)
def test_a_running_job_stays_where_it_is_if(job: dict[str, Any], other: dict[str, tuple[int, int]]) -> None:
    others = [running("x", other, min_workers=2, max_workers=2)] if other else []
    found = decided(running("j", {"a": (0, 3)}, min_workers=3, max_workers=3, **(SLOW_ON_A | job)), *others)
    assert (found.placement, found.changed) == (of(a=3), False)


def test_one_that_stays_for_want_of_room_says_so() -> None:
    other = running("x", {"b": (0, 2)}, min_workers=2, max_workers=2)
    found = decided(running("j", {"a": (0, 3)}, min_workers=3, max_workers=3, **SLOW_ON_A), other)
    assert found.reason.code is ReasonCode.STRAGGLER_FOUND
    assert str(found.reason).endswith(f"it stays, since {NO_ROOM}.")


def test_a_job_does_not_grow_onto_a_node_where_it_was_slow() -> None:
    job = running("j", {"b": (0, 4)}, steps=1e6, speed=LINEAR)
    assert decided(job).placement == of(a=4, b=4)
    assert decided(job.model_copy(update={"avoid": ["a"]})).placement == of(b=4)


@pytest.mark.parametrize(
    ("cpu", "placement"),
    [
        pytest.param((4, 4), of(b=4), id="elsewhere-if-there-is-room"),
        pytest.param((4, 2), of(b=2), id="smaller-elsewhere"),
        pytest.param((4, 1), of(a=2), id="its-minimum-where-it-was-slow-else"),
    ],
)
def test_a_job_that_starts_anew_goes(cpu: tuple[int, int], placement: dict[str, Size]) -> None:
    job = make_job("j", steps=1e6, speed=LINEAR, min_workers=2, avoid=["a"])
    assert decided(job, cpu=cpu).placement == placement


def test_a_job_without_devices_leaves_for_a_node_without_them() -> None:
    job = running("j", {"a": (0, 3)}, max_workers=3, **SLOW_ON_A)
    nodes = [make_node("a"), make_node("b", gpu=2), make_node("c")]
    (found,) = plan(make_snapshot(nodes, [job])).decisions
    assert found.placement == of(c=3)


def test_two_jobs_do_not_take_the_same_room() -> None:
    jobs = [running(name, {"a": (0, 2)}, min_workers=2, max_workers=2, **SLOW_ON_A) for name in ("one", "two")]
    made = plan(make_snapshot([make_node("a"), make_node("b", 3)], jobs))
    assert [d.placement for d in made.decisions] == [of(b=2), of(a=2)]
    assert made.free["a"]["cpu"] == 2000
    assert made.free["b"]["cpu"] == 1000


def test_a_snapshot_of_before_stragglers_were_known_is_read() -> None:
    snapshot = make_snapshot([make_node("a")], [running("j", {"a": (0, 3)})])
    old = json.loads(snapshot.to_json())
    for job in old["jobs"]:
        del job["avoid"], job["straggler"]
    assert Snapshot.from_json(json.dumps(old)) == snapshot


@st.composite
def with_stragglers(draw: st.DrawFn) -> Snapshot:
    """Any snapshot in which some jobs avoid nodes, some that run have stragglers on them, and a node is new."""
    snapshot = draw(eventful())
    names = [node.name for node in snapshot.nodes]
    jobs = []
    for job in snapshot.jobs:
        slow = sorted(job.placement)[:1] if draw(st.booleans()) else []
        avoid = sorted({*slow, *draw(st.sets(st.sampled_from(names), max_size=1))})
        jobs.append(job.model_copy(update={"avoid": avoid, "straggler": FOUND if slow else {}}))
    return snapshot.model_copy(update={"jobs": jobs, "nodes": [*snapshot.nodes, make_node("new", 12, 4)]})


@FEW
@given(with_stragglers())
def test_no_node_is_asked_for_more_than_it_has(snapshot: Snapshot) -> None:
    assert_nodes_hold(snapshot, plan(snapshot))


@FEW
@given(with_stragglers())
def test_leaving_nodes_changes_no_size_and_only_where_the_straggler_is(snapshot: Snapshot) -> None:
    before = {decision.job: decision for decision in priced(snapshot).decisions}
    views = {job.name: job for job in snapshot.jobs}
    for decision in plan(snapshot).decisions:
        job, was = views[decision.job], before[decision.job]
        assert decision.size == was.size
        if decision.placement != was.placement:
            assert job.straggler
            assert not set(job.avoid).isdisjoint(was.placement)
            assert set(job.avoid).isdisjoint(decision.placement)
            assert job.resizable
        assert decision.changed == ((decision.size, decision.placement) != (job.size, job.placement))


@FEW
@given(with_stragglers())
def test_only_a_minimum_is_placed_where_a_job_was_slow(snapshot: Snapshot) -> None:
    views = {job.name: job for job in snapshot.jobs}
    for decision in plan(snapshot).decisions:
        job = views[decision.job]
        onto = set(job.avoid) & (set(decision.placement) - set(job.placement))
        if onto and job.pinned is None and not job.barred:
            assert decision.size.workers == job.min_workers


@FEW
@given(with_stragglers())
def test_once_moved_a_job_is_not_moved_for_its_straggler_again(snapshot: Snapshot) -> None:
    first = plan(snapshot)
    moved = {d.job for d in first.decisions if d.reason.code is ReasonCode.STRAGGLER}
    again = plan(apply_plan(snapshot, first))
    assert not [d for d in again.decisions if d.job in moved and d.reason.code is ReasonCode.STRAGGLER]
    assert not [d for d in again.decisions if d.job in moved and d.size == NOTHING]
