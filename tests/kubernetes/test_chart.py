"""The chart: what it renders, what it refuses, and what its account may do on a real cluster.

Those that only render need the program helm: from PATH, or built as the test cluster's other programs are.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from kubernetes import client, config

from optimus_core.cluster.base import ReplicaSpec, Role
from optimus_core.cluster.kubernetes import KubernetesCluster, manifests
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.errors import PermissionMissing, SpecificationError
from optimus_core.resources import Resources
from optimus_core.settings import Settings, load_clusters
from tests.cluster.testbed import PYTHON_IMAGE, Testbed, programs
from tests.conftest import until

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "optimus"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
IMAGE = {"repository": "registry.example.com/airflow", "tag": "3.3.0"}
LEAST: dict[str, Any] = {"image": IMAGE, "store": {"existingSecret": "store"}}
"""The values without which nothing is rendered."""
FULL: dict[str, Any] = {
    "commonLabels": {"team": "platform"},
    "image": IMAGE | {"digest": "sha256:" + "a" * 64},
    "imagePullSecrets": ["registry"],
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/optimus"}},
    "namespaces": ["training", "research"],
    "store": {"url": "postgresql://optimus:secret@db/optimus"},
    "settings": {"interval_seconds": 300, "min_gain_ratio": 0.5, "points_limit": 2000000, "deployment": 'a "b" <c>'},
    "checkpoints": {"create": True, "storageClassName": "nfs", "annotations": {"a": "b"}},
    "pod": {"annotations": {"a": "b"}, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]},
    "networkPolicy": {
        "enabled": True,
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 443}]}],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]}],
    },
    "podDisruptionBudget": {"enabled": True},
    "priorityClass": {"create": True},
    "dashboard": {"enabled": True, "annotations": {"grafana_folder": "Airflow"}},
}
VALUES: dict[str, dict[str, Any]] = {
    "least": LEAST,
    "full": FULL,
    "hook": LEAST | {"migration": {"hook": True}},
    "an account that is there": LEAST | {"serviceAccount": {"create": False, "name": "airflow-worker"}},
    "no permissions": LEAST | {"rbac": {"create": False}, "capacity": {"readAllPods": False}},
    "no pods": {"store": LEAST["store"], "migration": {"enabled": False}, "test": {"enabled": False}},
    "a claim": LEAST | {"checkpoints": {"existingClaim": "shared"}},
    "a claim for each job": LEAST | {"checkpoints": {"perJob": True, "storageClassName": "nfs", "size": "5Gi"}},
    "a bucket": LEAST | {"checkpoints": {"url": "s3://bucket/path"}},
}
IN_NAMESPACE = {
    "pods": {"get", "list", "create", "patch", "delete"},
    "pods/log": {"get"},
    "configmaps": {"get", "list", "create", "delete"},
    "services": {"get", "create"},
    "resourcequotas": {"list"},
    "limitranges": {"list"},
    "persistentvolumeclaims": {"get", "create", "delete"},
}
"""All that the account may do in a namespace of jobs."""
IN_CLUSTER = {"nodes": {"list"}, "pods": {"list"}}
SECURITY = {
    "allowPrivilegeEscalation": False,
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
Object = dict[str, Any]
Helm = Callable[..., subprocess.CompletedProcess[str]]
Render = Callable[..., list[Object]]


@pytest.fixture(scope="session")
def program() -> str:
    """The path of helm."""
    found = shutil.which("helm")
    if found:
        return found
    module = next(each for each in programs.MODULES if each.name == "helm")
    if not module.ready and not shutil.which("go"):
        pytest.skip("helm is neither installed nor built, and there is no Go to build it")
    return str(module.build() / "helm")


@pytest.fixture
def helm(program: str, tmp_path: Path) -> Helm:
    """Runs helm with values and returns what came of it."""

    def run(*words: str, values: Object | None = None) -> subprocess.CompletedProcess[str]:
        extra = []
        if values is not None:
            file = tmp_path / f"{uuid4().hex}.yaml"
            file.write_text(yaml.safe_dump(values))
            extra = ["--values", str(file)]
        environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        return subprocess.run([program, *words, *extra], capture_output=True, text=True, env=environ, check=False)

    return run


@pytest.fixture
def render(helm: Helm) -> Render:
    """Returns the objects that the chart makes of values."""

    def run(values: Object, release: str = "optimus", namespace: str = "airflow") -> list[Object]:
        words = ("template", release, str(CHART), "--namespace", namespace, "--kube-version", "1.34.0")
        done = helm(*words, values=values)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each]

    return run


def of_kind(objects: list[Object], *kinds: str) -> list[Object]:
    return [each for each in objects if each["kind"] in kinds]


def pod_specs(objects: list[Object]) -> list[Object]:
    jobs = [each["spec"]["template"]["spec"] for each in of_kind(objects, "Job")]
    return jobs + [each["spec"] for each in of_kind(objects, "Pod")]


def permissions(rules: list[Object]) -> dict[str, set[str]]:
    """Return resource -> verbs; every rule is of the core API and for all names."""
    found: dict[str, set[str]] = {}
    for rule in rules:
        assert set(rule) == {"apiGroups", "resources", "verbs"}
        assert rule["apiGroups"] == [""]
        for resource in rule["resources"]:
            found.setdefault(resource, set()).update(rule["verbs"])
    return found


# -- what is rendered ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_lint_finds_nothing(helm: Helm, values: Object) -> None:
    done = helm("lint", "--strict", str(CHART), "--kube-version", "1.34.0", values=values)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_every_object_has_a_fitting_name_and_the_labels(render: Render, values: Object) -> None:
    for release in ("optimus", "r" * 53):
        objects = render(values, release, "n" * 63)
        assert objects
        names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
        assert len(set(names)) == len(names)
        for each in objects:
            assert len(each["metadata"]["name"]) <= 63
            labels = each["metadata"]["labels"]
            assert labels["helm.sh/chart"] == "optimus-0.1.0"
            assert values.get("commonLabels", {}).items() <= labels.items()
            for label in ("name", "instance", "version", "managed-by", "part-of"):
                assert labels[f"app.kubernetes.io/{label}"]


def test_long_names_that_differ_at_their_ends_stay_different(render: Render) -> None:
    names = [
        {each["metadata"]["name"] for each in of_kind(render(LEAST, "r" * 52 + end, "n" * 63), "ClusterRole")}
        for end in "ab"
    ]
    assert names[0].isdisjoint(names[1])


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_every_container_is_shut_in_and_asks_for_what_it_needs(render: Render, values: Object) -> None:
    specs = pod_specs(render(values))
    assert len(specs) == (0 if "test" in values else 2)
    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert {kind for volume in spec["volumes"] for kind in volume} <= {"name", "emptyDir", "configMap"}
        assert "initContainers" not in spec
        for container in spec["containers"]:
            assert container["securityContext"] == SECURITY
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]


def test_only_the_test_gets_the_account_s_token(render: Render) -> None:
    migration, doctor = pod_specs(render(LEAST))
    assert migration["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in migration
    assert doctor["serviceAccountName"] == "optimus"


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_what_is_rendered_depends_on_the_values_alone(render: Render, values: Object) -> None:
    assert render(values) == render(values)


def test_no_template_looks_up_or_draws_lots() -> None:
    text = "".join(path.read_text() for path in CHART.glob("templates/**/*") if path.is_file())
    code = " ".join(re.findall(r"\{\{(?!-? */\*).*?\}\}", text, re.DOTALL))
    code = re.sub(r'"[^"]*"', "", code)
    assert re.findall(r"\b(lookup|rand\w+|uuidv4|gen[A-Z]\w+|now|htpasswd|env|expandenv)\b", code) == []
    assert ".Release.Revision" not in text
    assert ".Release.IsInstall" not in text


@pytest.mark.parametrize("namespaces", [[], ["training"], ["training", "research", "airflow"]])
def test_each_job_namespace_has_a_role_with_exactly_these_permissions(render: Render, namespaces: list[str]) -> None:
    objects = render(LEAST | {"namespaces": namespaces})
    roles, bindings = of_kind(objects, "Role"), of_kind(objects, "RoleBinding")
    wanted = namespaces or ["airflow"]
    assert [each["metadata"]["namespace"] for each in roles] == wanted
    assert [each["metadata"]["namespace"] for each in bindings] == wanted
    for role, binding in zip(roles, bindings, strict=True):
        assert permissions(role["rules"]) == IN_NAMESPACE
        assert binding["roleRef"]["kind"] == "Role"
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "optimus", "namespace": "airflow"}]


@pytest.mark.parametrize("all_pods", [True, False])
def test_in_the_cluster_only_nodes_and_pods_are_listed(render: Render, all_pods: bool) -> None:
    objects = render(LEAST | {"capacity": {"readAllPods": all_pods}})
    roles, bindings = of_kind(objects, "ClusterRole"), of_kind(objects, "ClusterRoleBinding")
    found = {key: verbs for role in roles for key, verbs in permissions(role["rules"]).items()}
    assert found == (IN_CLUSTER if all_pods else {"nodes": {"list"}})
    assert sorted(each["roleRef"]["name"] for each in bindings) == sorted(each["metadata"]["name"] for each in roles)
    assert all(each["subjects"][0]["name"] == "optimus" for each in bindings)


def test_an_account_that_is_there_gets_the_roles(render: Render) -> None:
    objects = render(VALUES["an account that is there"])
    assert of_kind(objects, "ServiceAccount") == []
    bindings = of_kind(objects, "RoleBinding", "ClusterRoleBinding")
    assert {each["subjects"][0]["name"] for each in bindings} == {"airflow-worker"}


# -- what Optimus reads of it -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "checkpoints"),
    [
        (FULL, {"claim": "optimus-checkpoints"}),
        (VALUES["a claim"], {"claim": "shared"}),
        (VALUES["a claim for each job"], {"storage_class": "nfs", "size": "5Gi"}),
        (VALUES["a bucket"], {"url": "s3://bucket/path"}),
        (LEAST, None),
    ],
    ids=["full", "claim", "claim for each job", "bucket", "none"],
)
def test_optimus_reads_the_configuration(
    render: Render, values: Object, checkpoints: Object | None, tmp_path: Path
) -> None:
    objects = render(values)
    files = next(each for each in of_kind(objects, "ConfigMap") if each["metadata"]["name"] == "optimus-config")["data"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    settings = Settings.load({"OPTIMUS_HOME": str(tmp_path), "AIRFLOW__OPTIMUS__DATABASE_URL": "postgresql://x@y/z"})
    assert settings.cluster == "kubernetes"
    for key, value in values.get("settings", {}).items():
        assert getattr(settings, key) == value
    declared = load_clusters(settings.clusters_file)["kubernetes"]
    spaces = values.get("namespaces", ["airflow"])
    assert declared.pop("checkpoints", None) == checkpoints
    assert declared == {"kind": "kubernetes", "in_cluster": True, "namespaces": spaces}


def test_the_url_of_the_store_comes_from_a_secret(render: Render) -> None:
    made = of_kind(render(FULL), "Secret")
    assert [each["metadata"]["name"] for each in made] == ["optimus-store"]
    assert base64.b64decode(made[0]["data"]["database_url"]).decode() == FULL["store"]["url"]
    assert of_kind(render(LEAST), "Secret") == []
    for values, name in ((FULL, "optimus-store"), (LEAST, "store")):
        for spec in pod_specs(render(values)):
            env = {each["name"]: each for each in spec["containers"][0]["env"]}
            asked = env["AIRFLOW__OPTIMUS__DATABASE_URL"]["valueFrom"]["secretKeyRef"]
            assert asked == {"name": name, "key": "database_url"}
    assert "secret@db" not in json.dumps(render(FULL))


def test_selectors_take_pods_of_jobs_and_none_of_the_chart_s(render: Render) -> None:
    objects = render(FULL)
    spec = ReplicaSpec("j-w0-g1", "j", 1, Role.WORKER, 0, "", Resources(), ("true",), {}, 5.0, image="i")
    ours = manifests.pod(spec, "j-g1", None)["metadata"]["labels"]
    theirs = [each["metadata"]["labels"] for each in objects]
    policies, budgets = of_kind(objects, "NetworkPolicy"), of_kind(objects, "PodDisruptionBudget")
    selectors = [each["spec"]["podSelector"] for each in policies] + [each["spec"]["selector"] for each in budgets]
    selectors += [each["spec"]["ingress"][0]["from"][0]["podSelector"] for each in policies]
    assert len(selectors) == 6
    for selector in selectors:
        assert _selects(selector, ours)
        assert not any(_selects(selector, labels) for labels in theirs)
    assert {each["metadata"]["namespace"] for each in policies + budgets} == {"training", "research"}
    assert all(isinstance(each["spec"]["minAvailable"], int) for each in budgets)


def _selects(selector: Object, labels: Object) -> bool:
    exist = [each["key"] for each in selector.get("matchExpressions", ()) if each["operator"] == "Exists"]
    assert len(exist) == len(selector.get("matchExpressions", ()))
    return selector["matchLabels"].items() <= labels.items() and labels.keys() >= set(exist)


def test_a_policy_opens_nothing_but_jobs_names_and_what_is_listed(render: Render) -> None:
    least = of_kind(render(LEAST | {"networkPolicy": {"enabled": True}}), "NetworkPolicy")[0]["spec"]
    assert least["policyTypes"] == ["Ingress", "Egress"]
    assert len(least["ingress"]) == 1
    jobs, names = least["egress"]
    assert [set(each) for each in jobs["to"]] == [{"podSelector"}]
    assert {(each["protocol"], each["port"]) for each in names["ports"]} == {("UDP", 53), ("TCP", 53)}
    full = of_kind(render(FULL), "NetworkPolicy")[0]["spec"]
    assert full["egress"][2:] == FULL["networkPolicy"]["egress"]
    assert full["ingress"][1:] == FULL["networkPolicy"]["ingress"]


def test_claims_are_shared_and_outlive_the_release(render: Render) -> None:
    claims = of_kind(render(FULL), "PersistentVolumeClaim")
    assert [each["metadata"]["namespace"] for each in claims] == ["training", "research"]
    for claim in claims:
        assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
        assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep", "a": "b"}
    loose = of_kind(render(LEAST | {"checkpoints": {"create": True, "keep": False}}), "PersistentVolumeClaim")
    assert "annotations" not in loose[0]["metadata"]
    assert "storageClassName" not in loose[0]["spec"]


def test_a_new_migration_is_made_exactly_when_it_changes(render: Render) -> None:
    def name(**more: Any) -> str:
        values = FULL | more
        return str(of_kind(render(values), "Job")[0]["metadata"]["name"])

    assert name() == name(dashboard={"enabled": False}, commonLabels={"team": "other"})
    assert name() == name(store={"url": "postgresql://optimus:other@db/optimus"}), "a hash would tell passwords"
    changed = [
        name(image=IMAGE | {"tag": "3.3.1"}),
        name(store={"url": "postgresql://optimus:secret@db/other"}),
        name(migration={"command": ["true"]}),
        name(),
    ]
    assert len(set(changed)) == 4


def test_the_hook_needs_nothing_that_the_chart_makes(render: Render) -> None:
    job = of_kind(render(VALUES["hook"]), "Job")[0]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    text = json.dumps(job["spec"])
    made = {each["metadata"]["name"] for each in of_kind(render(VALUES["hook"]), "ConfigMap", "Secret")}
    assert not any(f'"{name}"' in text for name in made)


def test_the_dashboard_reads_the_metrics_that_there_are(render: Render) -> None:
    for prefix in ("airflow_", "prod_"):
        objects = render(FULL | {"dashboard": {"enabled": True, "metricsPrefix": prefix}})
        found = next(each for each in objects if each["metadata"]["name"] == "optimus-dashboard")
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        board = json.loads(found["data"]["optimus.json"])
        asked = " ".join(target["expr"] for panel in board["panels"] for target in panel["targets"])
        names = set(re.findall(r"\w*optimus_\w+", asked))
        assert names == {
            prefix + name
            for name in (
                "optimus_jobs",
                "optimus_resizes_total",
                "optimus_jobs_ended_total",
                "optimus_model_fit_failures_total",
                "optimus_allocated_cpu_cores",
                "optimus_allocated_memory_bytes",
                "optimus_allocated_replicas",
                "optimus_allocated_devices",
                "optimus_scheduling_round_duration_seconds_sum",
                "optimus_scheduling_round_duration_seconds_count",
                "optimus_prediction_error_ratio_sum",
                "optimus_prediction_error_ratio_count",
            )
        }
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


# -- what is refused ----------------------------------------------------------------------------------------


def _levels(schema: Object, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Object]]:
    """Yield each object of the values: its path, with 0 for an entry of a list, and its schema."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    if schema.get("type") == "object":
        yield path, schema
        for key, inner in schema.get("properties", {}).items():
            yield from _levels(inner, (*path, key))
    elif schema.get("type") == "array":
        yield from _levels(schema["items"], (*path, 0))


