"""Plans by cases."""

from __future__ import annotations

from typing import Any

import pytest

from optimus_core.reasons import ReasonCode
from optimus_core.scheduling.marginal import marginal_gain
from optimus_core.scheduling.plan import apply_plan, plan
from optimus_core.scheduling.types import JobView, Node, Remaining, Size
from tests.scheduling.builders import GPU, make_job, make_node, make_snapshot, running, sizes, speed

LINEAR = speed(10.0, 0.0, 0.0)
FLAT = speed(0.0, 1.0, 0.0)


def cases() -> dict[str, tuple[list[Node], list[JobView], dict[str, tuple[int, int]]]]:
    one = [make_node("n", 4)]
    return {
        "alone, a job takes what it can use": (one, [make_job("a", speed=LINEAR)], {"a": (0, 4)}),
        "speed that does not rise is worth no worker": (one, [make_job("a", speed=FLAT)], {"a": (0, 1)}),
        "of equal jobs one is done first": (one, [make_job(n, speed=LINEAR) for n in "ab"], {"a": (0, 3), "b": (0, 1)}),
        "minimum in order of arrival": (
            one,
            [make_job("late", 2, min_workers=3), make_job("early", 1, min_workers=3)],
            {"early": (0, 4), "late": (0, 0)},
        ),
        "priority goes before arrival": (
            one,
            [make_job("late", 2, min_workers=3, priority=1), make_job("early", 1, min_workers=3)],
            {"early": (0, 0), "late": (0, 4)},
        ),
        "a job that does not fit lets a later one pass": (
            one,
            [make_job("big", 1, min_workers=9, max_workers=9), make_job("small", 2, max_workers=1)],
            {"big": (0, 0), "small": (0, 1)},
        ),
        "a running job is squeezed for the minimum of a new one": (
            one,
            [running("old", {"n": (0, 4)}), make_job("new", 5, min_workers=2, speed=FLAT)],
            {"old": (0, 2), "new": (0, 2)},
        ),
        "a running job that must not be resized is not squeezed": (
            one,
            [running("old", {"n": (0, 4)}, resizable=False), make_job("new", 5)],
            {"old": (0, 4), "new": (0, 0)},
        ),
        "pinned sizes are kept": (
            one,
            [running("a", {"n": (0, 1)}, pinned=Size(workers=3), speed=FLAT), make_job("b", speed=LINEAR)],
            {"a": (0, 3), "b": (0, 1)},
        ),
        "pinned to nothing is paused": (one, [running("a", {"n": (0, 2)}, pinned=Size())], {"a": (0, 0)}),
        "a barred size is stepped over": (
            one,
            [make_job("a", speed=LINEAR, barred=[Size(workers=4), Size(workers=2)])],
            {"a": (0, 3)},
        ),
        "a running job keeps its size if all that it may have are barred": (
            one,
            [running("a", {"n": (0, 2)}, max_workers=1, barred=[Size(workers=1)])],
            {"a": (0, 2)},
        ),
        "a job above its maximum does not shrink to a barred size": (
            one,
            [running("a", {"n": (0, 4)}, speed=LINEAR, max_workers=3, barred=[Size(workers=3)])],
            {"a": (0, 2)},
        ),
        "who backs off does not start": (one, [make_job("a", not_before=2000.0)], {"a": (0, 0)}),
        "who has backed off starts": (one, [make_job("a", not_before=900.0, speed=FLAT)], {"a": (0, 1)}),
        "nothing is known, so only the minimum": (one, [make_job("a", speed={})], {"a": (0, 1)}),
        "nodes that are not ready offer nothing": ([make_node("n", ready=False)], [make_job("a")], {"a": (0, 0)}),
        "what runs on a node that is not ready is kept": (
            [make_node("n", 4, ready=False), make_node("m", 4)],
            [running("a", {"n": (0, 1)}, speed=LINEAR)],
            {"a": (0, 1)},
        ),
        "others' use is not ours": (
            [make_node("n", 4, others={"cpu": 3000})],
            [make_job("a", speed=LINEAR)],
            {"a": (0, 1)},
        ),
        "a growth that saves less than a restart is left": (
            one,
            [running("a", {"n": (0, 1)}, steps=2.0, speed=LINEAR, restart_cost=60.0)],
            {"a": (0, 1)},
        ),
        "a growth that saves more than a restart is made": (
            one,
            [running("a", {"n": (0, 1)}, steps=200.0, speed=LINEAR, restart_cost=60.0)],
            {"a": (0, 4)},
        ),
        "a long job gets the room of a short one": (
            one,
            [running("a", {"n": (0, 3)}, steps=100.0, speed=FLAT), running("b", {"n": (0, 1)}, 1, 9e3, speed=LINEAR)],
            {"a": (0, 1), "b": (0, 3)},
        ),
        "devices bound a job, cpus are left": (
            [make_node("n", 8, gpu=2)],
            [make_job("a", speed=LINEAR, worker_demand={"cpu": 1000, GPU: 1}), make_job("b", 1, 5.0, speed=LINEAR)],
            {"a": (0, 2), "b": (0, 6)},
        ),
        "workers on the node with devices, servers where there is room": (
            [make_node("g", 2, gpu=2), make_node("c", 2)],
            [make_job("a", strategy="ps_sync", worker_demand={"cpu": 1000, GPU: 1}, min_workers=2, max_workers=2,
                      min_servers=2, max_servers=2)],
            {"a": (2, 2)},
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(cases()))
def test_sizes(name: str) -> None:
    nodes, jobs, want = cases()[name]
    assert sizes(plan(make_snapshot(nodes, jobs))) == want


def reason_of(nodes: list[Node], jobs: list[JobView], name: str = "a", **settings: Any) -> tuple[ReasonCode, str]:
    decision = next(d for d in plan(make_snapshot(nodes, jobs, **settings)).decisions if d.job == name)
    return decision.reason.code, str(decision.reason)


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(make_job("a", speed=FLAT), ReasonCode.STARTED_AT_MINIMUM, id="minimum"),
        pytest.param(make_job("a", speed=LINEAR), ReasonCode.STARTED, id="started"),
        pytest.param(running("a", {"n": (0, 4)}, speed=LINEAR), ReasonCode.KEPT_NO_ROOM, id="no-room"),
        pytest.param(running("a", {"n": (0, 1)}, speed=FLAT), ReasonCode.KEPT, id="flat"),
        pytest.param(running("a", {"n": (0, 1)}, max_workers=1), ReasonCode.KEPT_AT_MAXIMUM, id="maximum"),
        pytest.param(running("a", {"n": (0, 1)}, 0, 2.0, restart_cost=99.0), ReasonCode.KEPT_CHANGE_NOT_WORTH_COST,
                     id="not-worth"),
        pytest.param(running("a", {"n": (0, 1)}, speed=LINEAR), ReasonCode.GROWN, id="grown"),
        pytest.param(running("a", {"n": (0, 3)}, max_workers=2), ReasonCode.SHRUNK, id="shrunk"),
        pytest.param(running("a", {"n": (0, 1)}, resizable=False), ReasonCode.NOT_RESIZABLE, id="not-resizable"),
        pytest.param(running("a", {"n": (0, 1)}, pinned=Size(workers=1)), ReasonCode.PINNED, id="pinned"),
        pytest.param(running("a", {"n": (0, 1)}, speed={}), ReasonCode.UNKNOWN_SPEED, id="unknown-speed"),
        pytest.param(running("a", {"n": (0, 1)}, remaining=Remaining()), ReasonCode.UNKNOWN_REMAINING,
                     id="unknown-remaining"),
        pytest.param(running("a", {"n": (0, 1)}, 0, 2.0, barred=[Size(workers=2)]), ReasonCode.BARRED_SIZE,
                     id="barred"),
        pytest.param(make_job("a", not_before=1030.0), ReasonCode.BACKING_OFF, id="backing-off"),
        pytest.param(running("a", {"n": (0, 1)}, pinned=Size()), ReasonCode.PAUSED, id="paused"),
        pytest.param(make_job("a", min_workers=5), ReasonCode.CAN_NEVER_FIT, id="never"),
        pytest.param(running("a", {"away": (0, 1)}), ReasonCode.NODE_NOT_READY, id="node-away"),
    ],
)  # fmt: skip
def test_reasons(job: JobView, want: ReasonCode) -> None:
    assert reason_of([make_node("n", 4)], [job])[0] is want


