"""The plans that Optimus is compared with."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from optimus_core.scheduling.baselines import equal_sizes, fair_shares
from optimus_core.scheduling.plan import apply_plan
from optimus_core.scheduling.types import Size, Snapshot
from tests.scheduling.builders import GPU, make_job, make_node, make_snapshot, running, sizes, snapshots, used


def test_everyone_gets_the_same_size_in_order_of_arrival() -> None:
    jobs = [make_job("c", 3), make_job("b", 2), make_job("a", 1, max_workers=1)]
    made = equal_sizes(make_snapshot([make_node("n", 4)], jobs), Size(workers=2))
    assert sizes(made) == {"a": (0, 1), "b": (0, 2), "c": (0, 0)}


def test_equal_sizes_leave_what_runs() -> None:
    made = equal_sizes(make_snapshot([make_node("n", 4)], [running("a", {"n": (0, 3)})]), Size(workers=2))
    assert sizes(made) == {"a": (0, 3)}


def test_dominant_shares_are_equal() -> None:
    jobs = [make_job("a", worker_demand={"cpu": 1000, GPU: 1}), make_job("b", worker_demand={"cpu": 1000})]
    assert sizes(fair_shares(make_snapshot([make_node("n", 8, gpu=5)], jobs))) == {"a": (0, 3), "b": (0, 5)}


def test_fair_shares_deal_anew_when_someone_comes() -> None:
    jobs = [running("a", {"n": (0, 4)}), make_job("b", 1)]
    assert sizes(fair_shares(make_snapshot([make_node("n", 4)], jobs))) == {"a": (0, 2), "b": (0, 2)}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(snapshots())
def test_baselines_stay_within_the_nodes(snapshot: Snapshot) -> None:
    for made in (equal_sizes(snapshot, Size(servers=1, workers=2)), fair_shares(snapshot)):
        after = apply_plan(snapshot, made)
        for node in snapshot.nodes:
            for resource, whole in node.allocatable.items():
                asked = sum(used(job, job.placement).get(node.name, {}).get(resource, 0) for job in after.jobs)
                assert asked == 0 or asked <= whole - node.others.get(resource, 0)
