"""What a user asks for: a training job, with bounds on its size instead of a size."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from optimus_core import checks, job_rules, pod_rules
from optimus_core.choices import (
    STOPS,
    STRATEGIES,
    AllReduce,
    Converged,
    Epochs,
    Loss,
    ParameterServer,
    Replicas,
    Steps,
    Stop,
    Strategy,
    stop_from,
    strategy_from,
    to_data,
)
from optimus_core.counted import counted
from optimus_core.errors import SpecificationError
from optimus_core.resources import Resources, format_amount, total

__all__ = [
    "AllReduce", "Converged", "Epochs", "Loss", "ParameterServer", "Replicas", "Steps", "Stop", "Strategy",
    "TrainingJob", "capacity_check", "load_job_file", "work_per_step",
]  # fmt: skip

FRAMEWORKS = ("mxnet", "tensorflow", "pytorch", "torchrun")
BATCH_PER = ("job", "worker")
ON_FINISH = ("delete_pod", "delete_succeeded_pod", "keep_pod")
TEMPLATES = ("pod", "worker_pod", "server_pod")


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """A training job: what each replica runs and asks for, and between which sizes Optimus may choose."""

    name: str
    """For people, and the identity of a job that no Airflow task runs."""
    command: Sequence[str]
    """What each replica runs: a program and its arguments, no shell."""
    strategy: Strategy
    """How the replicas work together."""
    workers: Replicas
    """Those that compute gradients."""
    servers: Replicas | None = None
    """The parameter servers; only for :class:`ParameterServer`, and needed there."""
    batch_size: int | None = None
    """Samples in a batch: of the whole job or of one worker, as ``batch_per`` says. None: nobody says."""
    batch_per: str = "job"
    """``job``: more workers share the batch. ``worker``: more workers make a step's batch larger."""
    stop: Stop | None = None
    """When the job has had enough. None: when the script ends."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of each replica."""
    image: str | None = None
    """The container's image, where replicas are containers."""
    working_dir: str | None = None
    """Where the command starts."""
    framework: str | None = None
    """``mxnet``, ``tensorflow``, ``pytorch`` or ``torchrun``: whose variables are set besides those of Optimus."""
    workload: str | None = None
    """Jobs of one workload learn from each other. None: all runs of the same task."""
    priority: int = 0
    """Who has more gets its minimum first."""
    deadline: datetime | None = None
    """When the job should be done."""
    samples_per_epoch: int | None = None
    """Samples in the data, if known."""
    steps_per_epoch: int | None = None
    """Batches in the data, if known."""
    metrics: str | None = None
    """A regular expression for the output, with a group ``loss``, or the groups ``name`` and ``value``."""
    resumable: bool = True
    """False: the script keeps no checkpoints, so the job is never resized."""
    grace_seconds: float = 30
    """Time from the request to stop until the kill."""
    retries: int = 3
    """Further tries after failures, counted for each class of failure on its own."""
    pool: str = "default"
    """Whose quota the job counts against."""
    start_timeout: float = 300
    """Seconds in which all replicas must run."""
    hang_timeout: float | None = None
    """Seconds without a step after which the job hangs. None: learned from its usual times between steps."""
    namespace: str | None = None
    """Where replicas are pods: their namespace. None: the cluster's first."""
    checkpoints: Mapping[str, str] | None = None
    """Where replicas are pods: ``{"claim": NAME}``, ``{"storage_class": NAME, "size": SIZE}`` for a claim of
    its own, or ``{"url": URL}``. None: what the cluster declares."""
    colocate: bool = False
    """True: all replicas lie on one node, so that the job never has more than one node holds."""
    pod: Mapping[str, Any] = field(default_factory=dict)
    """Where replicas are pods: a template for all of them, with a pod's ``metadata`` and ``spec``."""
    worker_pod: Mapping[str, Any] = field(default_factory=dict)
    """The same for workers only, on top of ``pod``."""
    server_pod: Mapping[str, Any] = field(default_factory=dict)
    """The same for servers only, on top of ``pod``."""
    on_finish: str = "delete_pod"
    """Where replicas are pods: ``keep_pod`` leaves them for people to look at, ``delete_succeeded_pod`` after a
    failure only."""

    def __post_init__(self) -> None:
        self.validate()
        object.__setattr__(self, "command", tuple(self.command))
        object.__setattr__(self, "env", dict(self.env))
        if self.deadline is not None:
            object.__setattr__(self, "deadline", self.deadline.astimezone(UTC))

    def validate(self) -> None:
        """Refuse what can't be; runs at construction.

        Raises:
            SpecificationError: begins with the job's name and says what to write instead.
        """
        try:
            checks.text(self.name, "name", "resnet", longest=250)
        except SpecificationError as error:
            raise SpecificationError(f"a job's {error}") from None
        try:
            job_rules.command(self.command)
            _check_strategy(self)
            _check_stop(self.stop)
            _check_batch(self)
            job_rules.environment(self.env)
            job_rules.metrics(self.metrics)
            _check_rest(self)
        except SpecificationError as error:
            raise SpecificationError(f'job "{self.name}": {error}') from error.__cause__

    @property
    def specification_hash(self) -> str:
        """16 hex digits over what makes a run another one; sizes, priority, deadline and stop change in place."""
        parts = {
            "command": list(self.command),
            "image": self.image,
            "env": dict(self.env),
            "strategy": to_data(self.strategy),
            "workers": _hashed(self.workers),
            "servers": _hashed(self.servers),
            "batch": [self.batch_size, self.batch_per],
            "working_dir": self.working_dir,
            "framework": self.framework,
        }
        pods = {name: getattr(self, name) for name in (*TEMPLATES, "namespace", "checkpoints", "colocate")}
        parts |= {name: value for name, value in pods.items() if value}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return the job as JSON and YAML hold it; what is not set is left out."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data |= {"command": list(self.command), "env": dict(self.env), "strategy": to_data(self.strategy)}
        data |= {"workers": self.workers.to_dict(), "servers": self.servers and self.servers.to_dict()}
        data["stop"] = to_data(self.stop) if self.stop else None
        data["deadline"] = self.deadline.isoformat() if self.deadline else None
        data |= {name: dict(data[name]) or None for name in TEMPLATES}
        return {key: value for key, value in data.items() if value is not None}

    def public_dict(self) -> dict[str, Any]:
        """Return :meth:`to_dict` without the values of environment variables: for logs, pages and snapshots."""
        pods = {name: pod_rules.without_values(getattr(self, name)) for name in TEMPLATES if getattr(self, name)}
        return self.to_dict() | {"env": dict.fromkeys(self.env, pod_rules.HIDDEN)} | pods

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], origin: str = "job file") -> TrainingJob:
        """Read what :meth:`to_dict` wrote, or a person.

        Args:
            data: the job as JSON or YAML hold it.
            origin: begins errors about the form.

        Raises:
            SpecificationError: a key is misspelt or missing, or the job can't be.
        """
        try:
            values = _from_data(data)
        except SpecificationError as error:
            raise SpecificationError(f"{origin}: {error}") from error.__cause__
        return cls(**values)


