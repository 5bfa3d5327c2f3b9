"""What the ends of replicas mean."""

import json

import pytest

from optimus_core.cluster.base import Phase, Replica, Role
from optimus_core.engine.verdict import Outcome, judge
from optimus_core.resources import Resources

WORKERS, BOTH = frozenset({Role.WORKER}), frozenset({Role.WORKER, Role.SERVER})


def seen(phase, exit_code=None, reason=None, index=0, role=Role.WORKER, **more):
    """A replica as the cluster sees it."""
    return Replica(
        name=f"job-{role.value}-{index}", uid=f"u{index}", job="job", generation=1, role=role, index=index, node="a",
        resources=Resources(), phase=phase, exit_code=exit_code, reason=reason, **more,
    )  # fmt: skip


RUNNING, DONE, DEAD = Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED


@pytest.mark.parametrize(
    ("replicas", "outcome", "failure"),
    [
        pytest.param([seen(RUNNING)], "going_on", None, id="it-runs"),
        pytest.param([seen(Phase.PENDING)], "going_on", None, id="it-has-not-begun"),
        pytest.param([seen(Phase.UNKNOWN)], "going_on", None, id="unknown-tells-nothing"),
        pytest.param([seen(DONE, 0)], "succeeded", None, id="exit-0"),
        pytest.param([seen(DONE, 0), seen(RUNNING, index=1)], "going_on", None, id="one-of-two-is-done"),
        pytest.param([seen(DONE, 0), seen(Phase.UNKNOWN, index=1)], "going_on", None, id="the-other-is-unknown"),
        pytest.param([seen(DONE, 0), seen(DONE, 0, index=1)], "succeeded", None, id="both-are-done"),
        pytest.param([seen(DONE, 0), seen(RUNNING, role=Role.SERVER)], "succeeded", None, id="servers-do-not-decide"),
        pytest.param([seen(RUNNING), seen(DEAD, 1, role=Role.SERVER)], "failed", "user_error", id="a-server-broke"),
        pytest.param([seen(RUNNING), seen(DONE, 0, role=Role.SERVER)], "going_on", None, id="a-server-ended-early"),
        pytest.param([seen(RUNNING, terminating=True)], "failed", "evicted", id="somebody-asked-it-to-stop"),
        pytest.param([seen(DONE, 0, terminating=True)], "failed", "evicted", id="it-trapped-the-request"),
        pytest.param([seen(DONE, 0, "Disrupted")], "failed", "evicted", id="disrupted-with-exit-0"),
        pytest.param([seen(DEAD, 143, "Evicted")], "failed", "evicted", id="evicted"),
        pytest.param([seen(DONE, 0, "OOMKilled")], "succeeded", None, id="a-child-ran-out-of-memory"),
        pytest.param([seen(DEAD, 137, "OOMKilled")], "failed", "oom", id="out-of-memory"),
        pytest.param([seen(DEAD, None, "NodeLost")], "failed", "lost", id="its-node-is-lost"),
        pytest.param([seen(DEAD, None, "Lost")], "failed", "lost", id="nobody-saw-its-end"),
        pytest.param([seen(DEAD, None)], "failed", "lost", id="no-exit-code"),
        pytest.param([seen(DEAD, None, "StartError")], "failed", "user_error", id="no-such-program"),
        pytest.param([seen(DEAD, 75)], "failed", "lost", id="it-says-that-a-peer-was-lost"),
        pytest.param([seen(DEAD, 137)], "failed", "killed", id="killed"),
        pytest.param([seen(DEAD, 139)], "failed", "killed", id="segmentation-fault"),
        pytest.param([seen(DEAD, 1)], "failed", "user_error", id="the-script-failed"),
    ],
)
def test_the_ends_of_replicas_have_one_meaning(replicas, outcome, failure):
    verdict = judge(replicas, len(replicas), WORKERS)
    assert (verdict.outcome, verdict.failure) == (Outcome(outcome), failure)


