"""The tables. Times are UTC-aware; whatever has a changing shape is JSON.

Each column has one writer (docs/architecture.md): specification, attempt and token the execute; the wish to
stop its asker; wanted generations and reasons the round; generation states and verdicts reconcile; cursors and
points the collector; pin, priority and deadline the user.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Float, ForeignKey, Index, Integer, String, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """A UTC-aware datetime on databases with and without time zones; a naive one is refused."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Store in UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; Optimus keeps UTC-aware times only")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give back in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """All tables of Optimus, named ``optimus_*``."""

    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: JSON, list[Any]: JSON}


class MetaRow(Base):
    """Facts of the store itself, such as the host that a SQLite file serves."""

    __tablename__ = "optimus_meta"
    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class ClusterRow(Base):
    """A cluster's revision of what is wanted of it, and the lease of its rounds."""

    __tablename__ = "optimus_clusters"
    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    declaration: Mapped[dict[str, Any] | None]
    """How it is reached if a job declared it on the spot, as ``clusters.yaml`` would say it."""
    revision: Mapped[int] = mapped_column(default=0)
    revised_at: Mapped[datetime | None]
    planned_revision: Mapped[int] = mapped_column(default=0)
    planned_at: Mapped[datetime | None]
    lease_epoch: Mapped[int] = mapped_column(default=0)
    lease_holder: Mapped[str | None] = mapped_column(String(256))
    lease_expires: Mapped[datetime | None]


class JobRow(Base):
    """One job: what is asked for, who owns it, where it stands."""

    __tablename__ = "optimus_jobs"
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(1200), unique=True)
    name: Mapped[str] = mapped_column(String(63), unique=True)
    title: Mapped[str] = mapped_column(String(600), index=True)
    cluster: Mapped[str] = mapped_column(String(128), index=True)
    deployment: Mapped[str] = mapped_column(String(128))
    dag_id: Mapped[str | None] = mapped_column(String(250))
    run_id: Mapped[str | None] = mapped_column(String(250))
    task_id: Mapped[str | None] = mapped_column(String(250))
    map_index: Mapped[int | None]
    pool: Mapped[str] = mapped_column(String(128), default="default")
    workload: Mapped[str] = mapped_column(String(700), index=True)
    state: Mapped[str] = mapped_column(String(16), index=True)
    attempt: Mapped[int] = mapped_column(default=1)
    lineage: Mapped[int] = mapped_column(default=1)
    """Counts starts from scratch: checkpoints are read within one lineage."""
    try_number: Mapped[int] = mapped_column(default=1)
    token: Mapped[str] = mapped_column(String(32))
    specification: Mapped[dict[str, Any]]
    specification_hash: Mapped[str] = mapped_column(String(64))
    priority: Mapped[int] = mapped_column(default=0)
    deadline: Mapped[datetime | None]
    pin: Mapped[dict[str, Any] | None]
    wanted: Mapped[int] = mapped_column(default=0)
    """Number of the newest generation that a round asked for; 0 before the first."""
    not_before: Mapped[datetime | None]
    verdict: Mapped[str | None] = mapped_column(String(16))
    cause: Mapped[dict[str, Any] | None]
    retries: Mapped[dict[str, Any]] = mapped_column(default=dict)
    memory_factor: Mapped[float] = mapped_column(default=1.0)
    added: Mapped[dict[str, Any] | None]
    """By role what the cluster adds to what a replica asks for: ``{"worker": {"cpu": 100}}``."""
    reason: Mapped[dict[str, Any] | None]
    estimate: Mapped[dict[str, Any] | None]
    step: Mapped[int | None] = mapped_column(BigInteger)
    epoch: Mapped[float | None]
    loss: Mapped[float | None]
    total_steps: Mapped[int | None] = mapped_column(BigInteger)
    step_at: Mapped[datetime | None]
    checkpoint_step: Mapped[int | None] = mapped_column(BigInteger)
    checkpoint_path: Mapped[str | None] = mapped_column(Text)
    result: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime]
    queued_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    stepped_at: Mapped[datetime | None]
    """When somebody last drove it: an old time means that its trigger is gone."""
    version: Mapped[int] = mapped_column(default=1)
    __mapper_args__ = {"version_id_col": version}