def test_who_waits_says_what_it_needs_and_where_it_stands() -> None:
    jobs = [make_job("a", 1, min_workers=3), make_job("b", 2, min_workers=3), make_job("c", 3, min_workers=4)]
    code, text = reason_of([make_node("n", 4)], jobs, "c")
    assert code is ReasonCode.WAITS_FOR_ROOM
    assert text == (
        "Waits for room for 4 workers: needs 4 cpu, 4Gi memory, free are 12Gi memory; number 2 of 2 in the queue."
    )


def test_a_kept_job_keeps_its_nodes_though_fewer_would_do() -> None:
    job = running("a", {"m": (0, 1), "n": (0, 1)}, max_workers=2)
    decision = plan(make_snapshot([make_node("m"), make_node("n")], [job])).decisions[0]
    assert not decision.changed
    assert decision.placement == job.placement


def test_a_young_job_gets_less_than_an_old_one() -> None:
    jobs = [make_job("a", young=True, speed=LINEAR), make_job("b", speed=LINEAR)]
    assert sizes(plan(make_snapshot([make_node("n", 3)], jobs))) == {"a": (0, 1), "b": (0, 2)}


def test_a_job_that_was_just_changed_is_not_changed_again_by_choice() -> None:
    job = running("a", {"n": (0, 1)}, speed=LINEAR, seconds_at_size=10.0)
    assert sizes(plan(make_snapshot([make_node("n")], [job], min_seconds_at_size=60.0))) == {"a": (0, 1)}