LEVELS = dict(_levels(SCHEMA))
CLOSED = [path for path, schema in LEVELS.items() if schema.get("additionalProperties") is False]


def test_every_level_of_the_schema_is_closed_or_a_map_of_texts() -> None:
    texts = {"type": "string"}
    rest = {path for path, schema in LEVELS.items() if schema.get("additionalProperties") not in (False, texts)}
    assert rest == {("global",)}, "Helm itself hands that one to charts of charts"
    assert len(CLOSED) > 30


@pytest.mark.parametrize("path", CLOSED, ids=lambda path: ".".join(map(str, path)) or "the top")
def test_an_unknown_key_is_refused_at_each_level(helm: Helm, path: tuple[Any, ...]) -> None:
    values: Any = {"surprise": "x"}
    for part in reversed(path):
        values = [values] if part == 0 else {part: values}
    done = helm("template", "optimus", str(CHART), "--kube-version", "1.34.0", values=values)
    assert done.returncode != 0
    assert "additional properties 'surprise' not allowed" in done.stderr
    assert "/".join(map(str, path)) in done.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "There is no public image"),
        ({"image": {"repository": "r"}, "store": LEAST["store"]}, "image.tag and image.digest are empty"),
        ({"image": {"repository": "r", "tag": 3}}, "at '/image/tag': got number, want string"),
        ({"image": IMAGE}, "store.existingSecret and store.url are empty"),
        ({"image": IMAGE, "store": {"existingSecret": "a", "url": "postgresql://b"}}, "there is one store"),
        ({"image": IMAGE, "store": {"url": "mysql://u:hidden@db/x"}}, "names no PostgreSQL database"),
        (FULL | {"migration": {"hook": True}}, "the hook runs before the chart makes it"),
        (FULL | {"checkpoints": {"create": True, "url": "s3://b"}}, "checkpoints have one place"),
        (FULL | {"checkpoints": {"perJob": True, "url": "s3://b"}}, "checkpoints have one place"),
        (FULL | {"checkpoints": {"perJob": True}}, "Write checkpoints.storageClassName"),
        (LEAST | {"settings": {"interval": 1}}, "additional properties 'interval' not allowed"),
        (LEAST | {"settings": {"database_url": "x"}}, "additional properties 'database_url' not allowed"),
        (LEAST | {"settings": {"young_factor": 2}}, "/settings/young_factor"),
        (LEAST | {"pod": {"runAsUser": 0}}, "/pod/runAsUser"),
        (LEAST | {"namespaces": ["a", "a"]}, "/namespaces"),
        (LEAST | {"namespaces": ["Not A Name"]}, "/namespaces/0"),
        (LEAST | {"podDisruptionBudget": {"minAvailable": "50%"}}, "/podDisruptionBudget/minAvailable"),
        (LEAST | {"test": {"resources": {"requests": None}}}, "missing property 'requests'"),
    ],
)
def test_what_can_t_be_is_refused_with_what_to_write(helm: Helm, values: Object, message: str) -> None:
    done = helm("template", "optimus", str(CHART), "--kube-version", "1.34.0", values=values)
    assert done.returncode != 0
    assert message in done.stderr
    assert "hidden" not in done.stderr