def test_a_replica_that_is_missing_was_lost_whatever_the_others_say():
    verdict = judge([seen(DONE, 0)], 2, WORKERS)
    assert (verdict.outcome, verdict.failure) == (Outcome.FAILED, "lost")
    assert verdict.numbers == {"replicas": 1, "expected": 2}


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        pytest.param(seen(DEAD, None, "NodeLost", index=1), "lost", id="lost"),
        pytest.param(seen(DEAD, 143, "Evicted", index=1), "evicted", id="evicted"),
        pytest.param(seen(DEAD, 137, "OOMKilled", index=1), "oom", id="oom"),
        pytest.param(seen(DEAD, 137, index=1), "killed", id="killed"),
    ],
)
def test_the_gravest_failure_explains_those_of_its_peers(cause, kind):
    verdict = judge([seen(DEAD, 1), cause, seen(DEAD, 1, index=2)], 3, WORKERS)
    assert verdict.failure == kind
    assert verdict.numbers["replica"] == cause.name


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        pytest.param(seen(DEAD, 1, index=1), "user_error", id="the-script-failed"),
        pytest.param(seen(DEAD, 137, index=1), "killed", id="killed"),
        pytest.param(seen(DEAD, 137, "OOMKilled", index=1), "oom", id="oom"),
        pytest.param(seen(DEAD, None, "NodeLost", index=1), "lost", id="its-node-is-lost"),
    ],
)
def test_who_says_that_a_peer_was_lost_hides_no_failure_of_that_peer(cause, kind):
    verdict = judge([seen(DEAD, 75), cause, seen(DEAD, 75, index=2)], 3, WORKERS)
    assert (verdict.failure, verdict.numbers["replica"]) == (kind, cause.name)


def test_servers_decide_where_they_have_to():
    assert judge([seen(DONE, 0), seen(RUNNING, role=Role.SERVER)], 2, BOTH).outcome is Outcome.GOING_ON


def test_no_replica_at_all_is_no_success():
    assert judge([], 0, WORKERS).outcome is Outcome.GOING_ON


def test_a_verdict_says_what_the_script_wrote_but_not_what_the_library_left():
    library = '{"checkpoint": null, "loss": 1.0, "optimus": "last", "step": 3, "time": 1.0}'
    assert judge([seen(DEAD, 1, message="out of cheese")], 1, WORKERS).numbers["message"] == "out of cheese"
    assert "message" not in judge([seen(DEAD, 1, message=library)], 1, WORKERS).numbers


def missing(**told):
    return json.dumps({"optimus": "checkpoint_missing", "time": 1.0} | told)


@pytest.mark.parametrize(
    ("message", "exit_code", "numbers"),
    [
        pytest.param(
            missing(confirmed=20, found=10, folder="/c"), 1,
            {"confirmed": 20, "newest": "of step 10", "folder": "/c"}, id="an older one",
        ),
        pytest.param(missing(confirmed=20, found=None, folder="/c"), 1, {"newest": "none"}, id="none"),
        pytest.param(missing(confirmed=20, found=None, folder="/c"), 75, {"confirmed": 20}, id="however it ended"),
        pytest.param(missing(confirmed="x", found=[], folder={"a": "\x00"}), 1, {"newest": "none"}, id="nonsense"),
    ],
)  # fmt: skip
def test_a_replica_that_misses_a_checkpoint_explains_the_failure_of_all(message, exit_code, numbers):
    peers = [seen(DEAD, 75, index=1), seen(DEAD, 137, "OOMKilled", index=2)]
    verdict = judge([*peers, seen(DEAD, exit_code, message=message)], 3, WORKERS)
    assert verdict.failure == "checkpoint_missing"
    assert numbers.items() <= verdict.numbers.items()
    assert verdict.numbers["replica"] == "job-worker-0"


@pytest.mark.parametrize(
    ("replica", "failure"),
    [
        pytest.param(seen(DONE, 0, message=missing(confirmed=1)), None, id="the script went on all the same"),
        pytest.param(seen(DEAD, 1, message='["optimus", "checkpoint_missing"]'), "user_error", id="another text"),
        pytest.param(seen(DEAD, 1, message="checkpoint_missing"), "user_error", id="the word alone"),
        pytest.param(seen(DEAD, 143, "Evicted", message=missing(confirmed=1)), "evicted", id="evicted meanwhile"),
    ],
)
def test_only_a_replica_that_failed_for_it_misses_a_checkpoint(replica, failure):
    assert judge([replica], 1, WORKERS).failure == failure
