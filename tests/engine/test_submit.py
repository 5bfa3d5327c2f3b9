"""What an execute means, by what is there already."""

from unittest.mock import Mock

import pytest

from optimus_core.engine.identity import Identity
from optimus_core.engine.submit import Action
from optimus_core.errors import ClusterUnavailable, SpecificationError, UnknownJob
from optimus_core.job import Replicas, Steps


def finish_as(driver, job_id, state):
    """Let a job that has not begun come to an end."""
    with driver.ctx.store.transaction() as tx:
        row = tx.job(job_id)
        row.state, row.verdict, row.ended_at, row.checkpoint_step = state, state, tx.now, 7
        for generation in tx.generations(job_id):
            generation.state = "gone"


def test_a_first_submission_makes_a_job_and_a_round_gives_it_a_size(driver, make_job):
    made = driver.submit(make_job())
    assert made.action is Action.CREATED
    report = driver.report(made.job_id)
    assert (report.title, report.attempt, report.state) == ("digits", 1, "running")
    assert driver.generations(made.job_id)[0]["state"] == "wanted"


def test_the_same_try_of_a_live_job_is_attached_to_and_only_the_token_is_new(driver, make_job):
    first = driver.submit(make_job())
    second = driver.submit(make_job())
    assert (second.action, second.job_id) == (Action.REATTACHED, first.job_id)
    assert second.token != first.token
    assert driver.report(first.job_id).attempt == 1
    assert len(driver.generations(first.job_id)) == 1


@pytest.mark.parametrize("state", ["queued", "succeeded"])
def test_a_cluster_that_is_away_or_has_no_room_any_more_is_not_asked_about_the_same_try(driver, make_job, state):
    first = driver.submit(make_job())
    if state != "queued":
        finish_as(driver, first.job_id, state)
    for nodes in (list, Mock(side_effect=ClusterUnavailable("away"))):
        driver.cluster.nodes = nodes
        assert driver.submit(make_job()).job_id == first.job_id
    del driver.cluster.nodes


@pytest.mark.parametrize("state", ["succeeded", "failed", "stopped"])
def test_the_same_try_of_an_ended_job_is_handed_out_as_it_is(driver, make_job, state):
    first = driver.submit(make_job())
    finish_as(driver, first.job_id, state)
    again = driver.submit(make_job())
    assert again.action is Action.FINISHED
    assert driver.report(first.job_id).state == state


@pytest.mark.parametrize(
    ("state", "fresh", "action", "checkpoint"),
    [
        pytest.param("failed", False, Action.RESUMED, 7, id="after-a-failure-from-the-checkpoint"),
        pytest.param("stopped", False, Action.RESUMED, 7, id="after-a-stop-from-the-checkpoint"),
        pytest.param("succeeded", False, Action.RESTARTED, None, id="after-a-success-from-scratch"),
        pytest.param("failed", True, Action.RESTARTED, None, id="fresh-from-scratch"),
    ],
)
def test_a_later_try_of_an_ended_job_is_a_new_attempt(driver, make_job, state, fresh, action, checkpoint):
    first = driver.submit(make_job())
    finish_as(driver, first.job_id, state)
    again = driver.submit(make_job(), 2, fresh=fresh)
    report = driver.report(first.job_id)
    assert (again.action, again.job_id) == (action, first.job_id)
    assert (report.attempt, report.state, report.checkpoint_step) == (2, "running", checkpoint)
    assert report.result is None
    assert report.ended_at is None


def test_a_later_try_of_a_queued_job_gives_up_what_was_wanted(driver, make_job):
    first = driver.submit(make_job())
    again = driver.submit(make_job(), 2)
    assert again.action is Action.RESUMED
    assert [(g["attempt"], g["state"]) for g in driver.generations(first.job_id)] == [(1, "superseded"), (2, "wanted")]


def test_a_later_try_may_ask_for_something_else(driver, make_job):
    first = driver.submit(make_job())
    driver.submit(make_job(STEPS=3, cpu="2"), 2)
    with driver.ctx.store.transaction() as tx:
        row = tx.peek_job(first.job_id)
    assert row.specification["workers"]["cpu"] == "2"
    assert row.specification["env"] == {"STEPS": "3"}


def test_attaching_changes_sizes_priority_and_stop_in_place_but_not_the_command(driver, make_job):
    first = driver.submit(make_job())
    wider = {"cpu": "1", "memory": "64Mi", "min": 1, "max": 3}
    driver.submit(make_job(priority=5, stop=Steps(9), workers=(1, 3)))
    driver.submit(make_job(priority=6, command=["true"]))
    with driver.ctx.store.transaction() as tx:
        row = tx.peek_job(first.job_id)
    assert (row.priority, row.specification["workers"]) == (6, Replicas(**wider).to_dict())
    assert row.specification["command"] != ["true"]