# -- what is written about it -------------------------------------------------------------------------------


def _leaves(values: Object, path: str = "") -> Iterator[str]:
    for key, value in values.items():
        name = f"{path}{key}"
        if isinstance(value, dict) and value and key != "resources":
            yield from _leaves(value, f"{name}.")
        else:
            yield name


def test_the_readme_lists_every_value_and_no_other() -> None:
    rows = [line.split("|")[1] for line in (CHART / "README.md").read_text().splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert listed == set(_leaves(yaml.safe_load((CHART / "values.yaml").read_text())))


def test_the_values_for_airflow_name_what_the_chart_makes(render: Render) -> None:
    values = yaml.safe_load((CHART / "values-airflow-example.yaml").read_text())
    objects = render(FULL)
    made = {(each["kind"], each["metadata"]["name"]) for each in objects}
    for part in ("triggerer", "workers"):
        assert values[part]["serviceAccount"]["create"] is False
        assert ("ServiceAccount", values[part]["serviceAccount"]["name"]) in made
    assert [("Secret", each["secretName"]) in made for each in values["secret"]] == [True]
    volumes = {each["name"]: each for each in values["volumes"]}
    assert ("ConfigMap", volumes["optimus-config"]["configMap"]["name"]) in made
    doctor = pod_specs(objects)[1]["containers"][0]
    mounts = {(each["mountPath"], each.get("subPath")) for each in doctor["volumeMounts"]}
    assert {(each["mountPath"], each.get("subPath")) for each in values["volumeMounts"]} == mounts - {("/tmp", None)}
    bundles = json.loads(values["config"]["dag_processor"]["dag_bundle_config_list"])
    assert bundles[-1]["classpath"] == "optimus_airflow.bundle.OptimusDagBundle"


# -- on a real cluster --------------------------------------------------------------------------------------

DOCTOR = """
import os, ssl, urllib.request
assert os.getuid() == 50000
assert os.environ["AIRFLOW__OPTIMUS__DATABASE_URL"] == "postgresql://optimus@db/optimus"
home = os.environ["OPTIMUS_HOME"]
assert "in_cluster: true" in open(home + "/clusters.yaml").read()
assert "interval_seconds = 300" in open(home + "/config.toml").read()
os.makedirs(home + "/runtime/x")
try:
    open("/etc/x", "w")
except OSError as error:
    assert error.errno == 30, error
else:
    raise AssertionError("the root file system can be written")
account = "/var/run/secrets/kubernetes.io/serviceaccount"
request = urllib.request.Request("https://kubernetes.default.svc/api/v1/nodes")
request.add_header("Authorization", "Bearer " + open(account + "/token").read())
trust = ssl.create_default_context(cafile=account + "/ca.crt")
print("nodes answered", urllib.request.urlopen(request, context=trust).status)
"""
"""In place of `optimus doctor`, which the test cluster's image has not: what doctor needs is there."""
MIGRATE = """
import os
assert os.getuid() == 50000
assert os.environ["AIRFLOW__OPTIMUS__DATABASE_URL"] == "postgresql://optimus@db/optimus"
assert not os.path.exists("/var/run/secrets/kubernetes.io/serviceaccount")
"""
"""In place of `optimus db upgrade`, likewise."""


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api)


