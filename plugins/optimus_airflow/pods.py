"""What the arguments of KubernetesPodOperator mean for a training job: one plain template for its pods.

Precedence is as there: ``pod_template_file`` or ``pod_template_dict``, above it ``full_pod_spec``, above it the
arguments; ``worker_pod`` and ``server_pod`` come on top. Each may be plain data, or objects of ``kubernetes.client``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimus_airflow.pod_arguments import BASE, METADATA, ROLES, SOURCES, SPEC, Check, objects, plain
from optimus_airflow.pod_layers import as_base, base_of, layered
from optimus_airflow.pod_refusals import REFUSED, words_of
from optimus_core import checks, job_rules, pod_rules
from optimus_core.errors import SpecificationError
from optimus_core.pod_rules import MAIN

if TYPE_CHECKING:
    from optimus_core.job import TrainingJob

Json = dict[str, Any]


# The template


@dataclass(frozen=True)
class _Source:
    """One template, and what it says that is a field of the job."""

    template: Json
    namespace: str | None = None
    grace_seconds: float | None = None


def job_fields(task: Any, folder: str | None) -> Json:
    """Return the fields of a :class:`TrainingJob` that the arguments of ``task`` come to.

    Args:
        task: an operator that kept its :data:`ARGUMENTS`, ``env``, ``image``, ``working_dir``, ``grace_seconds`` and
            ``start_timeout``.
        folder: where commands start that run in no image.

    Raises:
        SpecificationError: names the argument and says what to write instead.
    """
    source = _source_of(task)
    env, references = _variables(task)
    given = layered(source.template, _arguments(task, references))
    roles = {name: _role(getattr(task, name), name) for name in ROLES}
    _refuse_names([given, *roles.values()])
    _without(given, env)
    for name, template in roles.items():
        _refuse_twice(template, env, name)
    image, working_dir = task.image, task.working_dir
    if not working_dir and not image and not _any_says(("image", "workingDir"), [given, *roles.values()]):
        working_dir = folder
    if image and _any_says(("image",), roles.values()):
        given, image = layered(given, as_base({"image": image})), None  # else it would stand above the role's
    if working_dir and _any_says(("workingDir",), roles.values()):
        given, working_dir = layered(given, as_base({"workingDir": working_dir})), None
    grace = _either(task, "grace_seconds", "termination_grace_period")
    fields = {
        "env": env,
        "image": image,
        "working_dir": working_dir or None,
        "namespace": task.namespace or source.namespace,
        "checkpoints": plain(task.checkpoints),
        "grace_seconds": source.grace_seconds if grace is None else grace,
        "start_timeout": _either(task, "start_timeout", "startup_timeout_seconds"),
        "pod": given,
        **roles,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _either(task: Any, ours: str, theirs: str) -> Any:
    mine, other = getattr(task, ours), getattr(task, theirs)
    if mine is not None and other is not None and mine != other:
        raise SpecificationError(f"{ours} is {mine} and {theirs} is {other}, which mean the same. Write one of them.")
    return other if mine is None else mine


def _source_of(task: Any) -> _Source:
    given = {name: getattr(task, name) for name in SOURCES if getattr(task, name)}
    if len(given) > 1 and "full_pod_spec" not in given:
        raise SpecificationError("pod_template_file and pod_template_dict are given. Write one of them.")
    found = _Source({})
    for name, value in given.items():
        if name == "pod_template_file":
            value = checks.read_file(value, "pod template file", "{spec: {containers: [{name: base}]}}")
        over = _source(value, name, is_whole=True)
        found = _Source(
            layered(found.template, over.template),
            over.namespace or found.namespace,
            found.grace_seconds if over.grace_seconds is None else over.grace_seconds,
        )
    return found


def _role(value: Any, where: str) -> Json:
    return _source(value, where, is_whole=False).template if value else {}


def _source(value: Any, where: str, *, is_whole: bool) -> _Source:
    """Check a template and leave out what says nothing new: kind, name, a restart policy of Never."""
    given = copy.deepcopy(plain(checks.mapping(value, where, "{spec: {serviceAccountName: trainer}}")))
    for part in ("metadata", "spec"):
        given[part] = dict(checks.mapping(given.get(part) or {}, f"{where}.{part}", "{}"))
    namespace, grace = None, None
    if is_whole:
        namespace = given["metadata"].pop("namespace", None)
        grace = given["spec"].pop("terminationGracePeriodSeconds", None)
        _name_base(given["spec"].get("containers"))
    elif "terminationGracePeriodSeconds" in given["spec"]:
        raise SpecificationError(
            f"{where}.spec.terminationGracePeriodSeconds is given, but a job stops as a whole. Write grace_seconds."
        )
    given["metadata"].pop("name", None)
    if given["spec"].get("restartPolicy") == "Never":
        del given["spec"]["restartPolicy"]
    pod_rules.template(given, where)
    _refuse_ours(given, where)
    return _Source({part: given[part] for part in ("metadata", "spec") if given[part]}, namespace, grace)


def _name_base(containers: Any) -> None:
    """The first container is the one that trains if none is called so, as in KubernetesPodOperator."""
    known = isinstance(containers, list) and containers and all(isinstance(each, Mapping) for each in containers)
    if known and all(each.get("name") != MAIN for each in containers):
        containers[0]["name"] = MAIN


def _refuse_ours(template: Mapping[str, Any], where: str) -> None:
    if (template.get("spec") or {}).get("hostNetwork"):
        raise SpecificationError(f"{where}.spec.hostNetwork is given. {REFUSED['hostnetwork']}.")
    base = base_of(template)
    for key in ("command", "args"):
        if base.get(key):
            raise SpecificationError(
                f'{where}: {key} of the container "{MAIN}" is given, but each replica runs the task\'s command. '
                f"Write command={json.dumps(words_of(base[key]), ensure_ascii=False)}."
            )
    resources = base.get("resources") or {}
    for kind, theirs in (("requests", ()), ("limits", ("cpu",))):
        for name in resources.get(kind) or {}:
            if (name in ("cpu", "memory") or "/" in name) and name not in theirs:
                raise SpecificationError(
                    f'{where}: resources.{kind} of the container "{MAIN}" has "{name}", which Optimus counts. '
                    f"{REFUSED['container_resources']}."
                )


def _arguments(task: Any, references: list[Json]) -> Json:
    """Return the template that the arguments make."""
    metadata, spec, base = (_taken(task, table) for table in (METADATA, SPEC, BASE))
    _add(base, "env", references)
    _add(base, "envFrom", [{"configMapRef": {"name": name}} for name in _listed(task.configmaps, "configmaps")])
    for index, secret in enumerate(_listed(task.secrets, "secrets")):
        _add_secret(spec, base, index, secret)
    if base:
        spec |= as_base(base)["spec"]
    return {part: values for part, values in (("metadata", metadata), ("spec", spec)) if values}


def _taken(task: Any, table: Mapping[str, tuple[str, Check]]) -> Json:
    given = {name: plain(getattr(task, name)) for name in table}
    return {
        table[name][0]: table[name][1](value, name) for name, value in given.items() if value not in (None, "", [], {})
    }


def _add(part: Json, key: str, entries: list[Json]) -> None:
    if entries:
        part[key] = [*part.get(key, ()), *entries]


def _listed(value: Any, where: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise SpecificationError(f"{where} is of type {type(value).__name__}; it is a list.")
    return value or []


def _add_secret(spec: Json, base: Json, index: int, secret: Any) -> None:
    """Add the reference to a secret; its value is known to Kubernetes alone."""
    if not all(hasattr(secret, name) for name in ("deploy_type", "deploy_target", "secret", "key", "items")):
        raise SpecificationError(
            f"secrets[{index}] is of type {type(secret).__name__}. "
            'Write such as Secret("env", "TOKEN", "tokens", "token"), from airflow.providers.cncf.kubernetes.secret.'
        )
    if secret.deploy_type == "volume":
        name = f"optimus-secret-{index}"
        items = {"items": plain(secret.items)} if secret.items else {}
        _add(spec, "volumes", [{"name": name, "secret": {"secretName": secret.secret} | items}])
        _add(base, "volumeMounts", [{"name": name, "mountPath": secret.deploy_target, "readOnly": True}])
    elif secret.key is not None:
        reference = {"secretKeyRef": {"name": secret.secret, "key": secret.key}}
        _add(base, "env", [{"name": secret.deploy_target, "valueFrom": reference}])
    else:
        _add(base, "envFrom", [{"secretRef": {"name": secret.secret}}])


def _variables(task: Any) -> tuple[dict[str, str], list[Json]]:
    """Return the variables with values, and those that are references, as a container's ``env`` holds them."""
    env, given = dict(checks.mapping(task.env, "env", '{"LEVEL": "3"}')), plain(task.env_vars) or []
    if isinstance(given, Mapping):
        given = [{"name": name} | _as_entry(value) for name, value in given.items()]
    entries = {}
    for index, each in enumerate(objects(given, "env_vars")):
        if not isinstance(each.get("name"), str) or not each["name"]:
            raise SpecificationError(f'env_vars[{index}] has no name. Write such as V1EnvVar(name="LEVEL", value="3").')
        entries[each["name"]] = each
    references = [each for each in entries.values() if each.get("valueFrom")]
    values = {name: each.get("value", "") for name, each in entries.items() if not each.get("valueFrom")}
    for name in entries:
        if name in env and env[name] != values.get(name):
            raise SpecificationError(f'env and env_vars both set "{name}", and differ. Write it once.')
    return env | values, references


