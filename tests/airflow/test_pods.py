from __future__ import annotations

import inspect
import json

import pytest
import yaml
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.secret import Secret
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from kubernetes.client import models as k8s
from optimus_airflow import pod_arguments, pod_clusters, pod_refusals, settings
from optimus_airflow.driving import event_of
from optimus_airflow.operators import AllReduce, OptimusTrainingOperator, ParameterServer, Replicas

from optimus_core.engine.drive import drive_to_end
from optimus_core.engine.launch import pod_template
from optimus_core.errors import ClusterUnavailable, SpecificationError
from optimus_core.job import TrainingJob
from optimus_core.roles import Role

ONE = Replicas(cpu="500m", memory="64Mi")


def make(**more):
    more = {"command": ["python", "train.py"], "strategy": ParameterServer(), "workers": ONE, "servers": ONE} | more
    return OptimusTrainingOperator(task_id=more.pop("task_id", "train"), **more)


def job(**more) -> TrainingJob:
    return make(**more).training_job()


def base(template: dict) -> dict:
    (found,) = [each for each in template["spec"]["containers"] if each["name"] == "base"]
    return found


# argument, as objects of the client, as plain data, where in the pod
SPEC = [
    (
        "affinity",
        k8s.V1Affinity(
            node_affinity=k8s.V1NodeAffinity(
                required_during_scheduling_ignored_during_execution=k8s.V1NodeSelector(
                    [k8s.V1NodeSelectorTerm([k8s.V1NodeSelectorRequirement("gpu", "In", values=["a100"])])]
                )
            )
        ),
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]}]
                }
            }
        },
        "affinity",
    ),
    ("automount_service_account_token", False, False, "automountServiceAccountToken"),
    ("dns_config", k8s.V1PodDNSConfig(nameservers=["1.1.1.1"]), {"nameservers": ["1.1.1.1"]}, "dnsConfig"),
    ("dnspolicy", "None", "None", "dnsPolicy"),
    ("host_aliases", [k8s.V1HostAlias(["a"], "10.0.0.1")], [{"ip": "10.0.0.1", "hostnames": ["a"]}], "hostAliases"),
    ("image_pull_secrets", [k8s.V1LocalObjectReference("pull")], [{"name": "pull"}], "imagePullSecrets"),
    (
        "init_containers",
        [k8s.V1Container(name="data", image="get:1", image_pull_policy="Always")],
        [{"name": "data", "image": "get:1", "imagePullPolicy": "Always"}],
        "initContainers",
    ),
    ("node_selector", {"zone": "a"}, {"zone": "a"}, "nodeSelector"),
    ("priority_class_name", "high", "high", "priorityClassName"),
    ("runtime_class_name", "nvidia", "nvidia", "runtimeClassName"),
    ("schedulername", "volcano", "volcano", "schedulerName"),
    ("security_context", k8s.V1PodSecurityContext(fs_group=7), {"fsGroup": 7}, "securityContext"),
    ("service_account_name", "trainer", "trainer", "serviceAccountName"),
    (
        "tolerations",
        [k8s.V1Toleration(key="gpu", operator="Exists", toleration_seconds=5)],
        [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}],
        "tolerations",
    ),
    (
        "volumes",
        [k8s.V1Volume(name="data", persistent_volume_claim=k8s.V1PersistentVolumeClaimVolumeSource("digits"))],
        [{"name": "data", "persistentVolumeClaim": {"claimName": "digits"}}],
        "volumes",
    ),
]
BASE = [
    (
        "container_security_context",
        k8s.V1SecurityContext(run_as_user=1000),
        {"runAsUser": 1000},
        "securityContext",
    ),
    (
        "env_from",
        [k8s.V1EnvFromSource(config_map_ref=k8s.V1ConfigMapEnvSource("hyper"))],
        [{"configMapRef": {"name": "hyper"}}],
        "envFrom",
    ),
    ("image_pull_policy", "Always", "Always", "imagePullPolicy"),
    ("ports", [k8s.V1ContainerPort(9000)], [{"containerPort": 9000}], "ports"),
    (
        "volume_mounts",
        [k8s.V1VolumeMount("/data", name="data")],
        [{"name": "data", "mountPath": "/data"}],
        "volumeMounts",
    ),
]
METADATA = [("labels", {"team": "a"}, {"team": "a"}, "labels"), ("annotations", {"x": "1"}, {"x": "1"}, "annotations")]


