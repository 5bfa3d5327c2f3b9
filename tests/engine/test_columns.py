"""What replicas need of a node, and how many pods it takes, hold in every plan."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus_core.cluster.base import NodeInfo, Role, Taint
from optimus_core.cluster.eligibility import Needs
from optimus_core.cluster.kubernetes.capacity import PODS
from optimus_core.engine.columns import Columns
from optimus_core.engine.snapshot import node_view
from optimus_core.resources import Resources
from optimus_core.scheduling.plan import plan
from tests.scheduling import builders
from tests.scheduling.builders import make_snapshot, running, speed

ANY = Needs()
ZONE_A, ZONE_B = Needs({"zone": "a"}), Needs({"zone": "b"})


def node(name, zone="", cpu=4, pods=None, taken=0, taints=(), ready=True):
    """A node of so many cores; ``taken`` are others' pods."""
    return NodeInfo(
        name, Resources({"cpu": cpu * 1000, "memory": 64 << 30} | ({PODS: pods} if pods is not None else {})),
        others=Resources({PODS: taken}), labels={"zone": zone} if zone else {}, taints=tuple(taints), ready=ready,
    )  # fmt: skip


def make_job(name, arrived=0.0, **more):
    """A queued job that grows as far as it may."""
    served = more.get("strategy", "allreduce") != "allreduce"
    return builders.make_job(
        name, arrived, **{"speed": speed(9.0, 0.0, 0.0, 0.0, 0.0) if served else speed(9.0, 0, 0)} | more
    )


def both(worker, server=None):
    return {Role.WORKER: worker} | ({Role.SERVER: server} if server is not None else {})


def placed(nodes, *wanted):
    """Job -> node -> (servers, workers) of the plan for jobs with their needs."""
    columns = Columns(nodes)
    views = [columns.ask(job, needs) for job, needs in wanted]
    decisions = plan(make_snapshot(columns.offer(node_view(each) for each in nodes), views)).decisions
    return {each.job: {at: (size.servers, size.workers) for at, size in each.placement.items()} for each in decisions}


def test_a_job_is_only_placed_where_it_may_run():
    nodes = [node("n1", "a", cpu=2), node("n2", "b", cpu=64)]
    assert placed(nodes, (make_job("j"), both(ZONE_A))) == {"j": {"n1": (0, 2)}}
    assert set(placed(nodes, (make_job("j"), both(ANY)))["j"]) == {"n2"}


def test_jobs_with_other_needs_share_a_cluster():
    nodes = [node("n1", "a"), node("n2", "b")]
    found = placed(
        nodes,
        (make_job("a", max_workers=4), both(ZONE_A)),
        (make_job("b", max_workers=4), both(ZONE_B)),
        (make_job("c", min_workers=1, max_workers=1), both(ANY)),
    )
    assert set(found["a"]) == {"n1"}
    assert set(found["b"]) == {"n2"}
    assert len(found["c"]) == 1
    assert sum(workers for each in found.values() for _, workers in each.values()) == 8


def test_a_job_that_may_run_nowhere_waits_and_says_for_what():
    nodes = [node("n1", "a")]
    columns = Columns(nodes)
    view = columns.ask(make_job("j"), both(ZONE_B))
    (decision,) = plan(make_snapshot(columns.offer(map(node_view, nodes)), [view])).decisions
    assert not decision.size
    assert "zone=b" in str(decision.reason)


def test_servers_and_workers_have_their_own_needs():
    nodes = [node("n1", "a"), node("n2", "b")]
    job = make_job("j", strategy="ps_sync", min_workers=2, max_workers=2, min_servers=2, max_servers=2)
    assert placed(nodes, (job, both(ZONE_A, ZONE_B))) == {"j": {"n1": (0, 2), "n2": (2, 0)}}