def load_job_file(path: str | Path) -> TrainingJob:
    """Read a job from a YAML or JSON file.

    Raises:
        SpecificationError: names the file, and the line if the file is broken.
    """
    data = checks.read_file(path, "job file", "{name: resnet, command: [python, train.py], ...}")
    return TrainingJob.from_dict(data, str(path))


def work_per_step(job: TrainingJob, workers: int) -> int:
    """Return how many batches of the declared size one step of ``workers`` workers is worth.

    More than one only where each worker has its own batch and all step together, unless the user counts in steps.
    """
    together = job.strategy.kind in ("ps_sync", "allreduce")
    return workers if job.batch_per == "worker" and together and not isinstance(job.stop, Steps) else 1


def capacity_check(
    job: TrainingJob, nodes: Iterable[tuple[str, Resources]], really: Mapping[str, Resources] | None = None
) -> None:
    """Refuse a job that never fits, whatever else runs. Without any node nothing is known, and nothing refused.

    Args:
        job: the job.
        nodes: name and amounts of each node when it is empty.
        really: what one of ``workers`` or ``servers`` takes with all that stands beside the training, if that is known.

    Raises:
        SpecificationError: one replica fits no node, or the minimum does not fit the whole cluster.
    """
    known = list(nodes)
    if not known:
        return
    roles = [("workers", job.workers)] + ([("servers", job.servers)] if job.servers is not None else [])
    needs = {role: replicas.demand for role, replicas in roles} | dict(really or {})
    for role, replicas in roles:
        _check_one_fits(job.name, role, needs[role], replicas.demand, known)
    for role, replicas in roles:
        places = sum(_times(needs[role], room) for _, room in known)
        if places < replicas.min:
            raise SpecificationError(
                f'job "{job.name}": {role}.min is {replicas.min}, but on the {counted(len(known), "node")} there is '
                f"room for {places} of {needs[role].describe()} each. Write a min of at most {places}, or ask for less "
                "in each."
            )
    least = total(needs[role] * replicas.min for role, replicas in roles)
    whole = total(room for _, room in known)
    if job.colocate and not any(least.fits_in(room) for _, room in known):
        raise SpecificationError(
            f'job "{job.name}": colocate keeps all replicas on one node, but its minimum '
            f"({_minimum(roles)}) asks for {least.describe()}, which no node holds. "
            "Write a smaller min, ask for less, or leave colocate out and use a claim with ReadWriteMany."
        )
    if not least.fits_in(whole):
        raise SpecificationError(
            f'job "{job.name}": its minimum ({_minimum(roles)}) asks for '
            f"{least.describe()}; the whole cluster holds {whole.describe()}. Write a smaller min, or ask for less."
        )