@pytest.mark.parametrize("form", [1, 2], ids=["objects", "data"])
@pytest.mark.parametrize("row", SPEC, ids=lambda row: row[0])
def test_what_is_of_the_pod(row, form):
    assert job(**{row[0]: row[form]}).pod == {"spec": {row[3]: row[2]}}


@pytest.mark.parametrize("form", [1, 2], ids=["objects", "data"])
@pytest.mark.parametrize("row", BASE, ids=lambda row: row[0])
def test_what_is_of_the_container(row, form):
    assert job(**{row[0]: row[form]}).pod == {"spec": {"containers": [{"name": "base", row[3]: row[2]}]}}


@pytest.mark.parametrize("row", METADATA, ids=lambda row: row[0])
def test_what_is_of_the_metadata(row):
    assert job(**{row[0]: row[1]}).pod == {"metadata": {row[3]: row[2]}}


def test_all_at_once_makes_pods_that_the_client_reads():
    rows = [*SPEC, *BASE, *METADATA]
    both = [job(image="i", **{row[0]: row[form] for row in rows}) for form in (1, 2)]
    assert both[0] == both[1]
    assert both[0].specification_hash == both[1].specification_hash
    from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator

    pod = PodGenerator.deserialize_model_dict(both[0].pod)
    assert pod_arguments.plain(pod) == both[0].pod
    assert TrainingJob.from_dict(json.loads(json.dumps(both[0].to_dict()))) == both[0]


def test_what_is_not_given_adds_nothing():
    assert (job().pod, job().worker_pod, job().server_pod) == ({}, {}, {})
    assert job(volumes=[], labels={}, tolerations=None).pod == {}
    assert (job().grace_seconds, job().start_timeout, job().hang_timeout) == (30, 300, None)
    assert job(hang_timeout=900).hang_timeout == 900


def test_fields_of_the_job():
    made = job(namespace="ml", startup_timeout_seconds=90, termination_grace_period=45, checkpoints={"url": "s3://b/x"})
    assert (made.namespace, made.start_timeout, made.grace_seconds) == ("ml", 90, 45)
    assert made.checkpoints == {"url": "s3://b/x"}
    assert made.pod == {}


