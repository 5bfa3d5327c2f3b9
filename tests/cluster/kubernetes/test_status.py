"""What a pod's status means, told from pods as a real API server gave them."""

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from optimus_core.cluster.base import Phase, Role
from optimus_core.cluster.kubernetes.status import (
    GENERATION,
    INDEX,
    JOB,
    ROLE,
    STOP_ASKED,
    STOP_OVERDUE,
    UNREACHABLE,
    Sight,
    moment,
    planned_node,
    replica_of,
)
from optimus_core.engine.verdict import Outcome, failure_of, judge
from optimus_core.resources import Resources

PODS = Path(__file__).parent / "pods"
NOW = datetime(2026, 12, 2, 10, tzinfo=UTC)
WORKERS = frozenset({Role.WORKER})


def pod(name, **more):
    """A recorded pod with the labels of a replica; ``more`` is merged over its status."""
    made = json.loads((PODS / f"{name}.json").read_text())
    made["metadata"]["labels"] = {JOB: "train", GENERATION: "3", ROLE: "worker", INDEX: "0"}
    made["status"] |= more
    return made


def disrupted(reason, message="told"):
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}


def terminated(exit_code, reason, **more):
    return [{"name": "base", "state": {"terminated": {"exitCode": exit_code, "reason": reason, **more}}}]


def asked_to_stop(made, at=NOW):
    made["metadata"]["annotations"] = {STOP_ASKED: at.isoformat(timespec="seconds")}
    return made


def seen(made, away=(), now=NOW):
    return replica_of(made, Sight(now, frozenset(away)))


def end(replica):
    """Phase, exit code, reason, whether it was asked to stop, and the class of failure."""
    return (
        str(replica.phase), replica.exit_code, replica.reason, replica.terminating, failure_of(replica, WORKERS),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "phase", "exit_code", "reason", "terminating", "failure"),
    [
        pytest.param("exit-0", "succeeded", 0, "Completed", False, None, id="exit-0"),
        pytest.param("exit-3", "failed", 3, "Error", False, "user_error", id="exit-3"),
        pytest.param("bad-command", "failed", None, "StartError", False, "user_error", id="no-such-program"),
        pytest.param("oom-killed", "failed", 137, "OOMKilled", False, "oom", id="out-of-memory"),
        pytest.param("oom-child", "succeeded", 0, "OOMKilled", False, None, id="only-a-child-ran-out-of-memory"),
        pytest.param("deadline", "failed", 137, "DeadlineExceeded", False, "killed", id="a-deadline-of-somebody-else"),
        pytest.param("deleted-trap-0", "succeeded", 0, "Completed", True, "evicted", id="deleted-and-trapped-it"),
        pytest.param("deleted-ignored", "failed", 137, "Error", True, "evicted", id="deleted-and-took-no-notice"),
        pytest.param("force-deleted", "running", None, None, True, "evicted", id="deleted-by-force"),
        pytest.param("evicted-api", "failed", 0, "Disrupted", True, "evicted", id="evicted-though-it-succeeded"),
        pytest.param("preempted", "failed", 0, "Disrupted", True, "evicted", id="preempted-though-it-succeeded"),
        pytest.param("node-deleted", "failed", None, "NodeLost", True, "lost", id="its-node-was-deleted"),
        pytest.param("out-of-cpu", "failed", None, "OutOfcpu", False, "lost", id="refused-by-its-node"),
        pytest.param("init-fail", "failed", 5, "InitError", False, "user_error", id="an-init-container-failed"),
        pytest.param("gated", "pending", None, "SchedulingGated", False, None, id="held-by-a-gate"),
        pytest.param("unschedulable", "pending", None, "Unschedulable", False, None, id="no-room"),
        pytest.param("never-pull", "pending", None, "ErrImageNeverPull", False, None, id="no-image-on-the-node"),
        pytest.param("bad-name", "pending", None, "InvalidImageName", False, None, id="no-name-of-an-image"),
        pytest.param("no-configmap", "pending", None, "CreateContainerConfigError", False, None, id="no-configmap"),
        pytest.param("pull-backoff", "pending", None, "ImagePullBackOff", False, None, id="no-such-image"),
    ],
)
def test_the_end_of_a_recorded_pod(name, phase, exit_code, reason, terminating, failure):
    assert end(seen(pod(name))) == (phase, exit_code, reason, terminating, failure)


def test_every_recorded_pod_is_in_the_table():
    (marks,) = [mark for mark in test_the_end_of_a_recorded_pod.pytestmark if mark.name == "parametrize"]
    assert {param.values[0] for param in marks.args[1]} == {path.stem for path in PODS.glob("*.json")}


