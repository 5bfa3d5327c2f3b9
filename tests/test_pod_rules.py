"""What a job may say of pods; what it may not is refused by the name of its field."""

import copy
import datetime

import pytest

from optimus_core.errors import SpecificationError
from optimus_core.pod_rules import HIDDEN, Checkpoints, namespace, template, without_values

BASE = {"name": "base", "image": "registry/train:1.0"}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="empty"),
        pytest.param({"metadata": None, "spec": None}, id="bare-keys"),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "spec": {"serviceAccountName": "trainer"}}, id="a-whole-pod"),
        pytest.param({"spec": {"containers": [BASE, {"name": "proxy"}]}}, id="containers"),
        pytest.param({"spec": {"containers": None, "initContainers": None}}, id="bare-containers"),
        pytest.param({"spec": {"initContainers": [{"name": "fetch", "env": None}]}}, id="init-containers"),
        pytest.param({"metadata": {"labels": {"team": "a"}, "annotations": {"a/b": "c"}}}, id="labels"),
        pytest.param({"spec": {"nodeSelector": {"zone": "a"}, "schedulerName": "other"}}, id="other-fields"),
    ],
)
def test_a_template_is_a_part_of_a_pod(given):
    template(given, "pod")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param("x", 'worker_pod is "x"; it maps names to values', id="no-mapping"),
        pytest.param({"specs": {}}, '"specs" is no key of worker_pod. Did you mean "spec"?', id="unknown-key"),
        pytest.param({"status": {}}, '"status" is no key', id="a-status"),
        pytest.param({"spec": "x"}, 'worker_pod.spec is "x"', id="no-spec"),
        pytest.param({"metadata": ["x"]}, "worker_pod.metadata is", id="no-metadata"),
        pytest.param({"spec": {"containers": {"base": {}}}}, "worker_pod.spec.containers is no list", id="no-list"),
        pytest.param({"spec": {"containers": [{"image": "x"}]}}, "containers with names", id="without-a-name"),
        pytest.param({"spec": {"containers": ["base"]}}, "containers with names", id="only-a-name"),
        pytest.param({"spec": {"initContainers": ["x"]}}, "worker_pod.spec.initContainers is no list", id="init"),
        pytest.param(
            {"spec": {"containers": [BASE | {"env": ["A=1"]}]}},
            'env of "base" is no list of variables',
            id="env-of-texts",
        ),
        pytest.param({"spec": {"containers": [BASE | {"env": {"A": "1"}}]}}, "Write such as", id="env-as-a-mapping"),
        pytest.param(
            {"spec": {"initContainers": [{"name": "i", "env": [{"value": "1"}]}]}},
            'env of "i"',
            id="env-without-a-name",
        ),
        pytest.param({"metadata": {"labels": {"a": datetime.date(2026, 1, 1)}}}, "as JSON", id="a-date-of-yaml"),
        pytest.param({"spec": {"x": {1, 2}}}, "as JSON", id="a-set"),
    ],
)
def test_what_is_no_template_is_refused(given, text):
    with pytest.raises(SpecificationError) as caught:
        template(given, "worker_pod")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("part", "field"),
    [("metadata", field) for field in ("name", "generateName", "namespace", "ownerReferences", "finalizers")]
    + [
        ("spec", field)
        for field in ("restartPolicy", "hostname", "subdomain", "nodeName", "activeDeadlineSeconds")
    ],
)  # fmt: skip
def test_what_optimus_decides_is_refused_by_its_name(part, field):
    with pytest.raises(SpecificationError, match=rf"^pod\.{part}\.{field} is given, but Optimus decides it"):
        template({part: {field: None}}, "pod")


@pytest.mark.parametrize(
    ("given", "claim", "url"),
    [
        pytest.param({"claim": "training"}, "training", None, id="claim"),
        pytest.param({"claim": "training.v2"}, "training.v2", None, id="claim-with-a-dot"),
        pytest.param({"claim": "c" * 253}, "c" * 253, None, id="longest-claim"),
        pytest.param({"url": "s3://bucket/path"}, None, "s3://bucket/path", id="url"),
        pytest.param({"url": "gs://b", "claim": None}, None, "gs://b", id="the-other-is-bare"),
    ],
)
def test_checkpoints_lie_on_a_claim_or_at_a_url(given, claim, url):
    assert Checkpoints.read(given) == Checkpoints(claim, url)