@pytest.mark.parametrize(
    "given",
    [
        {"A": "1", "B": "2"},
        [k8s.V1EnvVar("A", "1"), k8s.V1EnvVar("B", "2")],
        [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    ],
    ids=["dict", "objects", "data"],
)
def test_variables_join_env(given):
    made = job(env={"C": "3"}, env_vars=given)
    assert made.env == {"A": "1", "B": "2", "C": "3"}
    assert made.pod == {}


def test_variables_that_are_references_stay_references():
    source = k8s.V1EnvVarSource(field_ref=k8s.V1ObjectFieldSelector(field_path="status.hostIP"))
    made = job(env_vars=[k8s.V1EnvVar("HOST", value_from=source), k8s.V1EnvVar("A", "1"), k8s.V1EnvVar("EMPTY")])
    assert made.env == {"A": "1", "EMPTY": ""}
    assert base(made.pod)["env"] == [{"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]


def test_secrets_are_references():
    made = job(
        volumes=[{"name": "data", "emptyDir": {}}],
        configmaps=["hyper"],
        secrets=[
            Secret("env", "token", "tokens", "hub"),
            Secret("env", None, "all"),
            Secret("volume", "/keys", "keys", items=[k8s.V1KeyToPath(key="a", path="b")]),
        ],
    )
    assert base(made.pod) == {
        "name": "base",
        "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "hub"}}}],
        "envFrom": [{"configMapRef": {"name": "hyper"}}, {"secretRef": {"name": "all"}}],
        "volumeMounts": [{"name": "optimus-secret-2", "mountPath": "/keys", "readOnly": True}],
    }
    keys = {"secretName": "keys", "items": [{"key": "a", "path": "b"}]}
    assert made.pod["spec"]["volumes"] == [
        {"name": "data", "emptyDir": {}},
        {"name": "optimus-secret-2", "secret": keys},
    ]


def test_pull_secrets_as_a_text():
    assert job(image_pull_secrets="a, b").pod["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]


TEMPLATE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "placeholder", "namespace": "low", "labels": {"a": "template", "b": "template"}},
    "spec": {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 77,
        "serviceAccountName": "template",
        "priorityClassName": "template",
        "nodeSelector": {"zone": "template"},
        "tolerations": [{"key": "template", "operator": "Exists"}],
        "containers": [
            {
                "name": "base",
                "image": "template:1",
                "env": [{"name": "A", "value": "template"}, {"name": "B", "value": "template"}],
                "volumeMounts": [{"name": "x", "mountPath": "/template"}],
                "envFrom": [{"secretRef": {"name": "template"}}],
            },
            {"name": "side", "image": "side:1"},
        ],
        "volumes": [{"name": "x", "emptyDir": {}}],
    },
}
FULL = k8s.V1Pod(
    metadata=k8s.V1ObjectMeta(name="full", namespace="middle", labels={"b": "full"}),
    spec=k8s.V1PodSpec(service_account_name="full", containers=[k8s.V1Container(name="base", image="full:1")]),
)


@pytest.fixture(params=["file", "dict"])
def template(request, tmp_path):
    if request.param == "dict":
        return {"pod_template_dict": TEMPLATE}
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(TEMPLATE))
    return {"pod_template_file": str(tmp_path / "pod.yaml")}


def test_a_template_stands_below_a_full_specification_and_that_below_arguments(template):
    made = job(**template)
    assert (made.namespace, made.grace_seconds, made.image) == ("low", 77, None)
    assert made.pod["metadata"] == {"labels": {"a": "template", "b": "template"}}
    assert {"restartPolicy", "terminationGracePeriodSeconds"}.isdisjoint(made.pod["spec"])

    made = job(**template, full_pod_spec=FULL)
    assert (made.namespace, base(made.pod)["image"]) == ("middle", "full:1")
    assert made.pod["metadata"] == {"labels": {"a": "template", "b": "full"}}
    assert made.pod["spec"]["serviceAccountName"] == "full"
    assert made.pod["spec"]["priorityClassName"] == "template"

    made = job(
        **template,
        full_pod_spec=FULL,
        namespace="high",
        image="high:1",
        grace_seconds=5,
        service_account_name="high",
        labels={"c": "high"},
        node_selector={"gpu": "high"},
        tolerations=[{"key": "high", "operator": "Exists"}],
        env={"A": "high"},
        volumes=[{"name": "y", "emptyDir": {}}],
        volume_mounts=[{"name": "y", "mountPath": "/high"}],
        env_from=[{"secretRef": {"name": "high"}}],
    )
    assert (made.namespace, made.image, made.grace_seconds, made.env) == ("high", "high:1", 5, {"A": "high"})
    spec = made.pod["spec"]
    assert made.pod["metadata"]["labels"] == {"a": "template", "b": "full", "c": "high"}
    assert (spec["serviceAccountName"], spec["nodeSelector"]) == ("high", {"gpu": "high"})
    assert spec["tolerations"] == [{"key": "high", "operator": "Exists"}]
    assert [each["name"] for each in spec["volumes"]] == ["x", "y"]
    assert [each["name"] for each in spec["containers"]] == ["base", "side"]
    assert base(made.pod)["env"] == [{"name": "B", "value": "template"}]
    assert [each["mountPath"] for each in base(made.pod)["volumeMounts"]] == ["/template", "/high"]
    assert [each["secretRef"]["name"] for each in base(made.pod)["envFrom"]] == ["template", "high"]
    assert TEMPLATE["spec"]["nodeSelector"] == {"zone": "template"}, "what the user gave is not changed"


def test_precedence_is_that_of_the_pod_operator(template):
    """The real one reconciles the same arguments; what both decide is the same."""
    arguments = {
        "full_pod_spec": FULL,
        "labels": {"c": "high"},
        "node_selector": {"gpu": "high"},
        "service_account_name": "high",
        "tolerations": [k8s.V1Toleration(key="high", operator="Exists")],
        "affinity": SPEC[0][1],
        "env_from": [k8s.V1EnvFromSource(secret_ref=k8s.V1SecretEnvSource("high"))],
        "volumes": [k8s.V1Volume(name="y", empty_dir=k8s.V1EmptyDirVolumeSource())],
        "container_security_context": k8s.V1SecurityContext(run_as_user=1),
        "init_containers": [k8s.V1Container(name="data", image="get:1")],
    }
    theirs = pod_arguments.plain(
        KubernetesPodOperator(task_id="t", **template, **arguments).build_pod_request_obj(dry_run=True)
    )
    ours = job(**template, **arguments).pod
    for part in ("serviceAccountName", "nodeSelector", "tolerations", "affinity", "volumes", "initContainers",
                 "priorityClassName"):  # fmt: skip
        assert ours["spec"][part] == theirs["spec"][part], part
    for key in ("image", "env", "envFrom", "volumeMounts", "securityContext"):
        assert base(ours)[key] == base(theirs)[key], key
    assert ours["metadata"]["labels"].items() <= theirs["metadata"]["labels"].items()


def test_the_first_container_trains_if_none_is_called_base():
    spec = {"containers": [{"name": "main", "image": "i:1"}, {"name": "side", "image": "s:1"}]}
    assert [each["name"] for each in job(pod_template_dict={"spec": spec}).pod["spec"]["containers"]] == [
        "base",
        "side",
    ]
    assert spec["containers"][0]["name"] == "main"


def test_workers_and_servers_may_differ():
    made = job(
        image="both:1",
        labels={"a": "both"},
        worker_pod=k8s.V1Pod(
            spec=k8s.V1PodSpec(runtime_class_name="nvidia", containers=[k8s.V1Container(name="base", image="gpu:1")])
        ),
        server_pod={"spec": {"nodeSelector": {"memory": "large"}}},
    )
    worker, server = pod_template(made, Role.WORKER), pod_template(made, Role.SERVER)
    assert (base(worker)["image"], base(server)["image"]) == ("gpu:1", "both:1")
    assert made.image is None, "it would stand above what is said of workers"
    assert (worker["spec"].get("runtimeClassName"), server["spec"].get("runtimeClassName")) == ("nvidia", None)
    assert server["spec"]["nodeSelector"] == {"memory": "large"}
    assert worker["metadata"] == server["metadata"] == {"labels": {"a": "both"}}


def test_the_folder_of_the_dag_counts_only_outside_of_images():
    with DAG("d") as dag:
        tasks = {
            "none": make(task_id="none"),
            "image": make(task_id="image", image="i:1"),
            "template": make(task_id="template", pod_template_dict=TEMPLATE),
            "role": make(task_id="role", worker_pod={"spec": {"containers": [{"name": "base", "workingDir": "/w"}]}}),
            "given": make(task_id="given", image="i:1", working_dir="/srv"),
        }
    dag.fileloc = "/dags/d.py"
    assert {name: task.training_job().working_dir for name, task in tasks.items()} == {
        "none": "/dags", "image": None, "template": None, "role": None, "given": "/srv",
    }  # fmt: skip


CONTAINER = {"name": "base"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pod_template_dict": {"spec": {"nodeName": "n"}}}, r"pod_template_dict\.spec\.nodeName is given"),
        ({"worker_pod": {"metadata": {"namespace": "x"}}}, r"worker_pod\.metadata\.namespace is given"),
        ({"pod_template_dict": {"spec": {"restartPolicy": "Always"}}}, "restartPolicy is given"),
        ({"full_pod_spec": {"spec": {"hostNetwork": True}}}, "hostNetwork is given.*same port"),
        ({"server_pod": {"spec": {"terminationGracePeriodSeconds": 3}}}, "Write grace_seconds"),
        (
            {"pod_template_dict": {"spec": {"containers": [CONTAINER | {"args": ["a", "b"]}]}}},
            r'Write command=\["a", "b"\]',
        ),
        (
            {"worker_pod": {"spec": {"containers": [CONTAINER | {"resources": {"limits": {"nvidia.com/gpu": 1}}}]}}},
            r'"nvidia.com/gpu", which Optimus counts.*workers=Replicas',
        ),
        ({"pod_template_dict": {"sepc": {}}}, '"sepc" is no key of pod_template_dict. Did you mean "spec"'),
        ({"pod_template_dict": {"spec": {}}, "pod_template_file": __file__}, "Write one of them"),
        ({"volumes": {"name": "x"}}, "volumes is of type dict; it is a list"),
        ({"volumes": ["data"]}, "volumes is of type list; it is a list of objects"),
        ({"security_context": {"run_as_user": 1}}, 'security_context has the key "run_as_user".*Write "runAsUser"'),
        ({"labels": {"a": 1}}, r'labels\["a"\] is of type int'),
        ({"service_account_name": 3}, "service_account_name is 3"),
        ({"automount_service_account_token": "no"}, "Write True or False"),
        ({"configmaps": "hyper"}, "configmaps is of type str; it is a list"),
        ({"secrets": ["token"]}, r'secrets\[0\] is of type str. Write such as Secret\("env"'),
        ({"namespace": "A B"}, "namespace is"),
        ({"checkpoints": {"claim": "a", "url": "s3://b"}}, "it is one place"),
        ({"env": {"A": "1"}, "env_vars": {"A": "2"}}, 'both set "A", and differ'),
        ({"env_vars": [{"value": "1"}]}, r"env_vars\[0\] has no name"),
        ({"env_vars": {"RANK": "1"}}, 'sets "RANK", which Optimus sets itself'),
        ({"secrets": [Secret("env", "RANK", "a", "b")]}, 'sets "RANK"'),
        (
            {
                "env": {"A": "1"},
                "worker_pod": {"spec": {"containers": [CONTAINER | {"env": [{"name": "A", "value": "2"}]}]}},
            },
            "env and worker_pod both set",
        ),
        ({"grace_seconds": 3, "termination_grace_period": 4}, "mean the same. Write one of them"),
        ({"start_timeout": 3, "startup_timeout_seconds": 4}, "mean the same. Write one of them"),
    ],
)
def test_what_can_not_be_is_refused_with_what_to_write(given, message):
    with pytest.raises(SpecificationError, match=message) as caught:
        make(**given)
    assert str(caught.value).startswith('job "train": ')


