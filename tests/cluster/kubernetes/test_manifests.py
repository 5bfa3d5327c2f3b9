"""What is made in the cluster: the user's template with what Optimus needs on top, and names that the API takes."""

import copy
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.cluster.base import NodeInfo, ReplicaSpec, Role
from optimus_core.cluster.eligibility import Needs
from optimus_core.cluster.kubernetes import manifests
from optimus_core.cluster.kubernetes.requests import pod_requests
from optimus_core.cluster.kubernetes.status import Sight, planned_node, replica_of
from optimus_core.names import LABEL_LIMIT, group_name, job_name, replica_name
from optimus_core.resources import Resources

OWNER = {"metadata": {"name": "train-g3", "uid": "u-1"}}
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
RESOURCES = Resources.of("1500m", "2Gi", {"nvidia.com/gpu": 2})


def replica(job="train", role=Role.WORKER, index=0, generation=3, **more):
    given = {
        "node": "node-a", "resources": RESOURCES, "command": ("python", "train.py"), "env": {}, "grace_seconds": 30.0,
        "image": "registry/train:1.0",
    }  # fmt: skip
    return ReplicaSpec(
        name=replica_name(job, role, index, generation), job=job, generation=generation, role=role, index=index,
        **(given | more),
    )  # fmt: skip


def pod(template=None, owner=OWNER, **more):
    spec = replica(pod={"spec": template or {}}, **more)
    return manifests.pod(spec, group_name(spec.job, spec.generation), owner)


def base(made):
    return made["spec"]["containers"][0]


def terms(made):
    required = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return required["nodeSelectorTerms"]


# Names and labels


@given(st.text(st.characters()), st.sampled_from(Role), st.integers(0, 1023), st.integers(0, 99999))
def test_names_and_labels_are_valid_whatever_the_job_is_called(text, role, index, generation):
    job = job_name(text)
    spec = replica(job, role, index, generation, labels={"optimus/job": "7-20261202T092619000000"})
    made = manifests.pod(spec, group_name(job, generation), OWNER)
    service = manifests.service(group_name(job, generation), job, generation, OWNER)
    for value in {**made["metadata"]["labels"], **service["metadata"]["labels"]}.values():
        assert len(value) <= LABEL_LIMIT
        assert LABEL_VALUE.fullmatch(value)
    names = (made["metadata"]["name"], made["spec"]["hostname"], made["spec"]["subdomain"], service["metadata"]["name"])
    for name in names:
        assert len(name) <= LABEL_LIMIT
        assert DNS_1123.fullmatch(name)
    assert made["spec"]["subdomain"] == service["metadata"]["name"]


def test_a_label_that_is_too_long_is_left_out():
    labels = pod(labels={"long": "x" * 64, "short": "x" * 63})["metadata"]["labels"]
    assert "long" not in labels
    assert labels["short"] == "x" * 63


@pytest.mark.parametrize("role", list(Role))
def test_a_service_selects_the_pods_of_its_generation_and_no_others(role):
    selector = manifests.service("train-g3", "train", 3, OWNER)["spec"]["selector"].items()
    assert selector <= pod(role=role)["metadata"]["labels"].items()
    assert not selector <= pod(generation=4)["metadata"]["labels"].items()
    assert not selector <= pod(job="other")["metadata"]["labels"].items()