def test_a_stale_token_stops_nothing(driver, make_job):
    old = driver.submit(make_job())
    new = driver.submit(make_job())
    assert driver.engine.request_stop(old.job_id, token=old.token, by="the old trigger") is False
    assert driver.report(old.job_id).state == "running"
    assert driver.events(old.job_id, "stopping") == []
    assert driver.engine.request_stop(old.job_id, token=new.token, by="the new trigger") is True
    assert driver.report(old.job_id).state == "stopping"


def test_a_person_needs_no_token_and_a_second_wish_changes_nothing(driver, make_job):
    made = driver.submit(make_job())
    assert driver.engine.stop("digits", "ann").state == "stopping"
    assert driver.engine.request_stop(made.job_id, by="ben") is True
    assert driver.to_end(made.job_id).reason == "Stopped as asked by ann."
    assert driver.engine.request_stop(made.job_id, by="ben") is False
    with pytest.raises(SpecificationError, match="has stopped; there is nothing to stop"):
        driver.engine.stop("digits", "ann")


def test_an_impossible_job_is_refused_with_its_numbers_and_nothing_is_stored(driver, make_job):
    with pytest.raises(SpecificationError, match=r'workers.cpu is "5".*holds 4 cpu'):
        driver.submit(make_job(cpu="5"))
    with pytest.raises(SpecificationError, match=r"workers.min is 9.*room for 8"):
        driver.submit(make_job(workers=(9, 9)))
    assert driver.engine.jobs() == []
    assert driver.cluster.list() == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param({"working_dir": "/nowhere/at/all"}, '"/nowhere/at/all", which is no folder', id="no folder"),
        pytest.param(
            {"pod": {"spec": {"nodeSelector": {"zone": "z"}}}},
            r"may take one of workers \(zone=z\)",
            id="no node with the label",
        ),
    ],
)
def test_what_no_node_would_take_is_refused_before_anything_is_stored(driver, make_job, more, said):
    with pytest.raises(SpecificationError, match=said):
        driver.submit(make_job(**more))
    assert driver.engine.jobs() == []


def test_an_impossible_later_try_leaves_the_job_as_it_was(driver, make_job):
    made = driver.submit(make_job())
    with pytest.raises(SpecificationError):
        driver.submit(make_job(cpu="5"), 2)
    assert driver.report(made.job_id).attempt == 1


def test_an_undeclared_cluster_is_refused_with_the_known_ones(driver, make_job):
    with pytest.raises(SpecificationError, match=r'cluster "moon" is not declared. Known: local'):
        driver.submit(make_job(), cluster="moon")


def test_tasks_are_told_apart_by_run_and_map_index(driver, make_job):
    identities = [
        Identity.of_task("default", "dag", run, "train", index) for run in ("r1", "r2") for index in (-1, 0, 1)
    ]
    ids = {driver.engine.submit(make_job(), identity).job_id for identity in identities}
    assert len(ids) == len(identities)
    assert {report.title for report in driver.engine.jobs()} == {"dag.train", "dag.train[0]", "dag.train[1]"}


def test_an_unknown_job_names_those_that_there_are(driver, make_job):
    with pytest.raises(UnknownJob, match="No job has been submitted yet"):
        driver.engine.job("digit")
    driver.submit(make_job())
    with pytest.raises(UnknownJob, match=r'there is no job "digit". The newest are: digits'):
        driver.engine.job("digit")


def test_a_pinned_size_stands_until_it_is_unpinned(driver, make_job):
    made = driver.submit(make_job(workers=(1, 3)))
    assert driver.engine.pin("digits", "ann", workers=2).pinned == {"workers": 2, "servers": 0}
    assert driver.generations(made.job_id)[-1]["workers"] == 2
    assert driver.engine.unpin("digits", "ann").pinned is None
    assert [e["kind"] for e in driver.events(made.job_id) if "pinned" in e["kind"]] == ["pinned", "unpinned"]


@pytest.mark.parametrize(
    ("size", "said"),
    [
        pytest.param({"workers": 4}, "allows 1 to 3 workers, not 4. Give such as 3.", id="too-many"),
        pytest.param({"workers": 0}, "allows 1 to 3 workers, not 0. Give such as 1.", id="none"),
        pytest.param({"workers": 1, "servers": 1}, "it has no servers", id="servers"),
    ],
)
def test_a_size_that_the_job_does_not_allow_is_not_pinned(driver, make_job, size, said):
    driver.submit(make_job(workers=(1, 3)))
    with pytest.raises(SpecificationError, match=said):
        driver.engine.pin("digits", "ann", **size)