def test_no_value_of_a_variable_is_in_an_error():
    for given in (
        {"A": ["hunter2"]},
        [{"name": "A", "value": 5, "secret_hunter2": 1}],
        "hunter2",
        [{"value": "hunter2"}],
    ):
        with pytest.raises(SpecificationError) as caught:
            make(env_vars=given)
        assert "hunter2" not in str(caught.value).replace("secret_hunter2", "").replace("secretHunter2", "")


REFUSED = {
    "name": ("x", "Write labels to find them by"),
    "random_name_suffix": (False, "Write labels"),
    "reattach_on_restart": (False, "Write fresh=True"),
    "container_resources": (k8s.V1ResourceRequirements(), r"workers=Replicas\("),
    "hostnetwork": (True, "same port"),
    "callbacks": ([object], "Write on_execute_callback"),
    "active_deadline_seconds": (5, r"execution_timeout=timedelta\(seconds"),
}


@pytest.mark.parametrize(("name", "row"), REFUSED.items(), ids=REFUSED)
def test_what_a_job_has_not_is_refused_with_what_to_write(name, row):
    with pytest.raises(SpecificationError, match=rf'job "train": {name} is given.*{row[1]}'):
        make(**{name: row[0]})


def test_a_command_is_one_list():
    with pytest.raises(SpecificationError, match=r'Write command=\["python", "train.py", "--epochs", "3"\]'):
        make(cmds=["python", "train.py"], arguments=["--epochs", "3"])


