"""The fewest nodes: evenly with servers, packed without."""

from __future__ import annotations

import pytest

from optimus_core.scheduling.placement import Room, even_split, shrunk_seats
from optimus_core.scheduling.rows import Problem, Row, Seats, prepare
from optimus_core.scheduling.types import JobView, Node
from tests.scheduling.builders import GPU, make_job, make_node, make_snapshot


def room_and_row(nodes: list[Node], job: JobView) -> tuple[Room, Row]:
    problem: Problem = prepare(make_snapshot(nodes, [job]), lambda _: None)
    return Room.of(problem), problem.rows[0]


ALLREDUCE = make_job("a")
SERVED = make_job("a", strategy="ps_sync")
WITH_GPU = make_job("a", strategy="ps_sync", worker_demand={"cpu": 1000, GPU: 1})


@pytest.mark.parametrize(
    ("nodes", "job", "size", "want"),
    [
        pytest.param({"a": 4, "b": 2}, ALLREDUCE, (0, 2), {"b": (0, 2)}, id="the-fullest-that-holds-it-whole"),
        pytest.param({"a": 4, "b": 4, "c": 4}, ALLREDUCE, (0, 6), {"a": (0, 4), "b": (0, 2)}, id="full-nodes-first"),
        pytest.param({"a": 1, "b": 4, "c": 4}, ALLREDUCE, (0, 5), {"a": (0, 1), "b": (0, 4)}, id="the-rest-best-fit"),
        pytest.param({"a": 2, "b": 2, "c": 2}, ALLREDUCE, (0, 6), {n: (0, 2) for n in "abc"}, id="as-many-as-needed"),
        pytest.param({"a": 4, "b": 4, "c": 4}, SERVED, (1, 5), {"a": (0, 3), "b": (1, 2)}, id="even-over-two"),
        pytest.param({"a": 4, "b": 4}, SERVED, (2, 4), {"a": (1, 2), "b": (1, 2)}, id="both-roles-even"),
        pytest.param({"a": 3, "b": 3}, SERVED, (1, 3), {"a": (0, 2), "b": (1, 1)}, id="remainders-apart"),
        pytest.param({"a": 7, "b": 2}, ALLREDUCE, (0, 8), {"a": (0, 7), "b": (0, 1)}, id="filled-where-not-even"),
        pytest.param({"a": 4, "b": 3}, ALLREDUCE, (0, 8), None, id="too-much"),
        pytest.param({"a": 4}, ALLREDUCE, (0, 0), {}, id="nothing"),
        pytest.param({}, ALLREDUCE, (0, 1), None, id="no-nodes"),
    ],
)
def test_placement(nodes: dict[str, int], job: JobView, size: tuple[int, int], want: Seats | None) -> None:
    room, row = room_and_row([make_node(name, cpu) for name, cpu in nodes.items()], job)
    assert room.place(row, size) == want


def test_servers_go_where_there_are_no_devices_if_there_is_no_other_room() -> None:
    room, row = room_and_row([make_node("c", 4), make_node("g", 2, gpu=2)], WITH_GPU)
    assert room.place(row, (3, 2)) == {"c": (3, 0), "g": (0, 2)}


MIXED = [make_node("g", 8, gpu=4), make_node("p", 4), make_node("q", 2)]
WITHOUT = make_job("a", strategy="ps_sync")


@pytest.mark.parametrize(
    ("job", "size", "want"),
    [
        pytest.param(ALLREDUCE, (0, 2), {"q": (0, 2)}, id="whole-on-one"),
        pytest.param(ALLREDUCE, (0, 6), {"p": (0, 4), "q": (0, 2)}, id="packed-on-two"),
        pytest.param(ALLREDUCE, (0, 7), {"g": (0, 1), "p": (0, 4), "q": (0, 2)}, id="no-more-on-it-than-is-left-over"),
        pytest.param(ALLREDUCE, (0, 15), None, id="too-much"),
        pytest.param(WITHOUT, (1, 3), {"p": (1, 3)}, id="both-roles-without"),
        pytest.param(WITH_GPU, (1, 2), {"g": (0, 2), "q": (1, 0)}, id="servers-apart-from-workers-with-devices"),
        pytest.param(WITH_GPU, (7, 2), {"g": (1, 2), "p": (4, 0), "q": (2, 0)}, id="servers-left-over"),
        pytest.param(WITH_GPU.model_copy(update={"colocate": True}), (2, 2), {"g": (2, 2)}, id="together"),
        pytest.param(ALLREDUCE.model_copy(update={"colocate": True}), (0, 3), {"p": (0, 3)}, id="together-without"),
        pytest.param(ALLREDUCE.model_copy(update={"colocate": True}), (0, 5), {"g": (0, 5)}, id="together-only-there"),
    ],
)
def test_replicas_without_devices_keep_off_nodes_that_have_some(
    job: JobView, size: tuple[int, int], want: Seats | None
) -> None:
    room, row = room_and_row(MIXED, job)
    assert room.place(row, size) == want


def test_nodes_whose_devices_others_use_up_are_kept_off_too() -> None:
    nodes = [make_node("g", 2, gpu=1, others={GPU: 1}), make_node("p", 4)]
    room, row = room_and_row(nodes, ALLREDUCE)
    assert room.place(row, (0, 1)) == {"p": (0, 1)}


def test_a_device_that_all_nodes_have_keeps_nobody_off() -> None:
    nodes = [make_node("g", 2, gpu=1), make_node("p", 4, gpu=1)]
    room, row = room_and_row(nodes, ALLREDUCE)
    assert room.place(row, (0, 1)) == {"g": (0, 1)}


def test_a_scheduler_process_needs_room_on_the_first_node() -> None:
    job = make_job("a", scheduler_demand={"cpu": 500})
    room, row = room_and_row([make_node("a", 2), make_node("b", 2)], job)
    assert room.place(row, (0, 4)) is None
    assert room.place(row, (0, 3)) == {"a": (0, 1), "b": (0, 2)}


def test_taking_and_giving_back_leaves_the_room_as_it_was() -> None:
    room, row = room_and_row([make_node("a"), make_node("b")], SERVED)
    before = room.free.copy()
    seats = room.place(row, (2, 4))
    assert seats
    room.take(row, seats)
    assert room.total() != [int(amount) for amount in before.sum(axis=0)]
    room.give(row, seats)
    assert (room.free == before).all()


def test_an_overcommitted_node_takes_nothing_more() -> None:
    room, row = room_and_row([make_node("a", 2)], ALLREDUCE)
    room.take(row, {"a": (0, 5)})
    assert room.place(row, (0, 1)) is None
    assert all(amount >= 0 for amount in room.total())


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_an_even_split_is_whole_and_differs_by_one(count: int) -> None:
    for amounts, whole in zip(even_split((5, 11), count), (5, 11), strict=True):
        assert amounts.sum() == whole
        assert amounts.max() - amounts.min() <= 1


def test_a_smaller_size_stays_on_the_fewest_present_nodes_and_on_the_first() -> None:
    seats = {"a": (1, 1), "b": (0, 3), "c": (1, 2)}
    assert shrunk_seats(seats, (1, 3)) == {"a": (1, 1), "b": (0, 2)}