@pytest.fixture
def training(core: client.CoreV1Api) -> Iterator[str]:
    """A namespace of jobs that is not the release's."""
    name = f"optimus-training-{uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    until(lambda: any(each.metadata.name == "default" for each in core.list_namespaced_service_account(name).items))
    yield name
    core.delete_collection_namespaced_pod(name, grace_period_seconds=0)
    until(lambda: not core.list_namespaced_pod(name).items)
    core.delete_namespace(name)


@pytest.fixture
def volume(core: client.CoreV1Api, training: str) -> Iterator[str]:
    """A volume that the chart's claim will get."""
    name = f"checkpoints-{training}"
    host = {"path": f"/var/lib/optimus-test/{training}", "type": "DirectoryOrCreate"}
    bound = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "hostPath": host}
    wanted_by = {"name": "optimus-checkpoints", "namespace": training}
    core.create_persistent_volume({"metadata": {"name": name}, "spec": bound | {"claimRef": wanted_by}})
    yield name
    core.delete_persistent_volume(name)


@pytest.fixture
def installed(
    helm: Helm, testbed: Testbed, core: client.CoreV1Api, namespace: str, training: str, volume: str
) -> Iterator[Callable[..., str]]:
    """Installs or upgrades the release; the namespace takes only what the standard "restricted" allows."""
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.patch_namespace(namespace, {"metadata": {"labels": enforced}})
    core.create_namespaced_secret(
        namespace, {"metadata": {"name": "store"}, "stringData": {"database_url": "postgresql://optimus@db/optimus"}}
    )
    values: Object = {
        "image": {"repository": PYTHON_IMAGE.split(":")[0], "tag": PYTHON_IMAGE.split(":")[1]},
        "store": {"existingSecret": "store"},
        "namespaces": [training],
        "settings": {"interval_seconds": 300},
        "migration": {"command": ["python3", "-c", MIGRATE], "backoffLimit": 0},
        "test": {"command": ["python3", "-c", DOCTOR]},
        "checkpoints": {"create": True, "size": "1Gi"},
        "networkPolicy": {"enabled": True},
        "podDisruptionBudget": {"enabled": True},
        "priorityClass": {"create": True},
        "dashboard": {"enabled": True},
    }
    where = ("--namespace", namespace, "--kubeconfig", str(testbed.kubeconfig))

    def run(*words: str, **more: Any) -> str:
        waiting = ("--wait", "--wait-for-jobs", "--timeout", "120s")
        change = words[0] in ("install", "upgrade")
        chart = ("optimus", str(CHART), *waiting) if change else ("optimus",)
        done = helm(words[0], *chart, *words[1:], *where, values=values | more if change else None)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    yield run
    helm("uninstall", "optimus", "--ignore-not-found", *where)


