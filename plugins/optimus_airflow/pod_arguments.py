"""The arguments of KubernetesPodOperator that a training job takes: what each may be, and where in a pod it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from optimus_core import checks
from optimus_core.errors import SpecificationError

Json = dict[str, Any]

ROLES = ("worker_pod", "server_pod")
SOURCES = ("pod_template_file", "pod_template_dict", "full_pod_spec")
CLUSTER = {
    "kubernetes_conn_id": "airflow_connection",
    "in_cluster": "in_cluster",
    "config_file": "config_file",
    "cluster_context": "context",
}
"""Argument -> the key of a declared cluster that it must be equal to."""


def plain(value: Any) -> Any:
    """Return ``value`` with the objects of ``kubernetes.client`` in it as the API's JSON; the rest stays."""
    names = getattr(type(value), "attribute_map", None)
    if names is not None:
        parts = ((key, getattr(value, name)) for name, key in names.items())
        return {key: plain(part) for key, part in parts if part is not None}
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


# What one argument may be


def _object(value: Any, where: str) -> Json:
    return dict(_known_keys(checks.mapping(value, where, "{}"), where))


def objects(value: Any, where: str) -> list[Json]:
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise SpecificationError(
            f"{where} is of type {type(value).__name__}; it is a list of objects of kubernetes.client.models, or of "
            "mappings as in Kubernetes' YAML."
        )
    return [dict(_known_keys(each, f"{where}[{index}]")) for index, each in enumerate(value)]


def _known_keys(given: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    for key in given:
        if "_" in key:
            head, *tail = key.split("_")
            raise SpecificationError(
                f'{where} has the key "{key}"; in plain data keys are as in Kubernetes\' YAML. '
                f'Write "{head}{"".join(word.capitalize() for word in tail)}".'
            )
    return given


def _names(value: Any, where: str) -> Json:
    given = checks.mapping(value, where, '{"team": "a"}')
    given = {name: "" if text is None else text for name, text in given.items()}
    checks.texts(given, where)
    return given


def _text(value: Any, where: str) -> str:
    return checks.text(value, where, "default")


def _switch(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise SpecificationError(f"{where} is {checks.shown(value)}; it is a choice. Write True or False.")
    return value


def _pull_secrets(value: Any, where: str) -> list[Json]:
    if isinstance(value, str):
        return [{"name": name.strip()} for name in value.split(",") if name.strip()]
    return objects(value, where)


Check = Callable[[Any, str], Any]
METADATA: Mapping[str, tuple[str, Check]] = {"labels": ("labels", _names), "annotations": ("annotations", _names)}
SPEC: Mapping[str, tuple[str, Check]] = {
    "affinity": ("affinity", _object),
    "automount_service_account_token": ("automountServiceAccountToken", _switch),
    "dns_config": ("dnsConfig", _object),
    "dnspolicy": ("dnsPolicy", _text),
    "host_aliases": ("hostAliases", objects),
    "image_pull_secrets": ("imagePullSecrets", _pull_secrets),
    "init_containers": ("initContainers", objects),
    "node_selector": ("nodeSelector", _names),
    "priority_class_name": ("priorityClassName", _text),
    "runtime_class_name": ("runtimeClassName", _text),
    "schedulername": ("schedulerName", _text),
    "security_context": ("securityContext", _object),
    "service_account_name": ("serviceAccountName", _text),
    "tolerations": ("tolerations", objects),
    "volumes": ("volumes", objects),
}
BASE: Mapping[str, tuple[str, Check]] = {
    "container_security_context": ("securityContext", _object),
    "env_from": ("envFrom", objects),
    "image_pull_policy": ("imagePullPolicy", _text),
    "ports": ("ports", objects),
    "volume_mounts": ("volumeMounts", objects),
}
ARGUMENTS = (
    *METADATA, *SPEC, *BASE, *SOURCES, *ROLES, *CLUSTER, "checkpoints", "configmaps", "env_vars", "get_logs",
    "namespace", "on_finish_action", "secrets", "startup_timeout_seconds", "termination_grace_period",
)  # fmt: skip
"""The arguments that this module knows; an operator keeps each under its name."""


def keep(task: Any, given: Mapping[str, Any]) -> None:
    """Keep the arguments as attributes of ``task``, as plain data, whose texts Airflow renders wherever they are."""
    for name in ARGUMENTS:
        setattr(task, name, plain(given[name]))
    task.env_vars = _by_name(task.env_vars)


def _by_name(entries: Any) -> Any:
    """Return variables by their names: Airflow masks values on its pages by the names that they stand under."""
    known = isinstance(entries, list) and all(
        isinstance(each, Mapping)
        and isinstance(each.get("name"), str)
        and "{" not in each["name"]
        and set(each) in ({"name"}, {"name", "value"}, {"name", "valueFrom"})
        for each in entries
    )
    if not known:
        return entries
    return {
        each["name"]: {"valueFrom": each["valueFrom"]} if "valueFrom" in each else each.get("value", "")
        for each in entries
    }