def test_a_taint_keeps_off_who_does_not_tolerate_it():
    nodes = [node("n1", taints=[Taint("gpu")], cpu=64), node("n2", cpu=1)]
    tolerating = Needs(tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert placed(nodes, (make_job("j"), both(ANY))) == {"j": {"n2": (0, 1)}}
    assert placed(nodes, (make_job("j"), both(tolerating))) == {"j": {"n1": (0, 8)}}


def test_needs_of_the_same_words_are_told_apart_by_where_they_hold():
    nodes = [node("n1", taints=[Taint("x")]), node("n2", taints=[Taint("y")]), node("n3", taints=[Taint("z")])]
    wanted = [
        (make_job(key, max_workers=4), both(Needs(tolerations=[{"key": key, "operator": "Exists"}]))) for key in "xyz"
    ]
    found = placed(nodes, *wanted)
    assert {job: set(seats) for job, seats in found.items()} == {"x": {"n1"}, "y": {"n2"}, "z": {"n3"}}


def test_a_running_job_stays_where_a_taint_came_later():
    nodes = [node("n1", taints=[Taint("maintenance")]), node("n2")]
    found = placed(nodes, (running("j", {"n1": (0, 2)}, max_workers=2), both(ANY)), (make_job("k"), both(ANY)))
    assert found == {"j": {"n1": (0, 2)}, "k": {"n2": (0, 4)}}


# How many pods a node takes


@pytest.mark.parametrize(
    ("pods", "taken", "workers"),
    [
        pytest.param(None, 0, 8, id="not-counted"),
        pytest.param(110, 0, 8, id="plenty"),
        pytest.param(3, 0, 3, id="few"),
        pytest.param(9, 7, 2, id="taken-by-others"),
        pytest.param(2, 2, 0, id="none-left"),
        pytest.param(2, 5, 0, id="more-than-there-are"),
    ],
)
def test_a_node_takes_no_more_pods_than_it_says(pods, taken, workers):
    nodes = [node("n1", cpu=64, pods=pods, taken=taken)]
    found = placed(nodes, (make_job("j"), both(ANY)))["j"]
    assert sum(count for _, count in found.values()) == workers


def test_servers_workers_and_the_scheduler_are_one_pod_each():
    job = make_job(
        "j", strategy="ps_sync", min_workers=2, max_workers=8, min_servers=1, max_servers=1,
        scheduler_demand={"cpu": 100},
    )  # fmt: skip
    assert placed([node("n1", cpu=64, pods=5)], (job, both(ANY, ANY))) == {"j": {"n1": (1, 3)}}


def test_a_node_that_does_not_count_pods_beside_one_that_does_takes_none():
    assert placed([node("n1", cpu=64), node("n2", cpu=64, pods=2)], (make_job("j"), both(ANY))) == {"j": {"n2": (0, 2)}}


def test_a_cluster_without_needs_or_counts_is_planned_as_before():
    nodes = [node("n1", "a"), node("n2", "b")]
    columns = Columns(nodes)
    job = make_job("j")
    assert columns.ask(job, both(ANY)) == job
    assert columns.offer(map(node_view, nodes)) == [node_view(each) for each in nodes]


def test_a_cluster_without_nodes_lets_jobs_wait():
    assert placed([], (make_job("j"), both(ZONE_A))) == {"j": {}}


_NODES = st.lists(
    st.builds(
        dict, zone=st.sampled_from(["", "a", "b"]), cpu=st.integers(1, 6), pods=st.integers(1, 6),
        taken=st.integers(0, 2), taints=st.sampled_from([(), (), (Taint("x"),)]),
        ready=st.sampled_from([True, True, False]),
    ),
    min_size=1, max_size=4,
)  # fmt: skip
_NEEDS = st.builds(
    Needs,
    st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}]),
    st.sampled_from([[], [{"key": "x", "operator": "Exists"}]]),
    st.sampled_from([[], [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]]),
)
_JOBS = st.tuples(st.sampled_from(["allreduce", "ps_sync"]), st.integers(1, 3), _NEEDS, _NEEDS, st.booleans())


@settings(deadline=None)
@given(_NODES, st.lists(_JOBS, min_size=1, max_size=4))
def test_no_plan_places_a_replica_where_it_may_not_run_or_too_many_on_a_node(given_nodes, given_jobs):
    nodes = [node(f"n{number}", **each) for number, each in enumerate(given_nodes)]
    by_name = {each.name: each for each in nodes}
    wanted = {}
    for number, (strategy, least, workers, servers, scheduled) in enumerate(given_jobs):
        more = (
            {"min_servers": 1, "scheduler_demand": {"cpu": 100} if scheduled else {}} if strategy == "ps_sync" else {}
        )
        job = make_job(f"j{number}", float(number), strategy=strategy, min_workers=least, **more)
        wanted[job.name] = (job, both(workers, servers if strategy == "ps_sync" else None))
    pods = dict.fromkeys(by_name, 0)
    for name, seats in placed(nodes, *wanted.values()).items():
        job, needs = wanted[name]
        for at, (servers, workers) in seats.items():
            assert by_name[at].ready
            assert not workers or needs[Role.WORKER].accept(by_name[at])
            assert not servers or needs[Role.SERVER].accept(by_name[at])
            pods[at] += servers + workers + (bool(job.scheduler_demand) and at == min(seats))
    for at, count in pods.items():
        assert count <= max(0, by_name[at].allocatable[PODS] - by_name[at].others[PODS])