def test_a_service_gives_names_before_its_pods_are_ready():
    spec = manifests.service("train-g3", "train", 3, OWNER)["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)


def test_all_that_is_made_carries_the_labels_that_it_is_found_by():
    job = manifests.job_object("train", {"optimus/job": "7"})
    group = manifests.group_object("train-g3", "train", 3, {"metadata": {"name": "train", "uid": "u"}})
    key, value = manifests.SELECTOR.split("=")
    for made in (job, group, manifests.service("train-g3", "train", 3, OWNER), pod()):
        assert made["metadata"]["labels"][key] == value
        assert made["metadata"]["labels"].items() >= manifests.job_labels("train").items()
    assert group["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_a_pod_is_owned_by_its_generation_and_a_trial_by_nobody():
    (owner,) = pod()["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ConfigMap", "train-g3", "u-1")
    assert pod(owner=None)["metadata"]["ownerReferences"] == []


@pytest.mark.parametrize("role", list(Role))
def test_a_pod_is_read_back_as_the_replica_that_it_was_made_for(role):
    made = pod(role=role, index=5)
    made["metadata"] |= {"uid": "u"}
    seen = replica_of(made, Sight(datetime.now(UTC)))
    assert (seen.job, seen.generation, seen.role, seen.index) == ("train", 3, role, 5)
    assert (seen.name, seen.node, seen.resources) == (made["metadata"]["name"], "node-a", RESOURCES)


# The container that trains


def test_memory_and_devices_are_limited_and_idle_cpu_is_for_all():
    assert base(pod())["resources"] == {
        "requests": {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "2"},
        "limits": {"memory": "2Gi", "nvidia.com/gpu": "2"},
    }


def test_what_the_job_asks_for_stands_above_the_template_and_the_rest_stays():
    asked = {"requests": {"cpu": "9", "ephemeral-storage": "1Gi"}, "limits": {"cpu": "9", "memory": "9Gi"}}
    resources = base(pod({"containers": [{"name": "base", "resources": asked}]}))["resources"]
    assert resources["requests"]["cpu"] == "1500m"
    assert resources["requests"]["ephemeral-storage"] == "1Gi"
    assert resources["limits"] == {"cpu": "9", "memory": "2Gi", "nvidia.com/gpu": "2"}


def test_the_command_is_the_jobs():
    container = base(pod({"containers": [{"name": "base", "command": ["sleep"], "args": ["1"], "image": "x"}]}))
    assert (container["command"], container["args"], container["image"]) == (
        ["python", "train.py"], [], "registry/train:1.0",
    )  # fmt: skip


def test_image_and_folder_of_the_template_stand_when_the_job_names_none():
    template = {"containers": [{"name": "base", "image": "x", "workingDir": "/y"}]}
    assert (base(pod(template, image=None))["image"], base(pod(template))["workingDir"]) == ("x", "/y")
    assert base(pod(template, working_dir="/z"))["workingDir"] == "/z"


def test_our_variables_stand_above_those_of_the_template():
    reference = {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    template = {"containers": [{"name": "base", "env": [{"name": "MODE", "value": "fast"}, reference]}]}
    variables = base(pod(template, env={"RANK": "0", "WORLD_SIZE": "2"}))["env"]
    assert {"name": "MODE", "value": "fast"} in variables
    assert {"name": "RANK", "value": "0"} in variables
    assert [each["name"] for each in variables].count("RANK") == 1
    assert {"name": "WORLD_SIZE", "value": "2"} in variables


@given(st.lists(st.sampled_from(["proxy", "base", "logs"]), max_size=3, unique=True))
def test_the_container_that_trains_comes_first_and_those_of_the_user_stay_in_order(names):
    given = [{"name": name, "image": f"{name}:1"} for name in names]
    containers = pod({"containers": given})["spec"]["containers"]
    assert [each["name"] for each in containers] == ["base", *(name for name in names if name != "base")]
    assert [each for each in containers if each["name"] != "base"] == [each for each in given if each["name"] != "base"]


def test_what_the_user_adds_stays():
    template = {
        "serviceAccountName": "trainer",
        "volumes": [{"name": "data", "emptyDir": {}}],
        "initContainers": [{"name": "fetch", "image": "x"}, {"name": "proxy", "image": "y", "restartPolicy": "Always"}],
        "containers": [{"name": "base", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "tolerations": [{"operator": "Exists"}],
        "restartPolicy": "Always",
    }
    before = copy.deepcopy(template)
    made = pod(template)
    assert template == before
    for key in ("serviceAccountName", "initContainers", "tolerations"):
        assert made["spec"][key] == template[key]
    assert made["spec"]["volumes"][0] == template["volumes"][0]
    assert base(made)["volumeMounts"][0] == {"name": "data", "mountPath": "/data"}
    assert made["spec"]["restartPolicy"] == "Never"


def test_labels_and_annotations_of_the_template_stay_below_ours():
    template = {"metadata": {"labels": {"team": "a", "optimus/role": "boss"}, "annotations": {"note": "n"}}}
    metadata = manifests.pod(replica(pod=template), "train-g3", OWNER)["metadata"]
    assert (metadata["labels"]["team"], metadata["labels"]["optimus/role"]) == ("a", "worker")
    assert metadata["annotations"]["note"] == "n"


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": {"containers": None, "volumes": None}}])
def test_a_template_with_bare_keys_is_an_empty_one(template):
    assert base(manifests.pod(replica(pod=template), "train-g3", OWNER)) == base(pod())


# Volumes


def test_the_library_is_mounted_file_by_file_from_the_jobs_object():
    made = pod()
    (volume,) = made["spec"]["volumes"]
    keys = {item["key"] for item in volume["configMap"]["items"]}
    assert volume["configMap"]["name"] == "train"
    assert keys == set(manifests.job_object("train", {})["data"]) >= {"__init__.py"}
    assert {item["path"] for item in volume["configMap"]["items"]} == {f"optimus_train/{key}" for key in keys}
    assert base(made)["volumeMounts"] == [{"name": volume["name"], "mountPath": manifests.LIBRARY, "readOnly": True}]


def test_the_library_fits_in_its_object():
    data = manifests.job_object("train", {})["data"]
    assert sum(len(text.encode()) for text in data.values()) < 1 << 19  # an object takes 1 MiB
    assert all(re.fullmatch(r"[-._a-zA-Z0-9]+", key) for key in data)


def test_a_claim_for_checkpoints_is_mounted_and_none_without_one():
    made = pod(claim="training")
    (volume,) = [each for each in made["spec"]["volumes"] if "persistentVolumeClaim" in each]
    assert volume["persistentVolumeClaim"] == {"claimName": "training"}
    assert {"name": volume["name"], "mountPath": manifests.CHECKPOINTS} in base(made)["volumeMounts"]
    assert manifests.CHECKPOINTS not in str(pod())


@pytest.mark.parametrize(("grace", "seconds"), [(0, 1), (0.2, 1), (30.0, 30), (30.1, 31)])
def test_the_grace_period_is_whole_and_never_none(grace, seconds):
    assert pod(grace_seconds=grace)["spec"]["terminationGracePeriodSeconds"] == seconds


# The node

BOUND = {"key": "metadata.name", "operator": "In", "values": ["node-a"]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
SSD = {"key": "disk", "operator": "Exists"}


def affine(*given, **more):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(given)}}
    return {"affinity": {"nodeAffinity": required | more}}


@pytest.mark.parametrize(
    ("template", "want"),
    [
        pytest.param({}, [{"matchFields": [BOUND]}], id="none-of-the-users"),
        pytest.param({"affinity": None}, [{"matchFields": [BOUND]}], id="a-bare-affinity"),
        pytest.param({"affinity": {"nodeAffinity": None}}, [{"matchFields": [BOUND]}], id="a-bare-node-affinity"),
        pytest.param(
            affine({"matchExpressions": [ZONE]}), [{"matchExpressions": [ZONE], "matchFields": [BOUND]}], id="one-term"
        ),
        pytest.param(
            affine({"matchExpressions": [ZONE]}, {"matchExpressions": [SSD]}),
            [{"matchExpressions": [each], "matchFields": [BOUND]} for each in (ZONE, SSD)],
            id="each-of-two-terms-since-one-is-enough",
        ),
        pytest.param(
            affine({"matchFields": [{**BOUND, "operator": "NotIn", "values": ["node-b"]}]}),
            [{"matchFields": [{**BOUND, "operator": "NotIn", "values": ["node-b"]}, BOUND]}],
            id="fields-of-the-users",
        ),
    ],
)  # fmt: skip
def test_a_pod_is_bound_to_its_node_in_every_term(template, want):
    made = pod(template)
    assert terms(made) == want
    assert planned_node(made["spec"]) == "node-a"


@pytest.mark.parametrize("node", ["node-a", "node-b"])
def test_only_the_node_of_the_plan_is_accepted_whatever_the_user_allows(node):
    made = pod(affine({"matchExpressions": [ZONE]}, {"matchExpressions": [SSD]}))
    labels = {"zone": "a", "disk": "ssd"}
    assert Needs.of({}, made).accept(NodeInfo(node, Resources(), labels=labels)) == (node == "node-a")
    assert not Needs.of({}, made).accept(NodeInfo(node, Resources()))


def test_other_wishes_of_the_user_stay():
    template = affine(preferredDuringSchedulingIgnoredDuringExecution=[{"weight": 1}])
    template["affinity"]["podAffinity"] = {"x": 1}
    affinity = pod(template)["spec"]["affinity"]
    assert affinity["podAffinity"] == {"x": 1}
    assert affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == [{"weight": 1}]


def test_a_pod_without_a_node_is_free():
    assert "affinity" not in pod(node="")["spec"]


def test_binding_changes_nothing_of_the_template():
    template = affine({"matchExpressions": [ZONE]})
    before = copy.deepcopy(template)
    pod(template)
    pod(template, node="node-b")
    assert template == before


def test_a_pod_asks_for_what_its_job_asks_for():
    assert pod_requests(pod()["spec"]) == RESOURCES