def _left(api: client.ApiClient, namespace: str, training: str) -> set[tuple[str, str]]:
    """Return what of the chart is in the cluster."""
    core, rbac, batch = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api), client.BatchV1Api(api)
    net, policy, scheduling = client.NetworkingV1Api(api), client.PolicyV1Api(api), client.SchedulingV1Api(api)
    chart = {"label_selector": "app.kubernetes.io/part-of=optimus,app.kubernetes.io/managed-by=Helm"}
    found = []
    for space in (namespace, training):
        found += core.list_namespaced_config_map(space, **chart).items
        found += core.list_namespaced_service_account(space, **chart).items
        found += core.list_namespaced_secret(space, **chart).items
        found += core.list_namespaced_pod(space, label_selector="app.kubernetes.io/name=optimus").items
        found += core.list_namespaced_persistent_volume_claim(space, **chart).items
        found += batch.list_namespaced_job(space, **chart).items
        found += (
            rbac.list_namespaced_role(space, **chart).items + rbac.list_namespaced_role_binding(space, **chart).items
        )
        found += net.list_namespaced_network_policy(space, **chart).items
        found += policy.list_namespaced_pod_disruption_budget(space, **chart).items
    wide = rbac.list_cluster_role(**chart).items + rbac.list_cluster_role_binding(**chart).items
    wide += scheduling.list_priority_class(**chart).items
    found += [each for each in wide if each.metadata.name.startswith(f"{namespace}-")]
    return {(type(each).__name__, each.metadata.name) for each in found}