def _as_entry(value: Any) -> Json:
    is_reference = isinstance(value, Mapping) and set(value) == {"valueFrom"}
    return dict(value) if is_reference else {"value": value}


def _refuse_names(templates: Iterable[Json]) -> None:
    for template in templates:
        job_rules.environment(dict.fromkeys((each["name"] for each in base_of(template).get("env") or ()), ""))


def _without(template: Json, env: Mapping[str, str]) -> None:
    """Take variables out of a template that arguments set."""
    base = base_of(template)
    if base.get("env"):
        base["env"] = [each for each in base["env"] if each["name"] not in env]


def _refuse_twice(template: Json, env: Mapping[str, str], where: str) -> None:
    for each in base_of(template).get("env") or ():
        if each["name"] in env:
            raise SpecificationError(
                f'env and {where} both set "{each["name"]}". Write it in worker_pod and server_pod only.'
            )


def _any_says(keys: Iterable[str], templates: Iterable[Json]) -> bool:
    return any(base_of(template).get(key) for template in templates for key in keys)


# What people read


def dry_run_text(job: TrainingJob, name: str) -> str:
    """Return the manifests of one worker and one server as YAML, without values of environment variables."""
    import yaml

    from optimus_core.cluster.kubernetes import manifests
    from optimus_core.engine.launch import trial_specs

    shown = []
    for spec in trial_specs(job, name, _Nowhere()):  # type: ignore[arg-type]
        if spec.index == 0:
            pod = manifests.pod(spec, name, None)
            del pod["metadata"]["ownerReferences"]
            if spec.namespace:
                pod["metadata"]["namespace"] = spec.namespace
            shown.append(pod_rules.without_values(pod))
    return yaml.safe_dump_all(shown, sort_keys=False)


class _Nowhere:
    """What a trial replica asks of a cluster, where none is asked."""

    def checkpoint_place(
        self, job: str, asked: Mapping[str, str] | None, *, resumable: bool, together: bool = False
    ) -> Any:
        from optimus_core.cluster.base import CheckpointPlace
        from optimus_core.cluster.kubernetes import manifests

        place = pod_rules.Checkpoints.read(asked) if asked else pod_rules.Checkpoints()
        claim = manifests.claim_name(job) if place.storage_class else place.claim
        return CheckpointPlace(place.url or (manifests.CHECKPOINTS if claim else manifests.SCRATCH), claim)