def test_each_argument_is_seen_in_the_signature():
    assert set(pod_arguments.ARGUMENTS) <= set(inspect.signature(OptimusTrainingOperator).parameters)
    for name in inspect.signature(OptimusTrainingOperator).parameters:
        assert name == "kwargs" or f"\n        {name}: " in OptimusTrainingOperator.__doc__, name


def test_every_argument_of_the_pod_operator_is_taken_or_refused():
    ours = set(inspect.signature(OptimusTrainingOperator.__init__).parameters)
    for name in inspect.signature(KubernetesPodOperator.__init__).parameters:
        if name in ("self", "kwargs", "do_xcom_push") or name in ours:
            continue
        with pytest.raises(SpecificationError, match=f"{name} is given"):
            pod_refusals.refuse({name: ["nothing that happens anyway"]})


def test_templated_arguments_are_those_of_the_pod_operator():
    ours = set(inspect.signature(OptimusTrainingOperator.__init__).parameters)
    assert set(KubernetesPodOperator.template_fields) & ours <= set(OptimusTrainingOperator.template_fields)


def test_what_happens_anyway_may_be_said():
    task = make(on_kill_action="delete_pod", hostnetwork=False, hostname=None, do_xcom_push=False)
    assert not task.do_xcom_push
    assert task.training_job().pod == {}