@pytest.mark.smoke
def test_it_is_installed_tested_upgraded_and_uninstalled(
    installed: Callable[..., str], api: client.ApiClient, core: client.CoreV1Api, namespace: str, training: str
) -> None:
    """The image has no Optimus: both commands are replaced by checks of what the real ones need."""
    batch = client.BatchV1Api(api)
    notes = installed("install")
    assert f"helm test optimus --namespace {namespace}" in notes
    jobs = [each.metadata.name for each in batch.list_namespaced_job(namespace).items]
    assert len(jobs) == 1
    assert batch.read_namespaced_job(jobs[0], namespace).status.succeeded == 1
    assert core.read_namespaced_persistent_volume_claim("optimus-checkpoints", training).status.phase == "Bound"
    assert "Phase:          Succeeded" in installed("test", "--timeout", "120s")

    installed("upgrade", capacity={"readAllPods": False}, migration={"command": ["python3", "-c", "0"]})
    after = [each.metadata.name for each in batch.list_namespaced_job(namespace).items]
    assert len(after) == 1
    assert after != jobs, "what is done has changed"
    assert ("V1ClusterRole", f"{namespace}-optimus-pods") not in _left(api, namespace, training)
    assert "Phase:          Succeeded" in installed("test", "--timeout", "120s")

    installed("uninstall", "--wait")
    kept = {("V1PersistentVolumeClaim", "optimus-checkpoints")}
    until(lambda: _left(api, namespace, training) == kept)


