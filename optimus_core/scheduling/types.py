"""The snapshot that a plan is made from, and the plan: plain, frozen, JSON with a schema.

Amounts are whole numbers as in :mod:`optimus_core.resources` (millicores, bytes, devices), times are seconds since
the epoch, durations seconds. A snapshot holds everything that :func:`optimus_core.scheduling.plan.plan` may know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    ValidationError,
    ValidationInfo,
)

from optimus_core import checks
from optimus_core.choices import MOST_REPLICAS
from optimus_core.errors import SpecificationError
from optimus_core.models.speed import SpeedModel
from optimus_core.reasons import Number, Reason

SNAPSHOT_VERSION = 1
"""Raised whenever an older reader would misunderstand a snapshot."""

_LARGEST = 2**53
"""Of one resource: a plan's sums stay far below what 64 bits hold."""


def _countable(amount: int, info: ValidationInfo) -> int:
    """What a cluster says it has may be more than a plan counts; in a file it is a mistake."""
    if amount > _LARGEST and info.context:
        raise ValueError(f"an amount is at most {_LARGEST}")
    return min(amount, _LARGEST)


Amounts = dict[str, Annotated[NonNegativeInt, AfterValidator(_countable)]]
"""Resource name -> whole amount: ``cpu`` in millicores, ``memory`` in bytes, devices in pieces."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Node(_Frozen):
    """A machine: what it offers and what others than Optimus use of it."""

    name: str
    allocatable: Amounts
    others: Amounts = {}
    """What replicas that are not ours ask for."""
    labels: dict[str, str] = {}
    ready: bool = True
    """False: nothing new is placed here; what runs here is kept."""


class Size(_Frozen):
    """Numbers of parameter servers and of workers; (0, 0) is paused or not started."""

    servers: Annotated[int, Field(ge=0, le=checks.MOST)] = 0
    workers: Annotated[int, Field(ge=0, le=checks.MOST)] = 0

    def __bool__(self) -> bool:
        return self.workers > 0 or self.servers > 0


NOTHING = Size()
"""No replica at all."""
Placement = dict[str, Size]
"""Node name -> the replicas on it. A scheduler process, if there is one, sits on the first node by name."""


class Remaining(_Frozen):
    """What a job still has to do. Without a value nothing is known."""

    value: NonNegativeFloat | None = None
    low: NonNegativeFloat | None = None
    """Lower end of the interval that the estimator gives."""
    high: NonNegativeFloat | None = None
    unit: str = "steps"
    source: str = "unknown"
    """Who says so: such as ``declared``, ``fitted``, ``history``, ``unknown``."""


class JobView(_Frozen):
    """One job as the scheduler sees it."""

    name: str
    workload: str = ""
    state: Literal["queued", "running", "paused"]
    arrived: float
    """When it was queued first: seconds since the epoch."""
    priority: Annotated[int, Field(ge=-checks.MOST, le=checks.MOST)] = 0
    """Who has more gets its minimum first."""
    deadline: float | None = None
    """When it should be done: seconds since the epoch. Who would be late at its minimum counts for more."""
    pool: str = "default"
    """Whose guarantee and ceiling it counts for."""
    strategy: Literal["ps_sync", "ps_async", "allreduce"] = "allreduce"
    """Only the ``ps_`` strategies have parameter servers."""
    worker_demand: Amounts
    server_demand: Amounts = {}
    scheduler_demand: Amounts = {}
    """Of one further process, on the first node of the placement; empty if the framework needs none."""
    min_workers: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = 1
    max_workers: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = 1
    min_servers: Annotated[int, Field(ge=0, le=MOST_REPLICAS)] = 0
    max_servers: Annotated[int, Field(ge=0, le=MOST_REPLICAS)] = 0
    batch_per: str = "job"
    """What keeps its batch when the size changes: the ``job`` or each ``worker``; the speed model has it too."""
    size: Size = NOTHING
    """What it has now; (0, 0) if nothing."""
    placement: Placement = {}
    pinned: Size | None = None
    """A person's wish that stands above the allocation."""
    barred: list[Size] = []
    """Sizes that are not to be tried now, e.g. since they have just failed to start."""
    colocate: bool = False
    """All its replicas lie on one node."""
    resizable: bool = True
    """False: once it runs, it keeps its size."""
    remaining: Remaining = Remaining()
    speed: dict[str, Any] = {}
    """A speed model as ``SpeedModel.to_dict`` gives it; empty: no size is better than another. A default model counts
    as a shape only: the job may start larger than its minimum, but nothing is predicted of it."""
    work_per_step: Literal["constant", "workers"] = "constant"
    """``workers``: a step of w workers does w times the work of a step of one (a synchronous job with a batch per
    worker); ``remaining`` then counts steps of one worker. ``constant``: every step is the same work."""
    young: bool = False
    """It has just begun: its estimates are not to be trusted fully."""
    restart_cost: NonNegativeFloat | None = None
    """Seconds that a change of size costs it, as measured; None: the settings' default."""
    not_before: float | None = None
    """It is not started before this time (it backs off after a failure)."""
    has_checkpoint: bool = False
    """Whether a complete checkpoint of it is confirmed: without one, a running job is never paused."""
    paused_seconds: NonNegativeFloat = 0.0
    """How long it has been paused in all since it last held its minimum for good."""
    avoid: list[str] = []
    """Nodes where workers of it were slow: its minimum is placed there only if there is no room elsewhere, and more
    than that never."""
    straggler: dict[str, Number] = {}
    """What was found of slow workers that are to be replaced, in numbers; empty: nothing."""
    seconds_at_size: NonNegativeFloat | None = None
    """How long it has had its size; None if it has none or nobody knows."""
    specification: dict[str, Any] = {}
    """What the user wrote, without secrets; for people, the plan does not read it."""


