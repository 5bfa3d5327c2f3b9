"""A job whose replicas stay together never has more than one node holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from optimus_core.scheduling.plan import plan
from optimus_core.scheduling.types import Snapshot
from tests.scheduling.builders import make_job, make_node, make_snapshot, running, sizes, snapshots


@pytest.mark.parametrize(
    "strategy", [pytest.param("allreduce", id="all-reduce"), pytest.param("ps_sync", id="parameter servers")]
)
def test_it_gets_as_much_as_one_node_holds_though_two_would_hold_more(strategy):
    nodes, job = [make_node("a", 4), make_node("b", 4)], make_job("j", strategy=strategy, steps=1e6)
    for colocate, least, most in ((False, 5, 8), (True, 3, 4)):
        (decision,) = plan(make_snapshot(nodes, [job.model_copy(update={"colocate": colocate})])).decisions
        assert len(decision.placement) == (1 if colocate else 2)
        assert least <= decision.size.servers + decision.size.workers <= most


def test_it_waits_while_no_single_node_has_room_for_its_minimum():
    others = [running("x", {"a": (0, 3)}, min_workers=3), running("y", {"b": (0, 3)}, min_workers=3)]
    job = make_job("j", min_workers=2)
    nodes = [make_node("a", 4), make_node("b", 4)]
    assert sizes(plan(make_snapshot(nodes, [*others, job])))["j"] == (0, 2)
    together = job.model_copy(update={"colocate": True})
    assert sizes(plan(make_snapshot(nodes, [*others, together])))["j"] == (0, 0)


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_no_plan_ever_puts_it_on_two_nodes(snapshot: Snapshot):
    jobs = [job.model_copy(update={"colocate": True}) for job in snapshot.jobs]
    made = plan(snapshot.model_copy(update={"jobs": jobs}))
    assert all(len(decision.placement) <= 1 for decision in made.decisions)