class Recorded:
    """A connection that notes which permission each call needs."""

    def __init__(self, connection: client.ApiClient) -> None:
        self.connection = connection
        self.used: set[tuple[str, str, str]] = set()
        """Namespace or nothing, resource, verb."""

    def call_api(self, path: str, method: str, *words: Any, **more: Any) -> Any:
        """Note a call and make it."""
        parts = path.removeprefix("/api/v1/").split("/")
        space, rest = (parts[1], parts[2:]) if parts[0] == "namespaces" else ("", parts)
        resource = "/".join([rest[0], *rest[2:]])
        verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "GET": "get" if len(rest) > 1 else "list"}
        self.used.add((space, resource, verb[method]))
        return self.connection.call_api(path, method, *words, **more)


@pytest.fixture
def account(
    installed: Callable[..., str], testbed: Testbed, core: client.CoreV1Api, namespace: str
) -> Iterator[client.ApiClient]:
    """The official client with a token of the chart's account, and nothing else."""
    installed("install")
    body = {"spec": {"expirationSeconds": 3600}}
    token = core.create_namespaced_service_account_token("optimus", namespace, body).status.token
    settings = client.Configuration()
    config.load_kube_config(str(testbed.kubeconfig), client_configuration=settings)
    settings.cert_file = settings.key_file = None
    settings.api_key = {"authorization": f"Bearer {token}", "BearerToken": f"Bearer {token}"}
    settings.refresh_api_key_hook = None
    with client.ApiClient(settings) as made:
        review = client.AuthenticationV1Api(made).create_self_subject_review({})
        assert review.status.user_info.username == f"system:serviceaccount:{namespace}:optimus"
        yield made


