"""What is free: no room is given out twice."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.cluster.base import NodeInfo, Phase, Replica, Role
from optimus_core.engine.ledger import granted, missing, observed, room_for
from optimus_core.resources import Resources, largest
from optimus_core.store import GenerationRow, JobRow


def cpu(amount):
    return Resources({"cpu": amount, "memory": amount})


def replica(job, node, amount, phase=Phase.RUNNING, **more):
    return Replica(name=f"{job}-0", uid="u", job=job, generation=1, role=Role.WORKER, index=0, node=node,
                   resources=cpu(amount), phase=phase, **more)  # fmt: skip


def row_and_generation(state, workers=2, **placement):
    specification = {
        "name": "a", "command": ["true"], "strategy": {"all_reduce": {}},
        "workers": {"cpu": "1", "memory": "1Gi", "min": 1, "max": 4},
    }  # fmt: skip
    row = JobRow(name="a", specification=specification, memory_factor=1.0)
    seats = {node: {"servers": 0, "workers": count} for node, count in placement.items()}
    return row, GenerationRow(number=1, servers=0, workers=workers, placement=seats, state=state)


@pytest.mark.parametrize(
    ("phase", "terminating", "holds"),
    [
        pytest.param(Phase.PENDING, False, True, id="pending"),
        pytest.param(Phase.RUNNING, False, True, id="running"),
        pytest.param(Phase.RUNNING, True, True, id="terminating"),
        pytest.param(Phase.UNKNOWN, False, True, id="unknown"),
        pytest.param(Phase.SUCCEEDED, False, False, id="succeeded"),
        pytest.param(Phase.FAILED, True, False, id="failed"),
    ],
)
def test_a_replica_holds_its_room_until_it_has_ended(phase, terminating, holds):
    held = observed([replica("a", "n", 3, phase, terminating=terminating)])
    assert held == ({"a": {"n": cpu(3)}} if holds else {})


@pytest.mark.parametrize(
    ("state", "holds"),
    [("wanted", False), ("starting", True), ("running", True), ("draining", True), ("gone", False)],
)
def test_a_generation_holds_its_room_from_its_start_until_it_is_gone(state, holds):
    given_out = granted([row_and_generation(state, x=1, y=1)])
    one = Resources.of("1", "1Gi")
    assert given_out == ({"a": {"x": one, "y": one}} if holds else {})


def test_seen_and_granted_count_once():
    nodes = [NodeInfo("n", cpu(10))]
    assert room_for("b", nodes, {"a": {"n": cpu(4)}}, {"a": {"n": cpu(4)}}) == {"n": cpu(6)}
    assert room_for("b", nodes, {"a": {"n": cpu(2)}}, {"a": {"n": cpu(4)}}) == {"n": cpu(6)}


def test_what_is_missing_is_told_with_its_numbers():
    room = {"a": Resources.of("1", "1Gi"), "b": Resources.of("0", "0")}
    need = {"a": Resources.of("1", "1Gi"), "b": Resources.of("500m", "1Gi")}
    assert missing({"a": need["a"]}, room) is None
    lacking = missing(need, room)
    assert lacking["node"] == "b"
    assert "500m" in lacking["needed"]


def test_a_node_that_is_not_ready_or_gone_has_no_room():
    nodes = [NodeInfo("n", cpu(10), ready=False)]
    assert room_for("a", nodes, {}, {}) == {}
    assert missing({"n": cpu(1)}, {})["node"] == "n"


AMOUNTS = st.integers(0, 12)
NODES = ("x", "y")
HELD = st.dictionaries(st.sampled_from("abcd"), st.dictionaries(st.sampled_from(NODES), AMOUNTS.map(cpu)))


@given(
    allocatable=AMOUNTS,
    others=AMOUNTS,
    seen=HELD,
    given_out=HELD,
    need=st.dictionaries(st.sampled_from(NODES), AMOUNTS),
)
def test_who_gets_what_was_found_free_never_takes_a_node_beyond_what_it_has(allocatable, others, seen, given_out, need):
    nodes = [NodeInfo(name, cpu(allocatable), cpu(others)) for name in NODES]
    room = room_for("a", nodes, seen, given_out)
    if missing({node: cpu(amount) for node, amount in need.items() if amount}, room) is not None:
        return
    for node in {node for node, amount in need.items() if amount}:
        held = sum(
            max(seen.get(job, {}).get(node, Resources())["cpu"], given_out.get(job, {}).get(node, Resources())["cpu"])
            for job in "bcd"
        )
        assert need[node] + held + others <= allocatable


@given(one=AMOUNTS, other=AMOUNTS)
def test_the_largest_is_neither_less_than_one_nor_the_other(one, other):
    assert largest(cpu(one), cpu(other)) == cpu(max(one, other))


@given(HELD, HELD)
def test_a_jobs_own_replicas_are_no_hindrance_to_it(seen, given_out):
    nodes = [NodeInfo(name, cpu(12)) for name in NODES]
    without = [{job: held for job, held in each.items() if job != "a"} for each in (seen, given_out)]
    assert room_for("a", nodes, seen, given_out) == room_for("a", nodes, *without)


def test_the_ledger_takes_generations_of_several_jobs():
    first, second = row_and_generation("running", x=2), row_and_generation("starting", 1, x=1)
    second[0].name = "b"
    assert set(granted([first, second])) == {"a", "b"}
    assert SimpleNamespace(**granted([first, second])["a"]).x == Resources.of("2", "2Gi")
