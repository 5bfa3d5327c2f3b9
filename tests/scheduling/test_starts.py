"""When who waits is predicted to start."""

import pytest
from hypothesis import given, settings

from optimus_core.reasons import ReasonCode
from optimus_core.scheduling.plan import plan
from optimus_core.scheduling.starts import with_starts
from optimus_core.scheduling.types import Pool
from tests.scheduling.builders import make_job, make_node, make_snapshot, running, snapshots

FULL = {"min_workers": 4, "max_workers": 4}


def told(snapshot):
    made = with_starts(snapshot, plan(snapshot))
    return {d.job: d.waits_for.numbers.get("start_seconds") for d in made.decisions if d.waits_for is not None}, {
        d.job: d.predicted_seconds for d in made.decisions
    }


def test_the_head_of_the_queue_starts_with_the_first_end_that_makes_room_and_the_next_with_the_next():
    node = make_node("a", cpu=8)
    jobs = [
        running("short", {"a": (0, 4)}, steps=100.0, **FULL),
        running("long", {"a": (0, 4)}, steps=1000.0, **FULL),
        make_job("first", arrived=1.0, **FULL),
        make_job("second", arrived=2.0, **FULL),
        make_job("third", arrived=3.0, **FULL),
    ]
    starts, ends = told(make_snapshot([node], jobs))
    assert starts == {"first": pytest.approx(ends["short"]), "second": pytest.approx(ends["long"]), "third": None}


def test_nothing_is_predicted_behind_jobs_whose_end_is_unknown():
    node = make_node("a", cpu=4)
    jobs = [running("open", {"a": (0, 4)}, steps=None, **FULL), make_job("waits", arrived=1.0, **FULL)]
    starts, _ = told(make_snapshot([node], jobs))
    assert starts == {"waits": None}


def pooled(name, pool, seats=None, **more):
    given = {"pool": pool, "max_workers": 2, "min_workers": 2, **more}
    return running(name, {"a": (0, 2)}, **given) if seats else make_job(name, **given)


def test_a_job_is_not_predicted_to_start_above_its_pools_ceiling():
    jobs = [
        pooled("short", "free", seats=True, steps=100.0),
        pooled("long", "bound", seats=True, steps=1000.0),
        pooled("waits", "bound", arrived=1.0),
        pooled("after", "free", arrived=2.0, min_workers=4, max_workers=4),
    ]
    snapshot = make_snapshot([make_node("a", cpu=6)], jobs)
    bound = snapshot.model_copy(update={"pools": [Pool(name="bound", ceiling={"cpu": 2000})]})
    (starts, ends), unbound = told(bound), plan(snapshot)
    assert {d.job for d in unbound.decisions if d.waits_for} == {"after"}
    assert starts == {"waits": pytest.approx(ends["long"]), "after": pytest.approx(ends["short"])}


def test_a_job_is_not_predicted_to_borrow_what_another_pool_can_use_of_its_guarantee():
    """The node is full; what ends first is the owner's, who waits behind for as much as is guaranteed."""
    jobs = [
        pooled("short", "owner", seats=True, steps=100.0),
        pooled("long", "borrower", seats=True, steps=1000.0),
        pooled("waits", "borrower", arrived=1.0),
        pooled("owns", "owner", arrived=2.0),
    ]
    snapshot = make_snapshot([make_node("a", cpu=4)], jobs)
    owned = snapshot.model_copy(update={"pools": [Pool(name="owner", guaranteed={"cpu": 2000})]})
    starts, ends = told(owned)
    assert starts == {"owns": pytest.approx(ends["short"]), "waits": pytest.approx(ends["long"])}
    starts, ends = told(snapshot)
    assert starts == {"waits": pytest.approx(ends["short"]), "owns": pytest.approx(ends["long"])}


def test_a_guarantee_that_no_job_can_use_any_more_is_predicted_to_be_lent():
    jobs = [pooled("short", "owner", seats=True, steps=100.0), pooled("waits", "borrower", arrived=1.0)]
    snapshot = make_snapshot([make_node("a", cpu=2)], jobs)
    starts, ends = told(snapshot.model_copy(update={"pools": [Pool(name="owner", guaranteed={"cpu": 2000})]}))
    assert starts == {"waits": pytest.approx(ends["short"])}


@settings(deadline=None)
@given(snapshots())
def test_a_prediction_changes_nothing_but_what_is_told(snapshot):
    made = plan(snapshot)
    told = with_starts(snapshot, made)
    assert [d for d in told.decisions if not d.waits_for] == [d for d in made.decisions if not d.waits_for]
    for before, after in zip(made.decisions, told.decisions, strict=True):
        assert (before.size, before.placement, before.changed) == (after.size, after.placement, after.changed)
        seconds = after.waits_for.numbers.get("start_seconds") if after.waits_for is not None else None
        if seconds is not None:
            assert after.waits_for.code in (ReasonCode.WAITS_FOR_ROOM, ReasonCode.WAITS_FOR_POOL)
            assert seconds >= 0
