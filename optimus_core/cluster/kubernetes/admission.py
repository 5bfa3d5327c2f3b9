"""Whether a namespace would take the replicas of a job: tried on the API server without making anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from optimus_core.cluster.base import ReplicaSpec, Role
from optimus_core.cluster.kubernetes import manifests
from optimus_core.cluster.kubernetes.api import Api, Conflict, NotFound
from optimus_core.cluster.kubernetes.limit_ranges import breach, with_defaults
from optimus_core.cluster.kubernetes.quotas import charge, short_of
from optimus_core.cluster.kubernetes.requests import pod_requests
from optimus_core.errors import ClusterRefusesNow, PermissionMissing, SpecificationError
from optimus_core.pod_rules import MAIN
from optimus_core.resources import Resources, total

Json = dict[str, Any]
Kind = tuple[Role, str | None]
_UNSAID = "must specify"
"""Words of a quota that wants to know something of each pod."""


class Admission:
    """What the API server says of pods before they are made.

    Args:
        api: calls of its API.
        tell_once: says what can't be looked at, since a permission is missing.
    """

    def __init__(self, api: Api, tell_once: Callable[[str], None]) -> None:
        self._api = api
        self._tell_once = tell_once

    def trial(self, space: str, replicas: Sequence[ReplicaSpec]) -> dict[Role, Resources]:
        """Return what one replica of each role really asks for.

        Raises:
            SpecificationError: the namespace never takes one of them, or the claim for their checkpoints won't do.
        """
        self._check_claim(space, replicas)
        return {kind[0]: pod_requests(spec) for kind, spec in self._tried(space, replicas).items()}

    def check(self, space: str, replicas: Sequence[ReplicaSpec], going: Sequence[Json]) -> None:
        """Refuse replicas that the namespace does not take, or not now.

        Args:
            space: the namespace.
            replicas: all that are to be made.
            going: pods that are gone by then.

        Raises:
            SpecificationError: it never takes them.
            ClusterRefusesNow: a quota does not hold them now.
        """
        self._check_claim(space, replicas)
        charges = {kind: charge(spec) for kind, spec in self._tried(space, replicas).items()}
        quotas = self._listed(space, "resourcequotas", "a quota is noticed when it refuses a pod")
        asked = total(charges[_kind(spec)] for spec in replicas)
        short = short_of(quotas, asked, total(charge(pod["spec"]) for pod in going))
        if short is not None:
            raise ClusterRefusesNow(short)

    def _tried(self, space: str, replicas: Sequence[ReplicaSpec]) -> dict[Kind, Json]:
        """Return a pod's specification for each kind of replica, as it is once the cluster has filled it in."""
        return {kind: self._try(space, spec) for kind, spec in {_kind(spec): spec for spec in replicas}.items()}

    def _try(self, space: str, spec: ReplicaSpec) -> Json:
        pod = manifests.pod(spec, "trial", None)
        try:
            made: Json = self._api.create(f"/api/v1/namespaces/{space}/pods", pod, dryRun="All")["spec"]
            return made
        except (Conflict, ClusterRefusesNow):  # it exists, or what it replaces still counts against the quota
            return with_defaults(pod["spec"], self._ranges(space))
        except SpecificationError as error:
            told = breach(pod["spec"], self._ranges(space), spec.role) or _unsaid(str(error))
            raise SpecificationError(f"{told} ({error})" if told else str(error)) from error

    def _ranges(self, space: str) -> list[Json]:
        return self._listed(space, "limitranges", "what a LimitRange adds to pods is not counted under a full quota")

    def _listed(self, space: str, kind: str, until_then: str) -> list[Json]:
        try:
            return list(self._api.items(f"/api/v1/namespaces/{space}/{kind}"))
        except PermissionMissing as error:
            self._tell_once(f"{error} Until then, {until_then}.")
            return []

    def _check_claim(self, space: str, replicas: Sequence[ReplicaSpec]) -> None:
        """Refuse a claim that is not there, or that only one node can write while replicas may lie on several."""
        claim, made_of = replicas[0].claim, replicas[0].claim_made_of
        if claim is None:
            return
        path = f"/api/v1/namespaces/{space}/persistentvolumeclaims"
        try:
            found = self._api.get(f"{path}/{claim}")
        except NotFound:
            if made_of is not None:
                with suppress(Conflict):  # another was faster
                    self._api.create(path, manifests.claim(replicas[0], made_of), dryRun="All")
                return
            raise SpecificationError(
                f'there is no claim "{claim}" for checkpoints in namespace "{space}" of cluster {self._api.name}. '
                "Make it, with ReadWriteMany, or name another in checkpoints."
            ) from None
        except PermissionMissing as error:
            self._tell_once(f"{error} Until then, claims are not looked at before a job starts.")
            return
        modes = (found.get("spec") or {}).get("accessModes") or []
        together = len(replicas) == 1 or ("ReadWriteOnce" in modes and _on_one_node(replicas))
        if "ReadWriteMany" not in modes and not together:
            raise SpecificationError(
                f'claim "{claim}" is {" and ".join(modes)}: only one node can write it, but the replicas of '
                f"{replicas[0].job} may lie on several. Use a claim with ReadWriteMany, write colocate=True, "
                "which keeps all replicas on one node (ReadWriteOnce is enough then), or ask for one replica."
            )


def _kind(spec: ReplicaSpec) -> Kind:
    return (spec.role, spec.image)


def _unsaid(message: str) -> str | None:
    """Return what to write for a quota that wants each pod to say something that this one leaves open."""
    if _UNSAID not in message:
        return None
    return (
        "a quota of the namespace wants each container to have what it counts. "
        f'Write it in the pod template, such as resources.limits.cpu of the container "{MAIN}".'
    )


def _on_one_node(replicas: Sequence[ReplicaSpec]) -> bool:
    nodes = {spec.node for spec in replicas}
    return replicas[0].colocated or (len(nodes) == 1 and nodes != {""})
