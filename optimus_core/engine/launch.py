"""From a generation in the store to the replicas that the cluster is asked for. Twice the same gives the same."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

import optimus_train
from optimus_core.cluster.base import OWNER_LABEL, CheckpointPlace, Cluster, Replica, ReplicaSpec, Role
from optimus_core.cluster.eligibility import Needs
from optimus_core.cluster.kubernetes.requests import pod_requests
from optimus_core.cluster.merge import merged
from optimus_core.engine.context import Context
from optimus_core.errors import ClusterUnavailable
from optimus_core.frameworks import Group, Member, environment, roles
from optimus_core.job import TrainingJob
from optimus_core.names import group_name, replica_name
from optimus_core.pod_rules import MAIN
from optimus_core.resources import Resources, total
from optimus_core.store import GenerationRow, JobRow

SCHEDULER_DEMAND = Resources.of(cpu="100m", memory="128Mi")
"""What MXNet's scheduler process gets; it only keeps addresses."""


def job_of(row: JobRow) -> TrainingJob:
    """Return the specification of a stored job."""
    return _read(json.dumps(row.specification))


@lru_cache(maxsize=4096)
def _read(specification: str) -> TrainingJob:
    """Read each specification once: a round asks for those of all jobs, and they seldom change."""
    return TrainingJob.from_dict(json.loads(specification))


def demand(job: TrainingJob, role: Role, memory_factor: float = 1.0) -> Resources:
    """Return what one replica of ``role`` takes of a node, with what the user's template has beside the training."""
    asked = _asked(job, role, memory_factor)
    spec = pod_template(job, role).get("spec") or {}
    containers = [each for each in spec.get("containers") or () if each.get("name") != MAIN]
    if not (containers or spec.get("initContainers") or spec.get("overhead")):
        return asked
    training = {"resources": {"requests": asked.to_quantities()}}
    return pod_requests(dict(spec) | {"containers": [training, *containers]})


def demand_of(row: JobRow, job: TrainingJob, role: Role) -> Resources:
    """Return what one replica of a stored job takes, with what its cluster adds to it."""
    return demand(job, role, row.memory_factor) + Resources((row.added or {}).get(role))


def added_to(job: TrainingJob, really: Mapping[Role, Resources]) -> dict[str, dict[str, int]]:
    """Return by role what a cluster adds to a replica that takes so much of it: defaults, sidecars, overhead."""
    added = {role: (asked - demand(job, role)).clamped() for role, asked in really.items()}
    added[Role.SCHEDULER] = added[Role.WORKER]  # it has the workers' template
    return {str(role): dict(amounts) for role, amounts in added.items() if amounts}


def _asked(job: TrainingJob, role: Role, memory_factor: float) -> Resources:
    """Return what the training itself asks for; memory grows by ``memory_factor`` after it ran out."""
    if role is Role.SCHEDULER:
        return SCHEDULER_DEMAND
    replicas = job.servers if role is Role.SERVER and job.servers is not None else job.workers
    asked = replicas.demand
    if memory_factor == 1.0:
        return asked
    return Resources({**asked, "memory": ceil(asked["memory"] * memory_factor)})


def demand_by_node(row: JobRow, generation: GenerationRow) -> dict[str, Resources]:
    """Return what a generation asks for of each node."""
    job = job_of(row)
    placed = place_members(job, generation)
    each = {role: demand_of(row, job, role) for role in {role for role, *_ in placed}}
    nodes = sorted({node for *_, node in placed})
    return {node: total(each[role] for role, _, at in placed if at == node) for node in nodes}


def place_members(job: TrainingJob, generation: GenerationRow) -> list[tuple[Role, int, str]]:
    """Return (role, index, node) of each replica of a generation; a scheduler sits beside worker 0."""
    seats = {
        Role.WORKER: _seats(generation.placement, "workers"),
        Role.SERVER: _seats(generation.placement, "servers"),
    }
    first = sorted(generation.placement)[0]
    placed = []
    for role, index in roles(job.framework, generation.servers, generation.workers):
        node = first if role is Role.SCHEDULER else next(seats[role])
        placed.append((role, index, node))
    return placed


def _seats(placement: Mapping[str, Mapping[str, int]], kind: str) -> Iterator[str]:
    return (node for node in sorted(placement) for _ in range(placement[node].get(kind, 0)))


def replica_specs(ctx: Context, row: JobRow, generation: GenerationRow, cluster: Cluster) -> list[ReplicaSpec]:
    """Return the replicas of a generation, each with its whole environment."""
    job = job_of(row)
    group, place = group_name(row.name, generation.number), checkpoint_place(job, row.name, cluster)
    placed = place_members(job, generation)
    endpoints = cluster.endpoints(group, [(role, index) for role, index, _ in placed])
    members = tuple(Member(role, index, endpoints[role, index]) for role, index, _ in placed)
    shared = Group(
        job=row.name,
        generation=generation.number,
        attempt=row.attempt,
        members=members,
        batch_size=job.batch_size,
        batch_per=job.batch_per,
        checkpoints=checkpoint_folder(ctx, row, place),
        confirmed_step=row.checkpoint_step if job.resumable else None,
        grace_seconds=job.grace_seconds,
    )
    library = cluster.library(runtime_folder(ctx))
    specs = []
    for member, (role, index, node) in zip(members, placed, strict=True):
        env = dict(job.env) | environment(job.framework, shared, member)
        env["PYTHONPATH"] = ":".join(filter(None, [library, job.env.get("PYTHONPATH", "")]))
        env.setdefault("PYTHONUNBUFFERED", "1")
        trial = _trial(job, row.name, role, index, generation.number, place)
        resources, labels = _asked(job, role, row.memory_factor), {OWNER_LABEL: owner_of(row)}
        specs.append(replace(trial, node=node, env=env, resources=resources, labels=labels))
    return specs