class GenerationRow(Base):
    """The life of one allocation of one job."""

    __tablename__ = "optimus_generations"
    job_id: Mapped[int] = mapped_column(ForeignKey("optimus_jobs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int]
    servers: Mapped[int]
    workers: Mapped[int]
    placement: Mapped[dict[str, Any]]
    """Node name -> ``{"servers": n, "workers": n}``."""
    state: Mapped[str] = mapped_column(String(16))
    """wanted, starting, running, draining, gone or superseded."""
    reason: Mapped[dict[str, Any]]
    cause: Mapped[dict[str, Any] | None]
    """Why it is being stopped or how it ended."""
    wanted_at: Mapped[datetime]
    starting_at: Mapped[datetime | None]
    running_at: Mapped[datetime | None]
    draining_at: Mapped[datetime | None]
    gone_at: Mapped[datetime | None]
    first_step: Mapped[int | None] = mapped_column(BigInteger)
    first_step_at: Mapped[datetime | None]
    last_step: Mapped[int | None] = mapped_column(BigInteger)
    version: Mapped[int] = mapped_column(default=1)
    __mapper_args__ = {"version_id_col": version}


class EventRow(Base):
    """The history: every change of state with its time, cause and numbers."""

    __tablename__ = "optimus_events"
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("optimus_jobs.id", ondelete="CASCADE"))
    time: Mapped[datetime]
    attempt: Mapped[int]
    generation: Mapped[int | None]
    kind: Mapped[str] = mapped_column(String(40))
    cause: Mapped[dict[str, Any]]
    __table_args__ = (Index("optimus_events_of_job", "job_id", "id"),)


class SeriesRow(Base):
    """One metric of one job: a bounded series of points (telemetry's ``BoundedSeries.state()``)."""

    __tablename__ = "optimus_series"
    job_id: Mapped[int] = mapped_column(ForeignKey("optimus_jobs.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    state: Mapped[dict[str, Any]]
    points: Mapped[int] = mapped_column(default=0)


class SpeedRow(Base):
    """A speed seen: steps of a generation over seconds of one replica's own clock."""

    __tablename__ = "optimus_speeds"
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("optimus_jobs.id", ondelete="CASCADE"), index=True)
    workload: Mapped[str] = mapped_column(String(700))
    specification_hash: Mapped[str] = mapped_column(String(64))
    generation: Mapped[int]
    servers: Mapped[int]
    workers: Mapped[int]
    steps: Mapped[int] = mapped_column(BigInteger)
    seconds: Mapped[float] = mapped_column(Float)
    time: Mapped[datetime]
    __table_args__ = (Index("optimus_speeds_of_workload", "workload", "id"),)


class OutputRow(Base):
    """How far one replica's output was read, the reader's state, and the last of its text.

    ``written`` and ``told`` count characters: of all its text, and of what its task's log was given.
    """

    __tablename__ = "optimus_outputs"
    job_id: Mapped[int] = mapped_column(ForeignKey("optimus_jobs.id", ondelete="CASCADE"), primary_key=True)
    replica: Mapped[str] = mapped_column(String(63), primary_key=True)
    uid: Mapped[str] = mapped_column(String(64), primary_key=True)
    generation: Mapped[int]
    cursor: Mapped[str | None] = mapped_column(Text)
    reader: Mapped[dict[str, Any] | None]
    tail: Mapped[str] = mapped_column(Text, default="")
    written: Mapped[int] = mapped_column(BigInteger, default=0)
    told: Mapped[int] = mapped_column(BigInteger, default=0)
    ended: Mapped[bool] = mapped_column(default=False)
    gaps: Mapped[int] = mapped_column(default=0)
    unread: Mapped[int] = mapped_column(default=0)
    version: Mapped[int] = mapped_column(default=1)
    __mapper_args__ = {"version_id_col": version}


class WorkloadRow(Base):
    """What earlier runs of the same task taught."""

    __tablename__ = "optimus_workloads"
    name: Mapped[str] = mapped_column(String(700), primary_key=True)
    curve: Mapped[dict[str, Any] | None]
    total_steps: Mapped[float | None]
    restart_seconds: Mapped[float | None]
    memory: Mapped[dict[str, Any] | None]
    """Bytes by role that a replica had to be given after it ran out: ``{"worker": 100663296}``."""
    runs: Mapped[int] = mapped_column(default=0)
    updated_at: Mapped[datetime]


class RoundRow(Base):
    """A round: what it saw in short, what it changed and why."""

    __tablename__ = "optimus_rounds"
    id: Mapped[int] = mapped_column(primary_key=True)
    cluster: Mapped[str] = mapped_column(String(128), index=True)
    time: Mapped[datetime]
    epoch: Mapped[int]
    revision: Mapped[int]
    changes: Mapped[int] = mapped_column(Integer)
    plan: Mapped[dict[str, Any]]


class ActionRow(Base):
    """What a person did: stop, pin, unpin, rebalance."""

    __tablename__ = "optimus_actions"
    id: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[datetime]
    user: Mapped[str] = mapped_column(String(250))
    action: Mapped[str] = mapped_column(String(40))
    job_id: Mapped[int | None] = mapped_column(ForeignKey("optimus_jobs.id", ondelete="SET NULL"))
    detail: Mapped[dict[str, Any]]