class Pool(_Frozen):
    """What a part of the jobs is guaranteed together, and what it may have at most."""

    name: str
    guaranteed: Amounts = {}
    """Its own whenever its jobs can use it; others borrow it while they can't."""
    guaranteed_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The same as a part of what the cluster has, of each resource that ``guaranteed`` does not name."""
    ceiling: Amounts = {}
    """What it never exceeds, of the resources named here."""
    ceiling_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """The same as a part of what the cluster has, of each resource that ``ceiling`` does not name; None: all."""

    def limits(self, capacity: Mapping[str, int]) -> tuple[Amounts, Amounts]:
        """Return the guarantee and the ceiling in a cluster that has ``capacity``; what has no ceiling is left out.

        A part of the cluster is one of its processors, memory and devices, not of what only stands for something else.
        """
        own, most = self._as_declared(capacity)
        return own, {name: max(amount, own.get(name, 0)) for name, amount in most.items()}

    def raised(self, capacity: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        """Return resource -> (declared ceiling, guarantee) where :meth:`limits` raises the one to the other."""
        own, most = self._as_declared(capacity)
        return {name: (amount, own[name]) for name, amount in most.items() if amount < own.get(name, 0)}

    def _as_declared(self, capacity: Mapping[str, int]) -> tuple[Amounts, Amounts]:
        real = {name: whole for name, whole in capacity.items() if " " not in name and name != "pods"}
        own = {name: int(self.guaranteed_share * whole) for name, whole in real.items()} | self.guaranteed
        most = {} if self.ceiling_share is None else {n: int(self.ceiling_share * whole) for n, whole in real.items()}
        return own, most | self.ceiling


class Draining(_Frozen):
    """What still terminates and belongs to no present placement: the plan counts on it to become free soon."""

    job: str
    node: str
    resources: Amounts


class PlanSettings(_Frozen):
    """What of the settings a plan depends on."""

    pausing: Literal["auto", "never"] = "never"
    """``auto``: jobs whose remaining work is known may be paused, or wait, for shorter ones; ``never``: what runs keeps
    its minimum."""
    max_paused: NonNegativeFloat = 3600.0
    """Seconds that a job may be paused in all before it holds its minimum again."""
    young_factor: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Factor on the gain of a job whose prediction is unreliable (section 4 of the Optimus paper)."""
    default_restart_cost: NonNegativeFloat = 15.0
    """Seconds that a change costs a job of which none has been measured."""
    min_gain: NonNegativeFloat = 0.2
    """A change must save more than the restart cost times (1 + this); above 0 so that equals don't take turns."""
    min_seconds_at_size: NonNegativeFloat = 0.0
    """A job that has had its size for less than this many seconds is only changed if it must be."""
    remaining_weight: Annotated[float, Field(ge=0, le=4)] = 0.0
    """Exponent r: seconds of a job count (seconds it would take at its minimum) ** -r. 0 is the paper: the sum of
    completion times; larger favours short jobs."""