def _minimum(roles: Sequence[tuple[str, Replicas]]) -> str:
    return " and ".join(counted(replicas.min, role.removesuffix("s")) for role, replicas in roles)


def _check_one_fits(job: str, role: str, need: Resources, own: Resources, nodes: list[tuple[str, Resources]]) -> None:
    if any(need.fits_in(room) for _, room in nodes):
        return
    most = {name: max(room[name] for _, room in nodes) for name in need}
    lacking = [name for name in need if need[name] > most[name]]
    best, room = max(nodes, key=lambda node: ([node[1][name] for name in lacking or need], node[0]))
    if need != own:
        raise SpecificationError(
            f'job "{job}": one of {role} asks for {own.describe()}, and with the other containers of its pod and what '
            f"the cluster adds to it for {need.describe()}; no single node holds that. "
            f'The largest node, "{best}", holds {room.describe()}. Ask for less.'
        )
    if not lacking:
        raise SpecificationError(
            f'job "{job}": one of {role} asks for {need.describe()}; no single node holds all of it. '
            f'The largest node, "{best}", holds {room.describe()}. Ask for at most that.'
        )
    name = lacking[0]
    where = f"{role}.{name}" if name in ("cpu", "memory") else f'{role}.devices["{name}"]'
    raise SpecificationError(
        f'job "{job}": {where} is "{format_amount(name, need[name])}", more than any node holds. '
        f'The largest node, "{best}", holds {room.describe()}. Write at most "{format_amount(name, most[name])}".'
    )