def test_the_remaining_work_that_is_unknown_is_taken_from_others() -> None:
    jobs = [running("a", {"n": (0, 1)}, steps=None, speed=LINEAR), running("b", {"n": (0, 1)}, speed=LINEAR)]
    assert sizes(marginal_gain(make_snapshot([make_node("n")], jobs)))["a"] == (0, 2)


def test_a_default_model_may_start_large_but_changes_nothing_that_runs() -> None:
    shape = speed(10.0, 0.0, 0.0, default=True)
    started = plan(make_snapshot([make_node("n")], [make_job("a", speed=shape)])).decisions[0]
    assert started.size == Size(workers=4)
    assert started.predicted_seconds is None
    code, _ = reason_of([make_node("n")], [running("a", {"n": (0, 1)}, speed=shape)])
    assert code is ReasonCode.UNKNOWN_SPEED


def test_weighting_by_the_remaining_time_favours_short_jobs() -> None:
    jobs = [make_job("long", steps=50000.0, speed=LINEAR), make_job("short", steps=500.0, speed=LINEAR)]
    snapshot = make_snapshot([make_node("n", 6)], jobs)
    weighted = make_snapshot([make_node("n", 6)], jobs, remaining_weight=2.0)
    assert sizes(marginal_gain(snapshot))["short"] == (0, 1)
    assert sizes(marginal_gain(weighted))["short"] == (0, 5)
    assert sizes(plan(snapshot))["short"] == (0, 5)


def test_a_scheduler_process_counts_on_the_first_node() -> None:
    job = make_job("a", speed=LINEAR, scheduler_demand={"cpu": 500})
    made = plan(make_snapshot([make_node("n", 4)], [job]))
    assert sizes(made) == {"a": (0, 3)}
    assert made.free["n"]["cpu"] == 500


def test_speeds_may_be_given_from_outside() -> None:
    made = plan(make_snapshot([make_node("n", 4)], [make_job("a", speed={})]), rate_of=lambda _: lambda _, w: float(w))
    assert sizes(made) == {"a": (0, 4)}


def test_no_nodes_and_no_jobs_are_no_trouble() -> None:
    assert plan(make_snapshot([], [])).decisions == []
    assert sizes(plan(make_snapshot([], [make_job("a")]))) == {"a": (0, 0)}


def test_applying_a_plan_starts_what_it_starts() -> None:
    snapshot = make_snapshot([make_node("n", 4)], [make_job("a", speed=LINEAR)])
    job = apply_plan(snapshot, plan(snapshot)).jobs[0]
    assert (job.state, job.size, job.placement) == ("running", Size(workers=4), {"n": Size(workers=4)})
