"""What the parts of a job may be that only matter where replicas are pods: templates and places for checkpoints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from optimus_core import checks
from optimus_core.errors import SpecificationError
from optimus_core.resources import parse_quantity

MAIN = "base"
"""Name of the container that trains, as in Airflow's KubernetesPodOperator."""
_OURS = {
    "metadata": ("name", "generateName", "namespace", "ownerReferences", "finalizers"),
    "spec": ("restartPolicy", "hostname", "subdomain", "nodeName", "activeDeadlineSeconds"),
}
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_DNS = re.compile(rf"(?!.{{254}}){_LABEL}(\.{_LABEL})*", re.ASCII)
_CONTAINERS = ("containers", "initContainers")
HIDDEN = "***"


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints lie when replicas are pods: a claim, that exists or is made, or a URL that the script knows."""

    claim: str | None = None
    """Name of a PersistentVolumeClaim; ReadWriteMany, unless all replicas stay on one node."""
    url: str | None = None
    """Such as ``s3://bucket/path``; handed to the script as it is."""
    storage_class: str | None = None
    """Name of a StorageClass, of which each job gets a claim of its own."""
    size: str | None = None
    """How much such a claim asks for."""

    @classmethod
    def read(cls, data: object) -> Checkpoints:
        """Read what a job says of it.

        Raises:
            SpecificationError: it is none of the three, or more than one.
        """
        example = "{claim: training}, {storage_class: shared, size: 10Gi} or {url: s3://bucket/path}"
        given = checks.mapping(data, "checkpoints", example)
        checks.keys(given, ("claim", "url", "storage_class", "size"), "checkpoints")
        places = [key for key in ("claim", "url", "storage_class") if given.get(key) is not None]
        if len(places) != 1:
            raise SpecificationError(f"checkpoints is {checks.shown(dict(given))}; it is one place. Write {example}.")
        claim, url, made_of = given.get("claim"), given.get("url"), given.get("storage_class")
        if claim is not None and not _is_dns_name(claim):
            raise SpecificationError(
                f"checkpoints.claim is {checks.shown(claim)}, which is no name of a claim. "
                "Write such as {claim: training}."
            )
        if made_of is not None and not _is_dns_name(made_of):
            raise SpecificationError(
                f"checkpoints.storage_class is {checks.shown(made_of)}, which is no name of a StorageClass. "
                "Write one that `kubectl get storageclass` shows."
            )
        if url is not None and not (isinstance(url, str) and "://" in url and url.isprintable()):
            raise SpecificationError(
                f"checkpoints.url is {checks.shown(url)}, which is no URL. Write such as s3://bucket/path."
            )
        return cls(claim, url, made_of, _size(given.get("size"), made_of is not None))


def _is_dns_name(value: object) -> bool:
    return isinstance(value, str) and _DNS.fullmatch(value) is not None


def _size(size: object, is_made: bool) -> str | None:
    if not is_made and size is not None:
        raise SpecificationError("checkpoints.size belongs to storage_class: what exists has its size. Leave it out.")
    if is_made and size is None:
        raise SpecificationError(
            "checkpoints.storage_class needs a size for the job's claim. Write such as size: 10Gi, room for two "
            "checkpoints and one more for each size that the job may have."
        )
    if size is not None and parse_quantity(size, "checkpoints.size") <= 0:
        raise SpecificationError(f"checkpoints.size is {checks.shown(size)}; a claim asks for something. Write 10Gi.")
    return None if size is None else str(size)


def namespace(value: object) -> None:
    """Refuse what is no name of a namespace."""
    if value is not None and not (isinstance(value, str) and len(value) <= 63 and re.fullmatch(_LABEL, value)):
        raise SpecificationError(
            f"namespace is {checks.shown(value)}, which Kubernetes takes for no name. Write such as training."
        )


def template(value: object, where: str) -> None:
    """Refuse a pod template that is none, or that says what Optimus itself decides.

    Raises:
        SpecificationError: names the field.
    """
    given = checks.mapping(value, where, "{spec: {serviceAccountName: trainer}}")
    checks.keys(given, ("metadata", "spec", "apiVersion", "kind"), where)
    for part, names in _OURS.items():
        inside = checks.mapping(given.get(part) or {}, f"{where}.{part}", "{}")
        taken = sorted(set(names) & set(inside))
        if taken:
            raise SpecificationError(f"{where}.{part}.{taken[0]} is given, but Optimus decides it. Leave it out.")
    _containers(given, where)
    try:
        json.dumps(given)
    except (TypeError, ValueError) as error:
        raise SpecificationError(f"{where} can't be written as JSON: {error}. Give plain data.") from error


def _containers(given: Mapping[str, Any], where: str) -> None:
    spec = given.get("spec") or {}
    for kind in _CONTAINERS:
        containers = spec.get(kind) or []
        if not _are_named(containers):
            raise SpecificationError(
                f"{where}.spec.{kind} is no list of containers with names. "
                f'Write such as [{{name: {MAIN}, image: "registry/train:1.0"}}]; the one that trains is "{MAIN}".'
            )
        for each in containers:
            if not _are_named(each.get("env") or []):
                raise SpecificationError(
                    f'{where}.spec.{kind}: env of "{each["name"]}" is no list of variables with names. '
                    'Write such as [{name: MODE, value: "fast"}].'
                )


def _are_named(entries: object) -> bool:
    return isinstance(entries, list) and all(isinstance(each, Mapping) and each.get("name") for each in entries)


def without_values(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template without the values of its environment variables: for logs, pages and snapshots."""
    copy: dict[str, Any] = json.loads(json.dumps(template))
    for variable in _variables(copy):
        if "value" in variable:
            variable["value"] = HIDDEN
    return copy


def _variables(template: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    spec = template.get("spec") or {}
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            yield from container.get("env") or ()