@pytest.mark.parametrize("name", sorted(path.stem for path in PODS.glob("*.json")))
def test_a_pod_that_is_judged_alone_succeeds_only_with_proof(name):
    replica = seen(pod(name))
    verdict = judge([replica], 1, WORKERS)
    assert (verdict.outcome is Outcome.SUCCEEDED) == (name in ("exit-0", "oom-child"))
    assert (verdict.outcome is Outcome.FAILED) == (failure_of(replica, WORKERS) is not None)


SEGFAULT = terminated(139, "Error")
CHANGED = [
    pytest.param(pod("exit-3", containerStatuses=SEGFAULT), "failed", 139, "Error", "killed", id="segmentation-fault"),
    pytest.param(
        pod("exit-3", containerStatuses=terminated(75, "Error")), "failed", 75, "Error", "lost", id="a-peer-is-lost"
    ),
    pytest.param(
        pod("exit-3", reason="Evicted", containerStatuses=terminated(137, "Error")),
        "failed", 137, "Evicted", "evicted", id="evicted-by-its-node-without-a-condition",
    ),
    pytest.param(
        pod("exit-0", phase="Failed", reason="Evicted"),
        "failed", 0, "Evicted", "evicted", id="evicted-by-its-node-with-exit-0",
    ),
    pytest.param(
        pod("oom-killed", conditions=[disrupted("TerminationByKubelet")]),
        "failed", 137, "Disrupted", "evicted", id="out-of-memory-of-its-node",
    ),
    pytest.param(
        pod("exit-0", conditions=[disrupted("DeletionByTaintManager")]),
        "failed", 0, "NodeLost", "lost", id="deleted-for-a-taint",
    ),
    pytest.param(
        pod("exit-0", conditions=[disrupted("x") | {"status": "False"}]),
        "succeeded", 0, "Completed", None, id="a-disruption-that-did-not-come",
    ),
    pytest.param(
        pod("deadline", containerStatuses=terminated(0, "Completed")),
        "failed", 0, "DeadlineExceeded", "killed", id="a-deadline-of-somebody-else-that-was-trapped",
    ),
    pytest.param(
        pod("exit-3", containerStatuses=terminated(137, "ContainerStatusUnknown")),
        "failed", None, "Lost", "lost", id="the-kubelet-found-no-trace-of-it",
    ),
    pytest.param(
        pod("exit-3", containerStatuses=terminated(137, "ContainerStatusUnknown"), reason="Evicted"),
        "failed", None, "Evicted", "evicted", id="evicted-and-no-trace",
    ),
    pytest.param(
        pod("exit-0", phase="Running"), "succeeded", 0, "Completed", None, id="the-phase-comes-a-second-later",
    ),
    pytest.param(
        pod("exit-0", containerStatuses=None), "failed", None, "Lost", "lost", id="succeeded-and-nobody-knows-how",
    ),
    pytest.param(
        pod("init-fail", reason="Evicted", conditions=[disrupted("TerminationByKubelet")]),
        "failed", None, "Disrupted", "evicted", id="evicted-during-an-init-container",
    ),
    pytest.param(
        pod("exit-3", containerStatuses=terminated(128, "ContainerCannotRun")),
        "failed", None, "StartError", "user_error", id="cannot-run",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("made", "phase", "exit_code", "reason", "failure"), CHANGED)
def test_the_end_of_a_pod_that_could_not_be_recorded(made, phase, exit_code, reason, failure):
    assert end(seen(made)) == (phase, exit_code, reason, False, failure)


# Our own stop


@pytest.mark.parametrize(
    ("code", "word"), [pytest.param(0, "Completed", id="it-saved-its-work"), pytest.param(137, "Error", id="killed")]
)
def test_a_deadline_that_we_set_is_a_stop(code, word):
    made = asked_to_stop(pod("deadline", containerStatuses=terminated(code, word)), NOW - timedelta(hours=1))
    replica = seen(made)
    assert (replica.phase, replica.exit_code, replica.reason, replica.terminating) == ("failed", code, "Stopped", True)


def test_a_pod_that_was_done_when_the_stop_came_has_succeeded():
    replica = seen(asked_to_stop(pod("exit-0")))
    assert (replica.phase, replica.reason, replica.terminating) == ("succeeded", "Completed", True)


def test_a_pod_that_we_stopped_before_it_began_is_stopped():
    made = asked_to_stop(pod("init-fail", reason="DeadlineExceeded"))
    assert (seen(made).phase, seen(made).reason) == ("failed", "Stopped")


def test_a_stop_that_has_no_effect_is_no_stop_any_more_after_the_grace_period():
    made = pod("force-deleted")
    del made["metadata"]["deletionTimestamp"]
    assert not seen(made).terminating
    asked_to_stop(made)
    overdue = timedelta(seconds=made["spec"]["terminationGracePeriodSeconds"] + STOP_OVERDUE)
    assert seen(made, now=NOW + overdue - timedelta(seconds=1)).terminating
    assert not seen(made, now=NOW + overdue + timedelta(seconds=1)).terminating
    made["metadata"]["deletionTimestamp"] = NOW.isoformat()
    assert seen(made, now=NOW + overdue + timedelta(days=1)).terminating


# Nodes that are away


def running(deleted=None):
    made = pod("force-deleted")
    del made["metadata"]["deletionTimestamp"]
    if deleted is not None:
        made["metadata"]["deletionTimestamp"] = deleted.isoformat()
        made["status"]["conditions"].append(disrupted("DeletionByTaintManager"))
    return made


@pytest.mark.parametrize(
    ("deleted", "away", "after", "phase", "reason", "failure"),
    [
        pytest.param(False, False, 0, "running", None, None, id="there"),
        pytest.param(False, True, 0, "unknown", "NodeAway", None, id="away"),
        pytest.param(False, True, 86400, "unknown", "NodeAway", None, id="away-for-a-day"),
        pytest.param(True, False, 86400, "running", None, "evicted", id="deleted-and-the-node-answers"),
        pytest.param(True, True, 0, "unknown", "NodeAway", "evicted", id="deleted"),
        pytest.param(True, True, UNREACHABLE - 1, "unknown", "NodeAway", "evicted", id="deleted-a-while-ago"),
        pytest.param(True, True, UNREACHABLE + 1, "failed", "NodeLost", "lost", id="deleted-long-ago"),
    ],
)
def test_a_pod_on_a_node_that_is_away_is_lost_once_it_was_deleted_long_ago(
    deleted, away, after, phase, reason, failure
):
    made = running(NOW if deleted else None)
    nodes = {made["spec"]["nodeName"]} if away else {"another"}
    replica = seen(made, nodes, NOW + timedelta(seconds=after))
    assert end(replica) == (phase, None, reason, deleted, failure)


def test_an_end_that_was_seen_stays_when_the_node_goes_away():
    assert end(seen(pod("exit-0"), {"node-a", "node-b"}))[:3] == ("succeeded", 0, "Completed")


def test_a_pod_without_a_node_is_not_away():
    assert seen(pod("unschedulable"), {""}).phase is Phase.PENDING


def test_a_pod_for_which_others_are_stopped_is_not_without_a_place():
    made = pod("unschedulable")
    assert seen(made).reason == "Unschedulable"
    made["status"]["nominatedNodeName"] = "node-a"
    assert (seen(made).phase, seen(made).reason) == (Phase.PENDING, "Preempting")


# What else is told


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("gated", "held by x.y/z", id="who-holds-it"),
        pytest.param("unschedulable", "Insufficient cpu", id="what-is-short"),
        pytest.param("no-configmap", 'configmap "none" not found', id="what-is-missing"),
        pytest.param("pull-backoff", "no such host", id="why-there-is-no-image"),
        pytest.param("init-fail", 'init container "i" ended with exit code 5', id="which-init-container"),
        pytest.param("bad-command", "/no/such", id="which-program"),
        pytest.param("out-of-cpu", "Node didn't have enough resource: cpu", id="why-the-node-refused"),
        pytest.param("evicted-api", "Eviction API: evicting", id="who-evicted-it"),
        pytest.param("preempted", "preempting to accommodate a higher priority pod", id="who-preempted-it"),
        pytest.param("node-deleted", "node no longer exists", id="what-happened-to-the-node"),
        pytest.param("deadline", "longer than the specified deadline", id="which-limit"),
    ],
)
def test_the_clusters_own_words_are_kept(name, message):
    assert message in seen(pod(name)).message