@pytest.mark.smoke
def test_the_account_may_do_all_that_optimus_does_and_optimus_does_all_that_it_may(
    account: client.ApiClient, core: client.CoreV1Api, training: str
) -> None:
    recorded = Recorded(account)
    cluster = KubernetesCluster("kube", Api("kube", recorded), [training])  # type: ignore[arg-type]
    until(lambda: _allowed(account, "create", "pods", training))
    assert any(node.ready for node in cluster.nodes())
    code = "import time; print('hello', flush=True); time.sleep(600)"
    specs = [_spec(f"j-w{index}-g1", index, code) for index in range(2)]
    cluster.check(specs)
    with pytest.raises(SpecificationError):  # it is looked for what refuses it
        cluster.trial([replace(specs[0], image=" a space before it")])
    for _ in range(2):  # what is there stays as it is
        cluster.create("j-g1", specs)
    replicas = until(lambda: len(found := [r for r in cluster.list("j") if r.started_at]) == 2 and found, 60)
    until(lambda: cluster.output(replicas[0], None).lines)
    cluster.delete(replicas[:1])
    cluster.delete(replicas[1:], grace_seconds=0)
    until(lambda: all(each.phase.ended for each in cluster.list("j")), 60)
    cluster.forget("j")
    own = [replace(specs[0], name="k-w0-g1", job="k", claim="k-checkpoints", claim_made_of=MADE_OF)]
    cluster.create("k-g1", own)
    cluster.delete(cluster.list("k"))
    cluster.forget("k")
    assert cluster.discard_checkpoints("k", None)
    until(lambda: not core.list_namespaced_pod(training).items, 60)
    until(lambda: "j-g1" not in [each.metadata.name for each in core.list_namespaced_service(training).items], 60)

    granted = {(training, resource, verb) for resource, verbs in IN_NAMESPACE.items() for verb in verbs}
    granted |= {("", resource, verb) for resource, verbs in IN_CLUSTER.items() for verb in verbs}
    assert recorded.used == granted


MADE_OF = {"storage_class": "none-such", "size": "1Gi", "mode": "ReadWriteMany"}


def _spec(name: str, index: int, code: str) -> ReplicaSpec:
    return ReplicaSpec(
        name=name,
        job="j",
        generation=1,
        role=Role.WORKER,
        index=index,
        node="",
        resources=Resources.of(cpu="100m", memory="32Mi"),
        command=("python3", "-u", "-c", code),
        env={},
        grace_seconds=1,
        image=PYTHON_IMAGE,
        claim="optimus-checkpoints",
    )


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RESOURCES = (
    *IN_NAMESPACE,
    *("pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "pods/eviction", "pods/ephemeralcontainers"),
    *("pods/status", "pods/binding", "secrets", "serviceaccounts", "serviceaccounts/token", "events", "endpoints"),
    *("nodes", "nodes/proxy", "namespaces", "persistentvolumes", "services/proxy", "configmaps/x"),
)
OTHERS = (
    ("apps", "deployments"),
    ("batch", "jobs"),
    ("rbac.authorization.k8s.io", "roles"),
    ("policy", "*"),
    ("*", "*"),
)


def _allowed(api: client.ApiClient, verb: str, resource: str, namespace: str, group: str = "") -> bool:
    main, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": main, "subresource": sub, "namespace": namespace}
    review = client.AuthorizationV1Api(api).create_self_subject_access_review(
        {"spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}}}
    )
    return bool(review.status.allowed)


def test_the_account_may_do_nothing_else(account: client.ApiClient, namespace: str, training: str) -> None:
    until(lambda: _allowed(account, "create", "pods", training))
    wide = {(resource, verb) for resource, verbs in IN_CLUSTER.items() for verb in verbs}
    inside = {(resource, verb) for resource, verbs in IN_NAMESPACE.items() for verb in verbs}
    for space, expected in ((training, inside | wide), (namespace, wide), ("kube-system", wide), ("", wide)):
        found = {(each, verb) for each in RESOURCES for verb in VERBS if _allowed(account, verb, each, space)}
        assert found == expected, space or "the cluster"
        assert not [
            (group, verb) for group, each in OTHERS for verb in VERBS if _allowed(account, verb, each, space, group)
        ]
    mine = client.CoreV1Api(account)
    for call in (
        lambda: mine.list_namespaced_secret(training),
        lambda: mine.list_namespaced_config_map(namespace),
        lambda: mine.delete_node("node-a", dry_run="All"),
        lambda: mine.connect_get_namespaced_pod_exec("x", training, command="id"),
    ):
        with pytest.raises(client.exceptions.ApiException) as refused:
            call()
        assert refused.value.status == 403


def test_without_the_pods_of_others_the_nodes_are_still_read(
    account: client.ApiClient, installed: Callable[..., str], training: str, caplog: pytest.LogCaptureFixture
) -> None:
    installed("upgrade", capacity={"readAllPods": False})
    until(lambda: not _allowed(account, "list", "pods", ""))
    cluster = KubernetesCluster("kube", Api("kube", account), [training])
    assert any(node.ready for node in cluster.nodes())
    assert "Optimus may not list pods at the cluster scope" in caplog.text
    with pytest.raises(PermissionMissing):
        next(Api("kube", account).items("/api/v1/pods"))
