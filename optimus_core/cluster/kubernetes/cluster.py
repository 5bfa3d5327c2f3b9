"""The protocol over the Kubernetes API.

A replica is stopped by giving its pod a deadline that has passed: the kubelet ends it as it ends a deleted one, with
SIGTERM and the grace period, but the pod stays with its last status and its log, for any process to read. It is
deleted when nobody needs it any more, together with the object that owns it.
"""

from __future__ import annotations

import builtins
import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from optimus_core.at_once import at_once
from optimus_core.cluster.base import (
    CheckpointPlace,
    Endpoint,
    Member,
    NodeInfo,
    Output,
    Phase,
    Replica,
    ReplicaSpec,
    Role,
)
from optimus_core.cluster.kubernetes import manifests
from optimus_core.cluster.kubernetes.admission import Admission
from optimus_core.cluster.kubernetes.api import Api, Conflict, NotFound
from optimus_core.cluster.kubernetes.capacity import has_ended, is_ready, node_infos
from optimus_core.cluster.kubernetes.follow import Followers, Open, is_fast
from optimus_core.cluster.kubernetes.output import Cursor, Piece, parse
from optimus_core.cluster.kubernetes.shared import SharedRead
from optimus_core.cluster.kubernetes.status import GENERATION, JOB, STOP_ASKED, Sight, replica_of, stop_asked
from optimus_core.errors import (
    ClusterRefusesNow,
    ClusterUnavailable,
    NameTaken,
    OptimusError,
    PermissionMissing,
    SpecificationError,
)
from optimus_core.names import replica_name
from optimus_core.pod_rules import MAIN, Checkpoints
from optimus_core.resources import Resources

Json = dict[str, Any]
PORT = 20000
"""The first port that replicas listen on; generations take turns, so that an old and a new one can't meet."""
_PORTS = 10000
_PARALLEL = 8
_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
_LARGEST_READ = 32 << 20
_REST_SECONDS = 5.0
"""How long the follower of an ended container may take to bring its next line."""
_LOG = {"container": MAIN, "timestamps": "true"}
_log = logging.getLogger(__name__)