def test_a_termination_message_stands_before_the_clusters_words():
    made = pod("deadline", containerStatuses=terminated(1, "Error", message="no data"))
    assert seen(made).message == "no data"


def test_an_image_of_an_init_container_that_can_not_be_had_is_told():
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    made = pod("init-fail", phase="Pending", initContainerStatuses=[{"name": "i", "state": waiting}])
    assert end(seen(made))[:3] == ("pending", None, "ImagePullBackOff")


@pytest.mark.parametrize("word", ["ContainerCreating", "PodInitializing"])
def test_a_pod_that_is_being_set_up_starts(word):
    made = pod("no-configmap", containerStatuses=[{"name": "base", "state": {"waiting": {"reason": word}}}])
    assert end(seen(made)) == ("pending", None, "Starting", False, None)


def test_a_pod_that_nobody_has_looked_at_yet_gives_no_reason():
    made = pod("unschedulable")
    made["status"] = {"phase": "Pending"}
    assert (seen(made).phase, seen(made).reason) == ("pending", None)
    del made["status"]
    assert seen(made).phase is Phase.PENDING


# More containers than one


@pytest.mark.parametrize("place", [0, 1], ids=["before", "behind"])
@pytest.mark.parametrize(
    ("state", "name"),
    [
        pytest.param({"running": {"startedAt": "2026-12-02T09:00:00Z"}}, "exit-0", id="runs-on"),
        pytest.param({"terminated": {"exitCode": 1, "reason": "Error"}}, "exit-0", id="failed"),
        pytest.param({"terminated": {"exitCode": 0, "reason": "Completed"}}, "exit-3", id="is-done"),
        pytest.param({"waiting": {"reason": "CrashLoopBackOff"}}, "force-deleted", id="crashes"),
    ],
)
def test_the_container_that_trains_decides_whatever_another_does(state, name, place):
    made, alone = pod(name), seen(pod(name))
    made["status"]["containerStatuses"].insert(place, {"name": "proxy", "state": state})
    assert end(seen(made)) == end(alone)