def test_checkpoints_lie_on_a_claim_that_is_made_for_the_job():
    assert Checkpoints.read({"storage_class": "shared", "size": "10Gi"}) == Checkpoints(
        storage_class="shared", size="10Gi"
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param(None, "checkpoints is None", id="nothing"),
        pytest.param("training", 'checkpoints is "training"; it maps names to values', id="a-text"),
        pytest.param({}, "it is one place", id="no-place"),
        pytest.param({"claim": None}, "it is one place", id="a-bare-place"),
        pytest.param({"claim": "a", "url": "s3://b"}, "it is one place", id="two-places"),
        pytest.param({"pvc": "a"}, '"pvc" is no key of checkpoints', id="unknown-key"),
        pytest.param({"claim": "My Claim"}, 'checkpoints.claim is "My Claim", which is no name', id="no-name"),
        pytest.param({"claim": "a..b"}, "no name of a claim", id="two-dots"),
        pytest.param({"claim": "a-"}, "no name of a claim. Write such as {claim: training}.", id="a-dash-at-the-end"),
        pytest.param({"claim": "c" * 254}, "no name of a claim", id="too-long"),
        pytest.param({"claim": 3}, "checkpoints.claim is 3", id="a-number"),
        pytest.param({"claim": ""}, 'checkpoints.claim is ""', id="an-empty-name"),
        pytest.param({"url": "/data"}, 'checkpoints.url is "/data", which is no URL', id="a-path"),
        pytest.param({"url": "s3://a\nb"}, "no URL", id="two-lines"),
        pytest.param({"url": 5}, "checkpoints.url is 5", id="no-text"),
        pytest.param({"storage_class": "shared"}, "needs a size", id="a-class-without-a-size"),
        pytest.param(
            {"storage_class": "Fast One", "size": "1Gi"}, "no name of a StorageClass. Write one that", id="no-class"
        ),
        pytest.param({"storage_class": "shared", "size": "1GB"}, 'checkpoints.size is "1GB"', id="no-quantity"),
        pytest.param({"storage_class": "shared", "size": "0"}, "a claim asks for something", id="no-size"),
        pytest.param({"claim": "a", "size": "1Gi"}, "size belongs to storage_class", id="a-size-of-what-exists"),
        pytest.param({"claim": "a", "storage_class": "b"}, "it is one place", id="made-and-there"),
    ],
)
def test_no_place_for_checkpoints_is_refused(given, text):
    with pytest.raises(SpecificationError) as caught:
        Checkpoints.read(given)
    assert text in str(caught.value)


@pytest.mark.parametrize("value", [None, "training", "team-a", "0", "n" * 63])
def test_a_namespace_is_a_label(value):
    namespace(value)


@pytest.mark.parametrize("value", ["", "Training", "a.b", "a_b", "-a", "a-", "n" * 64, 3, "a\n", "tr\u00e4ning"])
def test_what_is_no_namespace_is_refused(value):
    with pytest.raises(SpecificationError, match=r"namespace is .* Write such as training"):
        namespace(value)


def test_no_value_of_a_variable_is_shown():
    reference = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    given = {
        "spec": {
            "containers": [BASE | {"env": [{"name": "TOKEN", "value": "s3cret"}, reference]}, {"name": "proxy"}],
            "initContainers": [{"name": "fetch", "env": [{"name": "PASSWORD", "value": ""}]}],
            "tolerations": [{"key": "gpu", "value": "kept"}],
        }
    }
    before = copy.deepcopy(given)
    shown = without_values(given)
    assert given == before
    assert "s3cret" not in str(shown)
    assert shown["spec"]["containers"][0]["env"] == [{"name": "TOKEN", "value": HIDDEN}, reference]
    assert shown["spec"]["initContainers"][0]["env"][0]["value"] == HIDDEN
    assert shown["spec"]["tolerations"] == given["spec"]["tolerations"]


@pytest.mark.parametrize(
    "given",
    [{}, {"spec": None}, {"spec": {"containers": None}}, {"spec": {"containers": [{"name": "a", "env": None}]}}],
)
def test_a_template_without_variables_is_shown_as_it_is(given):
    template(given, "pod")
    assert without_values(given) == given