class KubernetesCluster:
    """Replicas are pods in one or several namespaces of a Kubernetes cluster.

    Args:
        name: the name under which it is declared.
        api: calls of its API.
        namespaces: where jobs may run; the first is that of jobs that name none.
        checkpoints: where they lie for jobs that name no place.
    """

    def __init__(self, name: str, api: Api, namespaces: Sequence[str], checkpoints: Checkpoints | None = None) -> None:
        self.name = name
        self.namespaces = builtins.list(namespaces)
        self.checkpoints = checkpoints
        self._api = api
        self._admission = Admission(api, self._tell_once)
        self._told: set[str] = set()
        """What was said to be missing, once."""
        self._ours = SharedRead(self._read_ours)
        self._followers = Followers()
        self._others = SharedRead(lambda: at_once(self._nodes, self._pods_of_others))

    # What there is

    def nodes(self) -> builtins.list[NodeInfo]:
        """Return the nodes; what others ask for is counted as far as their pods may be read."""
        return node_infos(*self._others.get())

    def _nodes(self) -> builtins.list[Json]:
        return builtins.list(self._api.items("/api/v1/nodes"))

    def _pods_of_others(self) -> builtins.list[Json]:
        """Return the pods of others that have not ended: ours are listed on their own.

        Jobs in other namespaces belong to another Optimus, or to this one by another way.
        """
        query = {"fieldSelector": _NOT_ENDED, "labelSelector": f"!{JOB}"}
        elsewhere = ",".join([_NOT_ENDED, *(f"metadata.namespace!={space}" for space in self.namespaces)])
        try:
            found = at_once(
                lambda: builtins.list(self._api.items("/api/v1/pods", **query)),
                lambda: builtins.list(self._api.items("/api/v1/pods", fieldSelector=elsewhere, labelSelector=JOB)),
            )
            return found[0] + found[1]
        except PermissionMissing as error:
            self._tell_once(f"{error} Until then, what pods of other namespaces ask for is not counted.")
            return [pod for space in self.namespaces for pod in self._api.items(_pods(space), **query)]

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            _log.warning("%s", text)

    def list(self, job: str | None = None) -> builtins.list[Replica]:
        """Return the replicas of ``job``, or of all jobs, the ended ones too until they are forgotten."""
        pods = [pod for pod in self._ours.get() if job in (None, pod["metadata"]["labels"].get(JOB))]
        sight = Sight(datetime.now(UTC), self._away(pods))
        return sorted(_replicas(pods, sight), key=lambda replica: replica.name)

    def _read_ours(self) -> builtins.list[Json]:
        selector = f"{manifests.SELECTOR},{JOB}"
        return [pod for space in self.namespaces for pod in self._api.items(_pods(space), labelSelector=selector)]

    def _away(self, pods: Sequence[Json]) -> frozenset[str]:
        """Return the nodes of these pods that are not ready; asked only if a pod's own status hints at it."""
        if not any(_may_be_away(pod) for pod in pods):
            return frozenset()
        try:
            return frozenset(node["metadata"]["name"] for node in self._nodes() if not is_ready(node))
        except PermissionMissing as error:
            self._tell_once(f"{error} Until then, pods on a node that is away seem to run.")
            return frozenset()

    def endpoints(self, group: str, members: Sequence[Member]) -> dict[Member, Endpoint]:
        """Return the stable names that the group's service gives."""
        job, _, generation = group.rpartition("-g")
        port = PORT + int(generation) % _PORTS
        return {
            (role, index): Endpoint(f"{replica_name(job, role, index, int(generation))}.{group}", port)
            for role, index in members
        }

    # What is to be

    def checkpoint_place(
        self, job: str, asked: Mapping[str, str] | None, *, resumable: bool, together: bool = False
    ) -> CheckpointPlace:
        """Return the claim or URL that the job names, else what the cluster declares."""
        place = Checkpoints.read(asked) if asked else self.checkpoints
        if place is not None and place.storage_class is not None:
            mode = "ReadWriteOnce" if together else "ReadWriteMany"
            made_of = {"storage_class": place.storage_class, "size": place.size or "", "mode": mode}
            return CheckpointPlace(manifests.CHECKPOINTS, manifests.claim_name(job), made_of)
        if place is not None:
            return CheckpointPlace(place.url or manifests.CHECKPOINTS, place.claim)
        if resumable:
            raise SpecificationError(
                f"there is no place for checkpoints on cluster {self.name}: a pod's own disk is lost with it. "
                'Write checkpoints={"claim": "training"} with a ReadWriteMany claim, '
                'checkpoints={"storage_class": "shared", "size": "10Gi"}, checkpoints={"url": "s3://bucket/path"}, '
                "or resumable=False: the job then keeps its size, and a restart begins from scratch."
            )
        return CheckpointPlace(manifests.SCRATCH)

    def library(self, folder: Path) -> str:
        """Return where the job's object is mounted, which carries ``optimus_train``."""
        return manifests.LIBRARY

    def trial(self, replicas: Sequence[ReplicaSpec]) -> dict[Role, Resources]:
        """Let the API server try one pod of each kind without making it; return what they really ask for."""
        for spec in replicas:
            self._known(spec)
        return self._admission.trial(self._space(replicas[0]), replicas)

    def check(self, replicas: Sequence[ReplicaSpec]) -> None:
        """The same, and look at the quotas for all of them."""
        for spec in replicas:
            self._known(spec)
        job = replicas[0].job
        going = [pod for pod in self._ours.get() if pod["metadata"]["labels"].get(JOB) == job and not has_ended(pod)]
        self._admission.check(self._space(replicas[0]), replicas, going)

    def _known(self, spec: ReplicaSpec) -> None:
        if self._space(spec) not in self.namespaces:
            raise SpecificationError(
                f'namespace "{self._space(spec)}" is none of those where jobs of cluster {self.name} may run: '
                f"{', '.join(self.namespaces)}. Name one of these, or add it to namespaces of the cluster."
            )
        if spec.image is None and not _has_image(spec):
            raise SpecificationError(f'{spec.name} has no image. Write such as image="registry/train:1.0".')

    def create(self, group: str, replicas: Sequence[ReplicaSpec]) -> None:
        """Make a whole group or nothing of it; pods that exist already stay as they are."""
        first = replicas[0]
        for spec in replicas:
            self._known(spec)
        space = self._space(first)
        owner = self._owner(space, group, first)
        try:
            if first.claim_made_of is not None:
                self._ensure(_claims(space), manifests.claim(first, first.claim_made_of))
            at_once(
                lambda: self._make_all(replicas, group, owner),
                lambda: self._ensure(
                    f"/api/v1/namespaces/{space}/services", manifests.service(group, first.job, first.generation, owner)
                ),
            )
        except ClusterUnavailable:
            raise  # nobody knows what was made: the next call goes on with it
        except OptimusError:
            self._remove(f"/api/v1/namespaces/{space}/configmaps/{group}", owner["metadata"]["uid"])
            raise

    def _make_all(self, replicas: Sequence[ReplicaSpec], group: str, owner: Json) -> None:
        with ThreadPoolExecutor(min(_PARALLEL, len(replicas))) as pool:
            builtins.list(pool.map(lambda spec: self._make(spec, group, owner), replicas))

    def _owner(self, space: str, group: str, spec: ReplicaSpec) -> Json:
        path = f"/api/v1/namespaces/{space}/configmaps"
        job = self._ensure(path, manifests.job_object(spec.job, spec.labels))
        return self._ensure(path, manifests.group_object(group, spec.job, spec.generation, job))

    def _ensure(self, path: str, wanted: Json) -> Json:
        """Return the object as it is in the cluster; make it if it is not there.

        Raises:
            NameTaken: it is somebody else's.
        """
        name = wanted["metadata"]["name"]
        try:
            return self._api.create(path, wanted)
        except Conflict:
            found = self._existing(wanted["kind"], f"{path}/{name}")
        kind, labels = wanted["kind"], found["metadata"].get("labels") or {}
        if any(labels.get(key) != wanted["metadata"]["labels"][key] for key in (JOB, *manifests.MANAGED)):
            raise NameTaken(f"{kind} {name} of cluster {self.name} exists and is not ours. Remove or rename it.")
        if found["metadata"].get("deletionTimestamp"):
            raise self._just_gone(kind, name)
        return found

    def _existing(self, kind: str, path: str) -> Json:
        try:
            return self._api.get(path)
        except NotFound:
            raise self._just_gone(kind, path.rpartition("/")[2]) from None

    def _just_gone(self, kind: str, name: str) -> ClusterUnavailable:
        return ClusterUnavailable(f"{kind} {name} of cluster {self.name} is just being deleted")

    def _make(self, spec: ReplicaSpec, group: str, owner: Json) -> None:
        """Make a pod that is not there.

        One that is there may be refused for a quota that it has filled itself: admission comes before the name.
        """
        path = _pods(self._space(spec))
        try:
            self._api.create(path, manifests.pod(spec, group, owner))
        except (Conflict, ClusterRefusesNow) as refusal:
            try:
                found = self._api.get(f"{path}/{spec.name}")
            except NotFound:
                if isinstance(refusal, ClusterRefusesNow):
                    raise refusal from None
                raise self._just_gone("Pod", spec.name) from None
            labels = found["metadata"].get("labels") or {}
            if labels.get(JOB) != spec.job or labels.get(GENERATION) != str(spec.generation):
                raise NameTaken(f"pod {spec.name} of cluster {self.name} exists and is not ours.") from None

    def _space(self, spec: ReplicaSpec) -> str:
        return spec.namespace or self.namespaces[0]

    # What is to end

    def delete(self, replicas: Sequence[Replica], grace_seconds: float | None = None) -> None:
        """Ask pods to stop, by uid, and return at once; their status and output stay until they are forgotten."""
        with ThreadPoolExecutor(_PARALLEL) as pool:
            builtins.list(pool.map(lambda replica: self._stop(replica, grace_seconds), replicas))

    def _stop(self, replica: Replica, grace_seconds: float | None) -> None:
        path = f"{_pods(replica.namespace)}/{replica.name}"
        try:
            found = self._api.get(path)
            if found["metadata"]["uid"] != replica.uid or has_ended(found):
                return
            started = (found.get("status") or {}).get("startTime") and replica.phase is not Phase.PENDING
            if grace_seconds is None and started and stop_asked(found) is None:
                self._api.patch(path, _deadline(replica.uid))
            else:
                self._remove(path, replica.uid, grace_seconds)
        except (NotFound, Conflict):
            return  # it is gone, or another has its name

    def _remove(self, path: str, uid: str, grace_seconds: float | None = None) -> None:
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        body["propagationPolicy"] = "Background"
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = round(grace_seconds)
        try:
            self._api.delete(path, body)
        except Conflict:
            return

    def discard_checkpoints(self, job: str, namespace: str | None) -> bool:
        """Remove the claim that was made for a job, by uid; one of that name that is not ours stays."""
        path = f"{_claims(namespace or self.namespaces[0])}/{manifests.claim_name(job)}"
        try:
            found = self._api.get(path)
        except NotFound:
            return False
        labels = found["metadata"].get("labels") or {}
        if any(labels.get(key) != value for key, value in manifests.job_labels(job).items()):
            return False
        self._remove(path, found["metadata"]["uid"])
        return True

    def output(self, replica: Replica, cursor: str | None, limit_bytes: int = 1 << 20) -> Output:
        """Return the lines of the pod's log from ``cursor`` on; one that outruns its reader is followed from then."""
        known, ended, path = Cursor.read(cursor), replica.phase.ended, f"{_pods(replica.namespace)}/{replica.name}/log"
        if replica.phase is Phase.PENDING:
            return Output((), known.write(), ended=False)
        followed = self._followers.take(replica.uid, known, limit_bytes)
        if followed is not None and (followed.lines or not ended):
            return _output(followed, ended=False)
        piece = self._poll(path, known, ended, limit_bytes)
        if followed is not None and piece.missed:  # what is not there any more is on its way to us
            followed = self._followers.take(replica.uid, known, limit_bytes, wait=_REST_SECONDS)
            if followed is not None and followed.lines:
                return _output(followed, ended=False)
        if ended:
            self._followers.end(replica.uid)
        elif replica.index == 0 and (piece.missed or is_fast(piece.lines)):  # of the others, gaps do no harm
            self._followers.begin(replica.uid, self._opener(path), piece.cursor)
        return _output(piece, ended=ended and piece.complete)

    def _poll(self, path: str, known: Cursor, ended: bool, limit_bytes: int) -> Piece:
        while True:
            try:
                data = self._api.text(path, **_LOG, sinceTime=known.since, limitBytes=limit_bytes)
            except (NotFound, SpecificationError):
                return Piece((), known, missed=False, complete=True)  # 400: the container has never started
            cut = len(data) >= limit_bytes
            piece = parse(data, known, cut=cut, ended=ended)
            if piece.lines or not cut or limit_bytes >= _LARGEST_READ:
                return piece
            limit_bytes *= 4  # more than this was written within one second, or in one line

    def _opener(self, path: str) -> Open:
        return lambda since: self._api.stream(path, **_LOG, sinceTime=since, follow="true")

    def forget(self, job: str, before: int | None = None) -> None:
        """Remove what is left of the job's ended replicas, or of its generations before ``before``."""
        for space in self.namespaces:
            path = f"/api/v1/namespaces/{space}/configmaps"
            for owner in builtins.list(self._api.items(path, labelSelector=f"{JOB}={job}")):
                generation = owner["metadata"]["labels"].get(GENERATION)
                if before is None or (generation is not None and int(generation) < before):
                    self._remove(f"{path}/{owner['metadata']['name']}", owner["metadata"]["uid"])


def _output(piece: Piece, ended: bool) -> Output:
    return Output(piece.lines, piece.cursor.write(), ended=ended, missed=piece.missed)


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _claims(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


def _deadline(uid: str) -> Json:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "metadata": {"uid": uid, "annotations": {STOP_ASKED: now}},
        "spec": {"activeDeadlineSeconds": 1},
    }


def _replicas(pods: Sequence[Json], sight: Sight) -> Iterator[Replica]:
    for pod in pods:
        try:
            yield replica_of(pod, sight)
        except (KeyError, ValueError):
            _log.warning("pod %s has Optimus' labels, but not all of them; left alone", pod["metadata"].get("name"))


def _may_be_away(pod: Json) -> bool:
    """Say whether a pod that seems to run is not ready, or should be gone by now."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    unready = any(each.get("type") == "Ready" and each.get("status") != "True" for each in conditions)
    return bool(pod["metadata"].get("deletionTimestamp")) or (
        (pod.get("status") or {}).get("phase") == "Running" and unready
    )


def _has_image(spec: ReplicaSpec) -> bool:
    containers = (spec.pod.get("spec") or {}).get("containers") or ()
    return any(each.get("name") == MAIN and each.get("image") for each in containers)