def test_texts_in_arguments_are_rendered_wherever_they_are():
    task = make(
        namespace="ml-{{ ds }}",
        image="i:{{ ds }}",
        labels={"run": "{{ ds }}"},
        annotations={"run": "{{ ds }}"},
        node_selector={"zone": "{{ ds }}"},
        env_vars=[k8s.V1EnvVar("RUN_{{ ds }}", "{{ ds }}")],
        env_from=[k8s.V1EnvFromSource(config_map_ref=k8s.V1ConfigMapEnvSource("c-{{ ds }}"))],
        configmaps=["m-{{ ds }}"],
        volumes=[k8s.V1Volume(name="d", persistent_volume_claim=k8s.V1PersistentVolumeClaimVolumeSource("{{ ds }}"))],
        volume_mounts=[k8s.V1VolumeMount("/d", name="d", sub_path="{{ ds }}")],
        pod_template_dict={"metadata": {"labels": {"template": "{{ ds }}"}}},
        worker_pod={"metadata": {"labels": {"worker": "{{ ds }}"}}},
        checkpoints={"url": "s3://b/{{ ds }}"},
    )
    task.render_template_fields({"ds": "d1"})
    made = task.training_job()
    assert (made.namespace, made.image, made.env) == ("ml-d1", "i:d1", {"RUN_d1": "d1"})
    assert made.checkpoints == {"url": "s3://b/d1"}
    assert "{{" not in json.dumps(made.to_dict())


def test_a_template_file_that_lies_where_tasks_run_is_read_there(tmp_path):
    task = make(pod_template_file=str(tmp_path / "pod.yaml"))
    with pytest.raises(SpecificationError, match=r"pod template file .* can't be read"):
        task.training_job()
    (tmp_path / "pod.yaml").write_text("spec: {serviceAccountName: x}")
    assert task.training_job().pod == {"spec": {"serviceAccountName": "x"}}


def test_results_of_other_tasks_are_taken():
    from airflow.providers.standard.operators.empty import EmptyOperator

    with DAG("d"):
        first = EmptyOperator(task_id="first")
        task = make(image="i", env_vars=[k8s.V1EnvVar("A", first.output)], labels={"b": first.output})
    assert task.upstream_task_ids == {"first"}


def test_is_mapped_and_serialized():
    from airflow.serialization.serialized_objects import DagSerialization

    partial = {row[0]: row[1] for row in [*SPEC, *BASE, *METADATA]}
    with DAG("digits") as dag:
        mapped = OptimusTrainingOperator.partial(
            task_id="train", command=["python", "train.py"], strategy=AllReduce(), workers=ONE, **partial
        ).expand(image=["a:1", "b:1"], env_vars=[[k8s.V1EnvVar("A", "1")], {"A": "2"}])
    jobs = [
        mapped.unmap({"image": image, "env_vars": env}).training_job()
        for image, env in (("a:1", [k8s.V1EnvVar("A", "1")]), ("b:1", {"A": "2"}))
    ]
    assert [(made.image, made.env["A"]) for made in jobs] == [("a:1", "1"), ("b:1", "2")]
    assert jobs[0].pod == jobs[1].pod == job(strategy=AllReduce(), servers=None, **partial).pod
    json.dumps(DagSerialization.to_dict(dag))


def test_a_dag_of_it_is_serialized_twice_the_same():
    from airflow.serialization.serialized_objects import DagSerialization

    def written():
        with DAG("digits") as dag:
            make(secrets=[Secret("volume", "/k", "keys")], **{row[0]: row[1] for row in [*SPEC, *BASE, *METADATA]})
        return json.dumps(DagSerialization.to_dict(dag), sort_keys=True)

    assert written() == written()
    assert job(secrets=[Secret("volume", "/k", "keys")]) == job(secrets=[Secret("volume", "/k", "keys")])


