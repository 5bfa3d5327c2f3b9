"""All queries, as methods of one transaction. Whoever reads to write locks the row first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.orm import Session, defer

from optimus_core.store.tables import (
    ActionRow,
    ClusterRow,
    EventRow,
    GenerationRow,
    JobRow,
    OutputRow,
    RoundRow,
    SeriesRow,
    SpeedRow,
    WorkloadRow,
)

LIVE = ("queued", "running", "paused", "stopping")
"""States of a job that has not ended."""
FINAL = ("succeeded", "failed", "stopped")
"""States of a job that has ended: no pod of it is left."""
ACTIVE = ("starting", "running", "draining")
"""States of a generation that may have pods, and so holds room."""


class Transaction:
    """One transaction on the store: commits when its block ends, rolls back when that raises."""

    def __init__(self, session: Session, now: datetime) -> None:
        self.session = session
        self.now = now
        """The database's clock at the begin of the transaction, UTC-aware."""

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Take back what a block has changed if it raises, and nothing else of the transaction."""
        with self.session.begin_nested():
            yield

    # -- clusters -------------------------------------------------------------------------------------------

    def cluster(self, name: str) -> ClusterRow:
        """Return the locked row of cluster ``name``, made if it is the first to be asked for."""
        row = self.session.get(ClusterRow, name, with_for_update=True)
        if row is None:
            row = ClusterRow(name=name, revision=0, planned_revision=0, lease_epoch=0)
            self.session.add(row)
            self.session.flush()
        return row

    def peek_cluster(self, name: str) -> ClusterRow | None:
        """Return the row of cluster ``name`` without locking it, None before anything used it."""
        return self.session.get(ClusterRow, name)

    def revise(self, cluster: str) -> None:
        """Say that something changed which the next round must see."""
        row = self.cluster(cluster)
        row.revision += 1
        row.revised_at = self.now

    def take_lease(self, cluster: str, holder: str, seconds: float) -> int | None:
        """Take the lease of ``cluster``'s rounds if it is free or expired; return its epoch, else None."""
        row = self.cluster(cluster)
        if row.lease_holder not in (None, holder) and row.lease_expires and row.lease_expires > self.now:
            return None
        row.lease_epoch += 1
        row.lease_holder = holder
        row.lease_expires = self.now + timedelta(seconds=seconds)
        return row.lease_epoch

    def holds_lease(self, cluster: str, epoch: int) -> bool:
        """Say whether ``epoch`` is still the newest lease: what an older one decided must not be written."""
        return self.cluster(cluster).lease_epoch == epoch

    def give_back_lease(self, cluster: str, epoch: int) -> None:
        """End the lease of ``epoch``, if it still holds."""
        row = self.cluster(cluster)
        if row.lease_epoch == epoch:
            row.lease_holder, row.lease_expires = None, None

    # -- jobs -----------------------------------------------------------------------------------------------

    def job(self, job_id: int) -> JobRow | None:
        """Return the locked row of a job."""
        return self.session.get(JobRow, job_id, with_for_update=True)

    def peek_job(self, job_id: int) -> JobRow | None:
        """Return a job's row without locking it."""
        return self.session.get(JobRow, job_id)

    def job_by_key(self, key: str) -> JobRow | None:
        """Return the locked row of the job with this identity."""
        return self.session.scalar(select(JobRow).where(JobRow.key == key).with_for_update())

    def find_job(self, name: str) -> JobRow | None:
        """Return the newest job with this name or title."""
        rows = select(JobRow).where((JobRow.name == name) | (JobRow.title == name)).order_by(JobRow.id.desc())
        return self.session.scalar(rows.limit(1))

    def newest_titles(self, limit: int) -> list[str]:
        """Return the titles of the newest jobs, oldest first."""
        return list(self.session.scalars(select(JobRow.title).order_by(JobRow.id.desc()).limit(limit)))[::-1]

    def jobs(
        self, *, cluster: str | None = None, states: Iterable[str] | None = None, limit: int | None = None
    ) -> list[JobRow]:
        """Return jobs in order of their making."""
        query = select(JobRow).order_by(JobRow.id)
        if cluster is not None:
            query = query.where(JobRow.cluster == cluster)
        if states is not None:
            query = query.where(JobRow.state.in_(tuple(states)))
        if limit is not None:
            query = query.limit(limit)
        return list(self.session.scalars(query))

    def lock_jobs(self, cluster: str, states: Iterable[str]) -> dict[str, JobRow]:
        """Return the locked rows of the jobs of ``cluster`` in one of ``states``, by name.

        Their specifications are read only if somebody asks for them.
        """
        query = select(JobRow).where(JobRow.cluster == cluster, JobRow.state.in_(tuple(states))).order_by(JobRow.id)
        query = query.options(defer(JobRow.specification)).with_for_update()
        return {row.name: row for row in self.session.scalars(query)}

    def attempts(self, cluster: str, states: Iterable[str]) -> dict[str, int]:
        """Return the attempts of the jobs of ``cluster`` in one of ``states``, by name."""
        query = select(JobRow.name, JobRow.attempt).where(JobRow.cluster == cluster, JobRow.state.in_(tuple(states)))
        return {name: attempt for name, attempt in self.session.execute(query)}

    def live_clusters(self) -> list[str]:
        """Return the names of the clusters with jobs that have not ended."""
        return sorted(self.session.scalars(select(JobRow.cluster).where(JobRow.state.in_(LIVE)).distinct()))

    def add(self, row: object) -> None:
        """Add a new row and give it its id."""
        self.session.add(row)
        self.session.flush()

    def claim(self, job_id: int, old_token: str, new_token: str) -> bool:
        """Replace a job's owner token, if it still is ``old_token``."""
        return self._update_job(
            JobRow.id == job_id, JobRow.token == old_token, token=new_token, version=JobRow.version + 1
        )

    def _update_job(self, *conditions: Any, **values: Any) -> bool:
        result = self.session.execute(
            update(JobRow).where(*conditions).values(**values).execution_options(synchronize_session="fetch")
        )
        return bool(result.rowcount)  # type: ignore[attr-defined]

    def touch(self, job_id: int) -> None:
        """Note that somebody is driving this job now; no version: a heartbeat disturbs nobody."""
        self.session.execute(
            update(JobRow).where(JobRow.id == job_id).values(stepped_at=self.now, version=JobRow.version),
            execution_options={"synchronize_session": False},
        )

    def delete_ended_before(self, moment: datetime, kept: Collection[int] = ()) -> int:
        """Delete jobs that ended before ``moment`` with all that is kept of them; return how many.

        Args:
            moment: the time.
            kept: ids of jobs that stay all the same.
        """
        ended = self.session.scalars(select(JobRow.id).where(JobRow.state.in_(FINAL), JobRow.ended_at < moment))
        ids = [job_id for job_id in ended if job_id not in kept]
        for table in (EventRow, SeriesRow, SpeedRow, OutputRow, GenerationRow):
            self.session.execute(delete(table).where(table.job_id.in_(ids)))
        self.session.execute(update(ActionRow).where(ActionRow.job_id.in_(ids)).values(job_id=None))
        self.session.execute(delete(JobRow).where(JobRow.id.in_(ids)))
        self.session.execute(delete(RoundRow).where(RoundRow.time < moment))
        return len(ids)

    # -- generations ----------------------------------------------------------------------------------------

    def generations(self, job_id: int) -> list[GenerationRow]:
        """Return a job's generations, oldest first."""
        return list(
            self.session.scalars(
                select(GenerationRow).where(GenerationRow.job_id == job_id).order_by(GenerationRow.number)
            )
        )

    def generations_by_job(self, cluster: str, states: Iterable[str]) -> dict[int, list[GenerationRow]]:
        """Return the generations, oldest first, of all jobs of ``cluster`` in one of ``states``, by the job's id."""
        query = (
            select(GenerationRow)
            .join(JobRow, GenerationRow.job_id == JobRow.id)
            .where(JobRow.cluster == cluster, JobRow.state.in_(tuple(states)))
            .order_by(GenerationRow.job_id, GenerationRow.number)
        )
        found: dict[int, list[GenerationRow]] = defaultdict(list)
        for generation in self.session.scalars(query):
            found[generation.job_id].append(generation)
        return found

    def generation(self, job_id: int, number: int) -> GenerationRow | None:
        """Return one generation, locked."""
        return self.session.get(GenerationRow, (job_id, number), with_for_update=True)

    def is_succeeded(self, generation: GenerationRow) -> bool:
        """Say whether a newer generation of the same job has begun to start."""
        newer = (GenerationRow.job_id == generation.job_id, GenerationRow.number > generation.number)
        return self.session.scalar(select(exists().where(*newer, GenerationRow.starting_at.is_not(None)))) or False

    def holding(self, cluster: str) -> list[tuple[JobRow, GenerationRow]]:
        """Return the generations of ``cluster`` that hold or were promised room: wanted or active ones."""
        query = (
            select(JobRow, GenerationRow)
            .join(GenerationRow, GenerationRow.job_id == JobRow.id)
            .where(JobRow.cluster == cluster, GenerationRow.state.in_(("wanted", *ACTIVE)))
            .order_by(GenerationRow.job_id, GenerationRow.number)
        )
        return [(job, generation) for job, generation in self.session.execute(query)]

    # -- history and telemetry ------------------------------------------------------------------------------

    def record(self, job: JobRow, kind: str, generation: int | None = None, **cause: Any) -> None:
        """Write one row of a job's history."""
        self.session.add(
            EventRow(
                job_id=job.id,
                time=self.now,
                attempt=job.attempt,
                generation=generation,
                kind=kind,
                cause=cause,
            )
        )

    def events(self, job_id: int, limit: int | None = None, kind: str | None = None) -> list[EventRow]:
        """Return a job's history, oldest first; with ``limit`` only its last rows, with ``kind`` only that."""
        query = select(EventRow).where(EventRow.job_id == job_id).order_by(EventRow.id.desc())
        if kind is not None:
            query = query.where(EventRow.kind == kind)
        if limit is not None:
            query = query.limit(limit)
        return list(self.session.scalars(query))[::-1]

    def all_series(self, job_id: int) -> list[SeriesRow]:
        """Return every metric kept of a job."""
        return list(self.session.scalars(select(SeriesRow).where(SeriesRow.job_id == job_id)))

    def series(self, job_id: int, name: str) -> SeriesRow | None:
        """Return one metric of a job."""
        return self.session.get(SeriesRow, (job_id, name))

    def add_speed(self, row: SpeedRow) -> None:
        """Keep a speed sample."""
        self.session.add(row)

    def speeds(self, workload: str, specification_hash: str, limit: int = 200) -> list[SpeedRow]:
        """Return the newest speed samples of a workload with the same specification, oldest first."""
        query = (
            select(SpeedRow)
            .where(SpeedRow.workload == workload, SpeedRow.specification_hash == specification_hash)
            .order_by(SpeedRow.id.desc())
            .limit(limit)
        )
        return list(self.session.scalars(query))[::-1]

    def speeds_of(self, job_id: int, generation: int, limit: int) -> list[float]:
        """Return the newest speed samples of one generation in steps a second, newest first."""
        query = select(SpeedRow.steps, SpeedRow.seconds)
        query = query.where(SpeedRow.job_id == job_id, SpeedRow.generation == generation)
        rows = self.session.execute(query.order_by(SpeedRow.id.desc()).limit(limit))
        return [steps / seconds for steps, seconds in rows if seconds > 0]

    def count_speeds(self, job_id: int, generation: int) -> int:
        """Return how many speed samples a generation has given."""
        query = select(func.count()).where(SpeedRow.job_id == job_id, SpeedRow.generation == generation)
        return self.session.scalar(query) or 0

    def output(self, job_id: int, replica: str, uid: str) -> OutputRow | None:
        """Return how far a replica's output was read."""
        return self.session.get(OutputRow, (job_id, replica, uid))

    def readers(self, job_id: int, generation: int) -> dict[str, dict[str, Any]]:
        """Return replica -> its reader's state, of one generation: without the texts, which are long."""
        query = select(OutputRow.replica, OutputRow.reader).where(
            OutputRow.job_id == job_id, OutputRow.generation == generation
        )
        return {replica: reader or {} for replica, reader in self.session.execute(query)}

    def outputs(self, job_id: int) -> list[OutputRow]:
        """Return what was read of each of a job's replicas, oldest generation first."""
        query = select(OutputRow).where(OutputRow.job_id == job_id)
        return list(self.session.scalars(query.order_by(OutputRow.generation, OutputRow.replica)))

    def untold(self, job_id: int) -> list[OutputRow]:
        """Return the outputs of a job with text that its task's log was not given, oldest generation first."""
        query = select(OutputRow).where(OutputRow.job_id == job_id, OutputRow.written > OutputRow.told)
        return list(self.session.scalars(query.order_by(OutputRow.generation, OutputRow.replica)))

    def workload(self, name: str) -> WorkloadRow:
        """Return what is known of a workload, made empty if it is new."""
        row = self.session.get(WorkloadRow, name)
        if row is None:
            row = WorkloadRow(name=name, runs=0, updated_at=self.now)
            self.session.add(row)
            self.session.flush()
        return row

    def peek_workload(self, name: str) -> WorkloadRow | None:
        """Return what is known of a workload, None if nothing is."""
        return self.session.get(WorkloadRow, name)

    def rounds(self, cluster: str, limit: int) -> Sequence[RoundRow]:
        """Return the newest rounds of a cluster, newest first."""
        query = select(RoundRow).where(RoundRow.cluster == cluster).order_by(RoundRow.id.desc()).limit(limit)
        return list(self.session.scalars(query))