def pod_template(job: TrainingJob, role: Role) -> dict[str, Any]:
    """Return the user's template for the pods of a role."""
    return merged(job.pod, job.server_pod if role is Role.SERVER else job.worker_pod)


def needs_of(job: TrainingJob) -> dict[Role, Needs]:
    """Return role -> what its replicas need of a node."""
    needs = {Role.WORKER: Needs.of(job.workers.node_selector, pod_template(job, Role.WORKER))}
    if job.servers is not None:
        needs[Role.SERVER] = Needs.of(job.servers.node_selector, pod_template(job, Role.SERVER))
    return needs


def trial_specs(job: TrainingJob, name: str, cluster: Cluster) -> list[ReplicaSpec]:
    """Return one or two replicas of each role, on no node yet: what a cluster can judge before there is a plan."""
    place = checkpoint_place(job, name, cluster)
    each = [(Role.WORKER, job.workers)] + ([(Role.SERVER, job.servers)] if job.servers is not None else [])
    kinds = [(role, index) for role, replicas in each for index in range(min(2, replicas.max))]
    return [_trial(job, name, role, index, 0, place) for role, index in kinds]


def _trial(job: TrainingJob, name: str, role: Role, index: int, generation: int, place: CheckpointPlace) -> ReplicaSpec:
    """Return what of a replica its job alone says: it is on no node, and knows nobody else."""
    return ReplicaSpec(
        name=replica_name(name, role, index, generation),
        job=name,
        generation=generation,
        role=role,
        index=index,
        node="",
        resources=_asked(job, role, 1.0),
        command=tuple(job.command),
        env=dict(job.env),
        grace_seconds=job.grace_seconds,
        image=job.image,
        working_dir=job.working_dir,
        namespace=job.namespace,
        claim=place.claim,
        claim_made_of=place.made_of,
        colocated=job.colocate,
        pod=pod_template(job, role),
    )


def owner_of(row: JobRow) -> str:
    """Return which row of which store asks: the replicas of a wiped store are strangers to the next one."""
    return f"{row.id}-{row.created_at:%Y%m%dT%H%M%S%f}"


def is_stranger(replica: Replica, row: JobRow) -> bool:
    """Say whether a replica of this job's name was asked for by another row, deleted since or of a lost store."""
    return replica.owner not in ("", owner_of(row))


def checkpoint_place(job: TrainingJob, name: str, cluster: Cluster) -> CheckpointPlace:
    """Return where the checkpoints of the job that is called ``name`` in the cluster lie.

    Raises:
        SpecificationError: it keeps some and there is no place for them.
    """
    alone = job.workers.max == 1 and job.servers is None
    return cluster.checkpoint_place(name, job.checkpoints, resumable=job.resumable, together=job.colocate or alone)


def checkpoint_folder(ctx: Context, row: JobRow, place: CheckpointPlace) -> str:
    """Return where a job's checkpoints lie: a folder per start from scratch, below it one per generation.

    The job's time is in its name: a job of the same name that comes after this one was deleted must not find it.
    """
    root = str(ctx.settings.checkpoint_root) if place.root is None else place.root.rstrip("/")
    return f"{root}/{row.name}/{checkpoint_name(row, row.lineage)}"


def checkpoint_name(row: JobRow, lineage: int) -> str:
    """Return the name of the folder of a job's start from scratch, below the folder of its name."""
    return f"l{lineage}-{row.created_at:%Y%m%dT%H%M%S%f}"


def runtime_folder(ctx: Context) -> Path:
    """Return a folder that holds ``optimus_train`` and nothing else, to stand first on a replica's path.

    Raises:
        ClusterUnavailable: it can't be made now.
    """
    source = Path(next(iter(optimus_train.__path__)))
    folder = Path(ctx.settings.home) / "runtime" / _fingerprint(source)
    target = folder / "optimus_train"
    try:
        if not target.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _copy_whole(source, target)
    except (OSError, shutil.Error) as error:
        raise ClusterUnavailable(
            f"The library of replicas can't be copied to {folder}: {getattr(error, 'strerror', None) or error}. "
            "Make room there, or set OPTIMUS_HOME to a place that can be written."
        ) from error
    return folder


def _fingerprint(package: Path) -> str:
    """Return what changes with a package's files: an edited one must not go by an older copy."""
    files = sorted(package.glob("*.py"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]


def _copy_whole(source: Path, target: Path) -> None:
    """Copy a package so that nobody ever sees a part of it, however many copy it at once."""
    temporary = Path(tempfile.mkdtemp(prefix=".copying-", dir=target.parent.parent))
    try:
        shutil.copytree(source, temporary / "copy", ignore=shutil.ignore_patterns("__pycache__"))
        (temporary / "copy").rename(target)
    except OSError:
        if not target.exists():  # else another was faster
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