def test_default_arguments_of_a_dag_are_taken():
    with DAG("d", default_args={"namespace": "ml", "service_account_name": "x", "reattach_on_restart": True}):
        made = make().training_job()
    assert (made.namespace, made.pod) == ("ml", {"spec": {"serviceAccountName": "x"}})


def test_prints_one_worker_and_one_server(capsys):
    make(
        image="train:1",
        namespace="ml",
        workers=Replicas(cpu=1, memory="1Gi", max=4),
        env_vars=[k8s.V1EnvVar("PASSWORD", "hunter2")],
        secrets=[Secret("env", "TOKEN", "tokens", "hub")],
        server_pod={"spec": {"priorityClassName": "high"}},
        checkpoints={"claim": "models"},
    ).dry_run()
    text = capsys.readouterr().out
    worker, server = yaml.safe_load_all(text)
    assert [pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in (worker, server)] == [
        "worker",
        "server",
    ]
    assert worker["metadata"]["namespace"] == "ml"
    assert base(worker)["command"] == ["python", "train.py"]
    assert base(worker)["image"] == "train:1"
    assert (worker["spec"].get("priorityClassName"), server["spec"]["priorityClassName"]) == (None, "high")
    assert "models" in text
    assert "hunter2" not in text
    assert {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "hub"}}} in base(worker)["env"]


def test_prints_one_worker_where_there_are_no_servers(capsys):
    make(strategy=AllReduce(), servers=None, image="i").dry_run()
    assert len(list(yaml.safe_load_all(capsys.readouterr().out))) == 1


def test_values_of_variables_are_hidden_from_people():
    made = job(
        env_vars=[k8s.V1EnvVar("PASSWORD", "hunter2")],
        pod_template_dict={
            "spec": {
                "containers": [{"name": "base", "env": [{"name": "OTHER", "value": "hunter2"}]}],
                "initContainers": [{"name": "i", "env": [{"name": "OTHER", "value": "hunter2"}]}],
            }
        },
        worker_pod={"spec": {"containers": [{"name": "base", "env": [{"name": "THIRD", "value": "hunter2"}]}]}},
        secrets=[Secret("env", "TOKEN", "tokens", "hub")],
    )
    public = json.dumps(made.public_dict())
    assert "hunter2" not in public
    assert "PASSWORD" in public
    assert "tokens" in public


@pytest.mark.parametrize(
    "given",
    [
        {"DB_PASSWORD": "hunter2"},
        [k8s.V1EnvVar("DB_PASSWORD", "hunter2")],
        [{"name": "DB_PASSWORD", "value": "hunter2"}],
    ],
    ids=["dict", "objects", "data"],
)
def test_values_with_telling_names_are_masked_on_airflows_pages(given):
    from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

    task = make(env_vars=given, secrets=[Secret("env", "TOKEN", "tokens", "hub")])
    task.render_template_fields({})
    assert "hunter2" not in str(_serialize_rendered_fields(task))
    assert task.training_job().env == {"DB_PASSWORD": "hunter2"}


# The cluster

CLUSTERS = """
local: {kind: local}
inside: {kind: kubernetes, in_cluster: true}
prod: {kind: kubernetes, airflow_connection: k8s_prod}
dev: {kind: kubernetes, config_file: ~/.kube/config, context: dev}
test: {kind: kubernetes, config_file: ~/.kube/config, context: test}
"""


@pytest.fixture
def clusters(home):
    (home / "clusters.yaml").write_text(CLUSTERS)
    settings.forget_engine()
    return settings.load()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, ""),
        ({"cluster": "prod"}, "prod"),
        ({"kubernetes_conn_id": "k8s_prod"}, "prod"),
        ({"in_cluster": True}, "inside"),
        ({"in_cluster": False}, ""),
        ({"cluster_context": "dev"}, "dev"),
        ({"config_file": "~/.kube/config", "cluster_context": "test", "in_cluster": False}, "test"),
    ],
)
def test_a_declared_cluster_is_found_by_the_way_to_it(clusters, given, name):
    assert pod_clusters.cluster_of(make(**given), clusters) == (name, None)


