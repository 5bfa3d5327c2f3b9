"""Policies by name."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimus_core.errors import SpecificationError
from optimus_core.scheduling.plan import apply_plan
from optimus_core.scheduling.policies import POLICIES, policy
from optimus_core.scheduling.types import Snapshot
from tests.scheduling.builders import make_job, make_node, make_snapshot, running, sizes, snapshots, speed, used

LINEAR = speed(10.0, 0.0, 0.0)


def test_the_policies_of_the_papers_comparison_are_there() -> None:
    assert {"optimus", "paper", "drf", "tetris", "fifo", "srtf", "equal"} <= set(POLICIES)


def test_a_misspelt_policy_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecificationError, match="tetris"):
        policy("tetrs")


def test_the_papers_rule_gives_room_to_the_job_that_saves_most_seconds() -> None:
    jobs = [make_job("long", steps=50000.0, speed=LINEAR), make_job("short", steps=500.0, speed=LINEAR)]
    assert sizes(policy("paper")(make_snapshot([make_node("n", 6)], jobs))) == {"long": (0, 5), "short": (0, 1)}


def test_fifo_lets_nobody_pass() -> None:
    jobs = [running("a", {"n": (0, 2)}), make_job("b", 1, max_workers=5), make_job("c", 2, max_workers=1)]
    assert sizes(policy("fifo")(make_snapshot([make_node("n", 4)], jobs))) == {"a": (0, 2), "b": (0, 0), "c": (0, 0)}


def test_shortest_first_pauses_the_longer() -> None:
    long = running("long", {"n": (0, 4)}, steps=50000.0, speed=LINEAR)
    short = make_job("short", 1, steps=500.0, speed=LINEAR)
    made = policy("srtf")(make_snapshot([make_node("n", 4)], [long, short]))
    assert sizes(made) == {"long": (0, 0), "short": (0, 4)}


def test_tetris_starts_the_shorter_of_equals() -> None:
    jobs = [make_job("long", steps=50000.0, speed=LINEAR), make_job("short", 1, steps=500.0, speed=LINEAR)]
    made = policy("tetris")(make_snapshot([make_node("n", 4)], jobs))
    assert sizes(made) == {"long": (0, 0), "short": (0, 4)}


def test_equal_share_counts_workers() -> None:
    jobs = [make_job("a", worker_demand={"cpu": 2000}), make_job("b", worker_demand={"cpu": 1000})]
    assert sizes(policy("equal")(make_snapshot([make_node("n", 7)], jobs))) == {"a": (0, 2), "b": (0, 3)}


@pytest.mark.parametrize("name", sorted(POLICIES))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(snapshot=snapshots(), chance=st.randoms(use_true_random=False))
def test_every_policy_stays_within_the_nodes_in_any_order(name: str, snapshot: Snapshot, chance: random.Random) -> None:
    made = policy(name)(snapshot)
    jobs = list(snapshot.jobs)
    chance.shuffle(jobs)
    assert policy(name)(snapshot.model_copy(update={"jobs": jobs})) == made
    after = apply_plan(snapshot, made)
    for node in snapshot.nodes:
        for resource, whole in node.allocatable.items():
            asked = sum(used(job, job.placement).get(node.name, {}).get(resource, 0) for job in after.jobs)
            assert asked == 0 or asked <= whole - node.others.get(resource, 0)