class Snapshot(_Frozen):
    """A cluster at one moment with the jobs that want it."""

    version: int = SNAPSHOT_VERSION
    time: float
    """Seconds since the epoch."""
    cluster: str = "default"
    settings: PlanSettings = PlanSettings()
    nodes: list[Node] = []
    jobs: list[JobView] = []
    draining: list[Draining] = []
    pools: list[Pool] = []
    """Jobs of a pool that is not here have no guarantee and no ceiling."""

    def to_json(self, indent: int | None = None) -> str:
        """Return the snapshot as JSON text."""
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Snapshot:
        """Read a snapshot as :meth:`to_json` wrote it.

        Raises:
            SpecificationError: the text is no JSON, of another version, does not follow the schema, or contradicts
                itself.
        """
        try:
            version = _Version.model_validate_json(text).version
        except ValidationError as error:
            raise SpecificationError(
                f"The snapshot can't be read: {_first(error)}. Give what `optimus plan --save-snapshot FILE` wrote."
            ) from error
        if version != SNAPSHOT_VERSION:
            raise SpecificationError(
                f"The snapshot is of version {version}; this Optimus reads version {SNAPSHOT_VERSION}. "
                f"Take a new snapshot, or read it with the Optimus that wrote it."
            )
        try:
            snapshot = cls.model_validate_json(text, context={"from": "file"})
        except ValidationError as error:
            raise SpecificationError(
                f"The snapshot does not follow its schema: {_first(error)}. Correct it, or take a new one: "
                "optimus plan --save-snapshot FILE"
            ) from error
        for problem in _contradictions(snapshot):
            raise SpecificationError(f"The snapshot contradicts itself: {problem}")
        return snapshot


class _Version(BaseModel):
    version: int


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    given = "" if isinstance(problem["input"], dict | list | bytes) else f", not {checks.shown(problem['input'])}"
    return f"{where}: {problem['msg']}{given}" if where else problem["msg"]


def _contradictions(snapshot: Snapshot) -> Iterator[str]:
    """Yield what no cluster can be in, which the schema can't say."""
    for kind in ("nodes", "jobs", "pools"):
        names = [each.name for each in getattr(snapshot, kind)]
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{count} {kind} have the name {checks.shown(name)}. Give each a name of its own."
    for job in snapshot.jobs:
        yield from (f"job {checks.shown(job.name)}: {problem}" for problem in _contradictions_of(job))


def _contradictions_of(job: JobView) -> Iterator[str]:
    for role in ("workers", "servers"):
        least, most = getattr(job, f"min_{role}"), getattr(job, f"max_{role}")
        if least > most:
            yield f"min_{role} is {least}, more than max_{role}, which is {most}. Write a max of at least {least}."
        size, placed = getattr(job.size, role), sum(getattr(seats, role) for seats in job.placement.values())
        if size != placed:
            yield f"size has {size} {role}, but placement {placed}. Write the same in both."
    try:
        if job.speed:
            SpeedModel.from_dict(job.speed).predict(1, 1)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        yield (
            f"speed is no speed model ({type(error).__name__}: {error}). "
            "Write what SpeedModel.to_dict gives, or {} if nothing is known."
        )


def snapshot_schema() -> dict[str, Any]:
    """Return the JSON schema of a snapshot."""
    return Snapshot.model_json_schema()


class Decision(_Frozen):
    """What one job shall have, and why."""

    job: str
    size: Size
    """Wanted; (0, 0): it waits."""
    placement: Placement
    present: Size
    reason: Reason
    remaining: Remaining
    seconds_saved_by_one_worker: float | None = None
    """How much sooner it would be done with one more worker; negative: later; None: unknown or not allowed."""
    seconds_saved_by_one_server: float | None = None
    predicted_seconds: float | None = None
    """Until it is done at the wanted size; None if unknown or waiting."""
    late_seconds: float | None = None
    """How long after its deadline it will be done at the wanted size; None if in time, unknown, or without one."""
    waits_for: Reason | None = None
    allocation: dict[str, float] = {}
    """What the allocation reckoned with: ``worth`` of a second at the size that it chose, ``price`` of a second of
    what that holds, and ``longer``, the weight of the jobs that have more left to do and wait for it."""
    changed: bool
    """Whether size or placement differ from the present."""


class PoolUse(_Frozen):
    """What a pool has once everything is as decided."""

    name: str
    guaranteed: Amounts = {}
    ceiling: Amounts = {}
    """Of resources that are not here: no ceiling."""
    held: Amounts = {}
    borrowed: Amounts = {}
    """What it has beyond its guarantee."""
    lacking: Amounts = {}
    """What it could use of its guarantee and does not have (yet)."""
    jobs: int = 0
    waiting: int = 0


class Plan(_Frozen):
    """The decisions for all jobs of a cluster, by name, and what they leave free."""

    cluster: str
    time: float
    decisions: list[Decision]
    free: dict[str, Amounts]
    """Node -> what is left of a ready node once everything is as decided."""
    pools: list[PoolUse] = []
    """By name; empty if the cluster declares no pools."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return self.model_dump(mode="json")