@pytest.mark.parametrize(
    ("given", "name", "way"),
    [
        pytest.param(
            {"kubernetes_conn_id": "other"}, "other-", {"airflow_connection": "other"}, id="a connection of Airflow"
        ),
        pytest.param(
            {"config_file": "/k", "cluster_context": "a/b"}, "a-b-", {"config_file": "/k", "context": "a/b"},
            id="a context of a kubeconfig",
        ),
        pytest.param({"config_file": "/k"}, "kubeconfig-", {"config_file": "/k"}, id="a kubeconfig"),
    ],
)  # fmt: skip
def test_a_cluster_that_is_not_declared_is_declared_by_the_way_to_it(clusters, given, name, way):
    found, declaration = pod_clusters.cluster_of(make(**given), clusters, "ml")
    assert found.startswith(name)
    assert declaration == {"kind": "kubernetes", "namespaces": ["ml"]} | way
    again, in_another_namespace = pod_clusters.cluster_of(make(**given), clusters, None)
    assert again == found, "one cluster is planned as one"
    assert in_another_namespace["namespaces"] == ["default"]


def test_what_is_declared_on_the_spot_is_known_to_all_processes(clusters, context, monkeypatch):
    """The API server of this connection is not there, so that the task fails; its cluster is known all the same."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(KUBECONFIG | {"clusters": NOWHERE})}}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(connection))
    for namespace in ("ml", "web"):
        with pytest.raises(ClusterUnavailable, match=r"cluster other-.* can't be reached"):
            make(kubernetes_conn_id="other", namespace=namespace, image="i", resumable=False).execute(context())
    name, _ = pod_clusters.cluster_of(make(kubernetes_conn_id="other"), clusters)
    settings.forget_engine()
    assert settings.engine().ctx.cluster(name).namespaces == ["ml", "web"]
    with pytest.raises(SpecificationError, match=r'"nobody" is not declared. Known: dev, inside, local, prod, test'):
        settings.engine().ctx.cluster("nobody")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cluster_context": "x"}, r'"x" fits no declared.*prod \(kubernetes_conn_id="k8s_prod"\).*or write one of'),
        ({"kubernetes_conn_id": "x", "in_cluster": True}, "does not say how to reach one"),
        ({"config_file": "~/.kube/config"}, r"fits dev and test\. Declared in .*clusters.yaml: local \(kind local\)"),
        ({"in_cluster": True, "cluster_context": "dev"}, "fits no declared cluster"),
        ({"cluster": "dev", "cluster_context": "dev"}, "Write cluster only"),
    ],
)
def test_a_cluster_that_is_not_declared_is_refused(clusters, context, given, message):
    with pytest.raises(AirflowFailException, match=message):
        make(**given).execute(context())


NOWHERE = [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}]
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "clusters": [{"name": "c", "cluster": {"server": "https://prod.example:6443"}}],
    "users": [{"name": "u", "user": {"token": "hunter2"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
}


def test_a_cluster_is_reached_by_a_connection_of_airflow(clusters, monkeypatch):
    connection = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(KUBECONFIG)}}
    monkeypatch.setenv("AIRFLOW_CONN_K8S_PROD", json.dumps(connection))
    cluster = settings.engine().ctx.cluster("prod")
    assert cluster.name == "prod"
    assert settings.connect("k8s_prod").configuration.host == "https://prod.example:6443"


def test_a_connection_that_is_missing_is_told(clusters):
    with pytest.raises(
        SpecificationError, match=r'the Airflow connection "k8s_prod".*airflow connections get k8s_prod'
    ):
        settings.engine().ctx.cluster("prod")


# The output

SPEAKS = ["python3", "-c", "for n in range(500): print('line', n)"]


@pytest.mark.parametrize("get_logs", [True, False])
def test_the_end_of_the_output_goes_to_the_log_of_the_task(engine, context, monkeypatch, get_logs):
    task = make(command=SPEAKS, get_logs=get_logs, workers=Replicas(cpu="500m", memory="64Mi", min=2, max=2))
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context())
    job_id = caught.value.trigger.job_id
    assert drive_to_end(engine, job_id, 30)
    told = []
    monkeypatch.setattr(task.log, "info", lambda text, *values: told.append(text % values))
    task.execute_complete(context(), event_of(engine, engine.job_by_id(job_id)))
    lines = [line for line in told if "line 499" in line]
    assert [line.partition("-g1] ")[0][-8:] for line in lines] == (["server-0", "worker-0", "worker-1"] * get_logs)
    assert len(told) <= 200
