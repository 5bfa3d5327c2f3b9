"""The shapes of the API's answers and questions."""

from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from optimus_core import checks


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """Why there is no answer, and what to do."""

    detail: str


class Job(BaseModel):
    """A job as it stands. Times are ISO 8601 in UTC, durations seconds."""

    id: int
    name: str
    title: str
    cluster: str
    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int | None
    state: str
    phase: str
    attempt: int
    servers: int
    workers: int
    step: int | None
    epoch: float | None
    loss: float | None
    remaining_steps: float | None
    predicted_seconds: float | None
    deadline: str | None
    late_seconds: float | None
    reason: str
    reason_code: str | None
    pinned: dict[str, int] | None
    checkpoint_step: int | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    stepped_at: str | None


class JobsPage(BaseModel):
    """Some jobs, newest first; ``next`` is the ``before`` of the page after this one."""

    jobs: list[Job]
    total: int
    next: int | None


class Series(BaseModel):
    """One metric by step, cut down to what a screen shows; ``seen`` counts the points that there were."""

    name: str
    seen: int
    points: list[tuple[float, float]]


_Row = list[float | None]


class Curve(BaseModel):
    """The fitted loss as rows (step, loss, low, high), and the end that it predicts: (step, earliest, latest)."""

    rows: list[_Row]
    end: _Row
    never: bool
    threshold: float | None
    criterion: str
    prior_share: float


class SpeedMap(BaseModel):
    """Steps a second at the sizes allowed: rows (servers, workers, speed, low, high); ``guessed``: none was seen."""

    servers: list[int]
    workers: list[int]
    rows: list[list[float]]
    guessed: bool


class Charts(BaseModel):
    """What is drawn of a job; what is not known yet is null or empty."""

    loss: str | None
    """Which of the series the curve is fitted to."""
    curve: Curve | None
    earlier: list[list[tuple[float, float]]]
    """The same of earlier runs of the workload: points (step, loss)."""
    speed: SpeedMap | None
    predictions: list[_Row]
    """What was predicted when: rows (seconds since the epoch, seconds left, low, high)."""
    finish: _Row | None
    """Seconds left: (value, low, high)."""
    replica_hours: float


class JobDetail(BaseModel):
    """Everything of one job."""

    job: Job
    editable: bool
    estimate: dict[str, Any]
    charts: Charts
    generations: list[dict[str, Any]]
    events: list[dict[str, Any]]
    series: list[Series]
    speeds: list[dict[str, float]]
    replicas: list[dict[str, Any]]


class Node(BaseModel):
    """A node: what it offers, what others hold of it, and who of ours holds what (cpu in millicores, bytes)."""

    name: str
    ready: bool
    allocatable: dict[str, int]
    others: dict[str, int]
    jobs: dict[str, dict[str, int]]


class Waiting(BaseModel):
    """A job that waits: its place in the queue, and when it is predicted to start; null where that is not known."""

    name: str
    title: str
    state: str
    priority: int
    position: int | None
    since: str
    starts_at: str | None
    why: str


class HeldSize(BaseModel):
    """A size that a job held: one generation."""

    job: str
    name: str
    job_state: str
    number: int
    state: str
    servers: int
    workers: int
    starting_at: str
    gone_at: str | None
    why: str
    ended_by: str


class RoundLine(BaseModel):
    """A round that changed something."""

    id: int
    time: str
    changes: int


class Pool(BaseModel):
    """A pool of a cluster: amounts by resource, ``cpu`` in millicores, ``memory`` in bytes, devices in pieces."""

    name: str
    guaranteed: dict[str, int]
    ceiling: dict[str, int]
    held: dict[str, int]
    borrowed: dict[str, int]
    jobs: int
    waiting: int


class ClusterView(BaseModel):
    """A cluster; ``error`` says why its nodes are not known."""

    cluster: str
    error: str | None
    planned_at: str | None
    nodes: list[Node]
    pools: list[Pool]
    queue: list[Waiting]
    sizes: list[HeldSize]
    rounds: list[RoundLine]
    may_rebalance: bool


class Counts(BaseModel):
    """How many live jobs there are of the DAGs that the user may read, and which clusters; ``cluster`` is the usual."""

    live: int
    running: int
    waiting: int
    late: int
    cluster: str
    clusters: list[str]


class Replicas(BaseModel):
    """Numbers of parameter servers and workers."""

    servers: int
    workers: int


class RoundDecision(BaseModel):
    """What a round decided about a job; ``changed`` is false if the change would not have been worth its cost."""

    name: str
    title: str
    before: Replicas
    after: Replicas
    changed: bool
    why: str


class RoundView(BaseModel):
    """What a round changed, and what it would have changed but for the cost."""

    id: int
    time: str
    decisions: list[RoundDecision]


class Started(BaseModel):
    """A run of the rebalance DAG."""

    dag_id: str
    run_id: str


_Whole = BeforeValidator(lambda given: int(given) if isinstance(given, float) and given.is_integer() else given)
"""With ``strict``: what JSON calls an integer, 1 and 1.0, but neither "1" nor true."""


class Pin(_Strict):
    """A size to hold."""

    workers: Annotated[int, Field(strict=True, ge=1, le=checks.MOST), _Whole]
    servers: Annotated[int, Field(strict=True, ge=0, le=checks.MOST), _Whole] | None = None


_Name = Annotated[str, Field(max_length=600)]
_Priority = Annotated[int, Field(strict=True, ge=-checks.MOST, le=checks.MOST), _Whole]


class WhatIf(_Strict):
    """What would be different: names of nodes and jobs; priorities and deadlines (with zone) by the job's name."""

    without_node: _Name | None = None
    add_like_node: _Name | None = None
    without_job: _Name | None = None
    priority: Annotated[dict[_Name, _Priority], Field(max_length=100)] = {}
    deadline: Annotated[dict[_Name, AwareDatetime], Field(max_length=100)] = {}


class Decision(BaseModel):
    """What a plan gives to a job."""

    servers: int
    workers: int
    predicted_seconds: float | None
    late_seconds: float | None
    why: str


class Comparison(BaseModel):
    """A job now and under the changed conditions; ``then`` is null if it would be gone."""

    name: str
    title: str
    now: Decision
    then: Decision | None
