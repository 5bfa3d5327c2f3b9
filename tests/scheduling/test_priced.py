"""Plans by price: what holds for each, and what pausing promises."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimus_core.reasons import ReasonCode
from optimus_core.scheduling.plan import apply_plan
from optimus_core.scheduling.priced import priced
from optimus_core.scheduling.types import NOTHING, Size, Snapshot
from tests.scheduling.builders import make_job, make_node, make_snapshot, running, sizes, speed
from tests.scheduling.test_properties import eventful, free_of

FEW = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
LINEAR = speed(10.0, 0.0, 0.0)
LONG = {"steps": 1e6, "speed": LINEAR}
SHORT = {"steps": 500.0, "speed": LINEAR}


@st.composite
def any_snapshot(draw: st.DrawFn) -> Snapshot:
    snapshot = draw(eventful())
    jobs = [job.model_copy(update={"has_checkpoint": draw(st.booleans())}) for job in snapshot.jobs]
    kind = draw(st.sampled_from(["auto", "never"]))
    return snapshot.model_copy(
        update={"jobs": jobs, "settings": snapshot.settings.model_copy(update={"pausing": kind})}
    )


@FEW
@given(any_snapshot())
def test_no_node_is_asked_for_more_than_it_has(snapshot: Snapshot) -> None:
    left = free_of(snapshot, priced(snapshot))
    assert all(amount >= 0 for node in left.values() for amount in node.values()), left


@FEW
@given(any_snapshot(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(snapshot: Snapshot, chance: random.Random) -> None:
    jobs, nodes = list(snapshot.jobs), list(snapshot.nodes)
    chance.shuffle(jobs)
    chance.shuffle(nodes)
    assert priced(snapshot.model_copy(update={"jobs": jobs, "nodes": nodes})) == priced(snapshot)


@FEW
@given(any_snapshot())
def test_constant_load_comes_to_rest(snapshot: Snapshot) -> None:
    settled = apply_plan(snapshot, priced(snapshot))
    assert [(d.job, d.present, d.size, d.reason) for d in priced(settled).decisions if d.changed] == []


@FEW
@given(any_snapshot())
def test_sizes_stay_within_their_bounds(snapshot: Snapshot) -> None:
    views = {job.name: job for job in snapshot.jobs}
    for decision in priced(snapshot).decisions:
        job, size = views[decision.job], decision.size
        assert size in (NOTHING, job.size, job.pinned) or (
            job.min_workers <= size.workers <= job.max_workers
            and (job.strategy == "allreduce") == (size.servers == 0)
            and size.servers <= job.max_servers
            and size not in job.barred
        )


@FEW
@given(any_snapshot())
def test_only_who_may_be_paused_is_paused(snapshot: Snapshot) -> None:
    views = {job.name: job for job in snapshot.jobs}
    for decision in priced(snapshot).decisions:
        job = views[decision.job]
        if decision.size == NOTHING and decision.present != NOTHING and job.pinned != NOTHING:
            assert snapshot.settings.pausing == "auto"
            assert job.has_checkpoint
            assert job.resizable
            assert job.remaining.value is not None


def pair(pausing: str, **more: object) -> Snapshot:
    long = running("long", {"n": (0, 4)}, **(LONG | {"has_checkpoint": True} | more))  # type: ignore[arg-type]
    return make_snapshot([make_node("n")], [long, make_job("short", 1, **SHORT)], pausing=pausing)  # type: ignore[arg-type]


def test_a_long_job_is_paused_for_a_short_one_and_says_so() -> None:
    made = priced(pair("auto"))
    assert sizes(made) == {"long": (0, 0), "short": (0, 4)}
    assert made.decisions[0].reason.code is ReasonCode.PAUSED
    assert made.decisions[0].waits_for is not None
    assert made.decisions[1].allocation["longer"] == 1.0


@pytest.mark.parametrize(
    ("pausing", "more"),
    [
        pytest.param("never", {}, id="it-is-not-wanted"),
        pytest.param("auto", {"has_checkpoint": False}, id="no-checkpoint-is-confirmed"),
        pytest.param("auto", {"paused_seconds": 3600.0}, id="it-was-paused-long-enough"),
        pytest.param("auto", {"steps": None}, id="nobody-knows-what-is-left"),
    ],
)
def test_a_long_job_keeps_its_minimum_where(pausing: str, more: dict[str, object]) -> None:
    made = sizes(priced(pair(pausing, **more)))
    assert made["long"][1] >= 1
    assert made["short"][1] >= 1


def test_a_job_that_waited_starts_when_it_is_its_turn() -> None:
    jobs = [make_job("long", **LONG), make_job("short", 1, **SHORT)]  # type: ignore[arg-type]
    snapshot = make_snapshot([make_node("n")], jobs, pausing="auto")
    first = apply_plan(snapshot, priced(snapshot))
    rest = first.model_copy(update={"jobs": [job for job in first.jobs if job.name == "long"]})
    assert sizes(priced(rest)) == {"long": (0, 4)}


def test_priority_outweighs_length() -> None:
    jobs = [make_job("long", **(LONG | {"steps": 1e5}), priority=10), make_job("short", 1, **SHORT)]  # type: ignore[arg-type]
    made = priced(make_snapshot([make_node("n", 6)], jobs))
    assert made.decisions[0].size == Size(workers=5)