def _times(demand: Resources, room: Resources) -> int:
    return min(max(room[name], 0) // amount for name, amount in demand.items())


def _hashed(replicas: Replicas | None) -> dict[str, Any] | None:
    if replicas is None:
        return None
    return {"demand": replicas.demand.to_quantities(), "node_selector": dict(replicas.node_selector)}


_EXAMPLES = {
    "name": "name: resnet",
    "command": "command: [python, train.py]",
    "strategy": "strategy: {parameter_server: {sync: true}}",
    "workers": 'workers: {cpu: "1", memory: 1Gi, min: 1, max: 4}',
}


def _from_data(data: object) -> dict[str, Any]:
    known = [f.name for f in fields(TrainingJob)]
    given = checks.mapping(data, "the job", "{name: resnet, ...}")
    if "quota" in given:
        raise SpecificationError(
            f'"quota" is what tasks of Airflow call it; a job has a "pool". Write pool: {checks.shown(given["quota"])}'
        )
    checks.keys(given, known, "a job")
    values = {key: value for key, value in given.items() if value is not None}
    for key, example in _EXAMPLES.items():
        if key not in values:
            raise SpecificationError(f'"{key}" is missing. Write such as {example}')
    values["strategy"] = strategy_from(values["strategy"])
    if "stop" in values:
        values["stop"] = stop_from(values["stop"])
    for role in ("workers", "servers"):
        if role in values:
            values[role] = _replicas_from(values[role], role)
    if isinstance(values.get("deadline"), str):
        values["deadline"] = _time_from(values["deadline"])
    return values


def _replicas_from(data: object, role: str) -> Replicas:
    given = checks.mapping(data, role, '{cpu: "1", memory: 1Gi}')
    checks.keys(given, [f.name for f in fields(Replicas)], role)
    for key, example in (("cpu", '"1"'), ("memory", '"1Gi"')):
        if given.get(key) is None:
            raise SpecificationError(f'{role} has no "{key}". Write such as {key}: {example}')
    return Replicas(**{key: value for key, value in given.items() if value is not None})


def _time_from(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise SpecificationError(
            f'deadline is "{value}", which is no time. Write such as "2026-08-01T12:00:00+00:00".'
        ) from None


def _check_strategy(job: TrainingJob) -> None:
    if not isinstance(job.strategy, STRATEGIES):
        raise SpecificationError(
            f"strategy is {checks.shown(job.strategy)}, which Optimus does not know. "
            "Write ParameterServer(sync=True), ParameterServer(sync=False) or AllReduce()."
        )
    job.strategy.check()
    for role, replicas in (("workers", job.workers), ("servers", job.servers)):
        if isinstance(replicas, Replicas):
            replicas.check(role)
        elif replicas is not None or role == "workers":
            raise SpecificationError(
                f"{role} is {checks.shown(replicas)}; it is what a replica asks for. "
                'Write such as Replicas(cpu="1", memory="1Gi", min=1, max=4).'
            )
    if isinstance(job.strategy, AllReduce) and job.servers is not None:
        raise SpecificationError(
            "strategy is AllReduce, which has no servers, but servers are given. "
            "Leave servers out, or write strategy=ParameterServer()."
        )
    if isinstance(job.strategy, ParameterServer) and job.servers is None:
        raise SpecificationError(
            "strategy is ParameterServer, but servers are not given. "
            'Write such as servers=Replicas(cpu="1", memory="1Gi", min=1, max=2), or strategy=AllReduce().'
        )


def _check_stop(stop: object) -> None:
    if stop is None:
        return
    if not isinstance(stop, STOPS):
        raise SpecificationError(
            f"stop is {checks.shown(stop)}, which is no stop criterion. Write Converged(0.01), Steps(500), Epochs(10), "
            "Loss(below=0.1), or leave it out to run until the script ends."
        )
    stop.check()


def _check_batch(job: TrainingJob) -> None:
    checks.one_of(job.batch_per, BATCH_PER, "batch_per")
    if job.batch_size is None:
        return
    size = checks.whole(job.batch_size, "batch_size", 1)
    if job.batch_per == "job" and job.workers.max > size:
        bound = "min" if job.workers.min > size else "max"
        raise SpecificationError(
            f"batch_size is {size} for the whole job, but workers.{bound} is {getattr(job.workers, bound)}: some "
            f"workers would get no sample. Write a batch_size of at least {job.workers.max}, workers.{bound}={size}, "
            'or batch_per="worker".'
        )


def _check_choices(job: TrainingJob) -> None:
    for name in ("resumable", "colocate"):
        if not isinstance(value := getattr(job, name), bool):
            raise SpecificationError(f"{name} is {checks.shown(value)}; it is a choice. Write true or false.")


def _check_rest(job: TrainingJob) -> None:
    if job.framework is not None:
        checks.one_of(job.framework, FRAMEWORKS, "framework")
    for name, example in (("image", "python:3.11"), ("working_dir", "/srv/train")):
        if getattr(job, name) is not None:
            checks.text(getattr(job, name), name, example)
    if job.workload is not None:
        checks.text(job.workload, "workload", "nightly-resnet", longest=600)
    checks.text(job.pool, "pool", "default", longest=128)
    checks.whole(job.priority, "priority")
    checks.whole(job.retries, "retries", 0, most=1000)
    for name in ("samples_per_epoch", "steps_per_epoch"):
        if getattr(job, name) is not None:
            checks.whole(getattr(job, name), name, 1, most=2**53)
    checks.number(job.grace_seconds, "grace_seconds", least=0)
    checks.number(job.start_timeout, "start_timeout", above=0)
    if job.hang_timeout is not None:
        checks.number(job.hang_timeout, "hang_timeout", above=0)
    _check_choices(job)
    job_rules.deadline(job.deadline)
    checks.one_of(job.on_finish, ON_FINISH, "on_finish")
    pod_rules.namespace(job.namespace)
    if job.checkpoints is not None:
        pod_rules.Checkpoints.read(job.checkpoints)
    for name in TEMPLATES:
        pod_rules.template(getattr(job, name), name)