def test_a_sidecar_that_was_killed_at_the_end_is_no_failure():
    killed = [{"name": "proxy", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}]
    assert end(seen(pod("exit-0", initContainerStatuses=killed))) == ("succeeded", 0, "Completed", False, None)


# The replica's other fields


def test_a_replica_is_who_its_labels_say():
    made = pod("exit-0")
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": "1"}}
    replica = seen(made)
    assert (replica.job, replica.generation, replica.role, replica.index) == ("train", 3, Role.WORKER, 0)
    assert (replica.name, replica.uid, replica.namespace) == ("exit-0", made["metadata"]["uid"], "default")
    assert replica.node == made["spec"]["nodeName"]
    assert replica.resources == Resources.of("500m", devices={"nvidia.com/gpu": 1})
    assert replica.created_at == moment(made["metadata"]["creationTimestamp"])
    assert replica.created_at < replica.started_at <= replica.ended_at
    assert replica.started_at.tzinfo is UTC


def test_a_program_that_never_started_has_no_start():
    assert seen(pod("bad-command")).started_at is None


def test_a_replica_is_ready_when_its_pod_is():
    assert seen(running()).ready
    made = running()
    next(each for each in made["status"]["conditions"] if each["type"] == "Ready")["status"] = "False"
    assert not seen(made).ready
    assert not seen(running(), {made["spec"]["nodeName"]}).ready


@pytest.mark.parametrize("key", [JOB, GENERATION, ROLE, INDEX])
def test_a_pod_that_lacks_a_label_is_none_of_ours(key):
    made = pod("exit-0")
    del made["metadata"]["labels"][key]
    with pytest.raises(KeyError):
        seen(made)


@pytest.mark.parametrize(("key", "value"), [(GENERATION, "new"), (INDEX, ""), (ROLE, "boss")])
def test_a_pod_whose_label_says_nonsense_is_none_of_ours(key, value):
    made = pod("exit-0")
    made["metadata"]["labels"][key] = value
    with pytest.raises(ValueError):
        seen(made)


def test_looking_at_a_pod_changes_nothing():
    made = pod("preempted")
    before = copy.deepcopy(made)
    seen(made)
    assert made == before


def affinity(*fields):
    term = {"matchFields": [{"key": key, "operator": how, "values": values} for key, how, values in fields]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


NAME = "metadata.name"


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        pytest.param({}, "", id="free"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, "", id="no-requirement"),
        pytest.param(affinity((NAME, "In", ["a"])), "a", id="bound"),
        pytest.param(affinity((NAME, "NotIn", ["a"])), "", id="only-kept-off-a-node"),
        pytest.param(affinity((NAME, "NotIn", ["a"]), (NAME, "In", ["b"])), "b", id="kept-off-by-the-user"),
        pytest.param(affinity((NAME, "In", ["a"]), (NAME, "In", ["b"])), "b", id="ours-is-the-last"),
    ],
)
def test_the_node_that_a_pod_is_bound_to(spec, node):
    assert planned_node(spec) == node


def test_a_pod_without_a_node_is_counted_on_the_one_that_it_is_bound_to():
    made = pod("unschedulable")
    made["spec"] |= affinity((NAME, "In", ["b"]))
    assert seen(made).node == "b"
