"""What is new of the points of all jobs of a cluster: a query for each kind of thing, and none for each job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select

from optimus_core.store.tables import JobRow, SeriesRow, SpeedRow, WorkloadRow
from optimus_core.store.transaction import LIVE, Transaction


@dataclass(frozen=True)
class News:
    """How much was seen of each live job of a cluster, and what is known of their workloads."""

    points: dict[int, tuple[int, int]]
    """A job's id -> how many series it has, and how many points they were given in all."""
    speeds: dict[str, int]
    """Workload -> the id of its newest speed sample."""
    workloads: dict[str, WorkloadRow]

    def mark(self, row: JobRow) -> list[Any]:
        """Return what changes whenever something was learned that bears on a job, as JSON holds it."""
        known = self.workloads.get(row.workload)
        learned = known.updated_at.isoformat() if known is not None else None
        return [*self.points.get(row.id, (0, 0)), self.speeds.get(row.workload, 0), learned]


def news(tx: Transaction, cluster: str) -> News:
    """Return what was seen of the live jobs of ``cluster``."""
    live = (JobRow.cluster == cluster, JobRow.state.in_(LIVE))
    return News(_points(tx, *live), _speeds(tx, *live), _workloads(tx, *live))


def _points(tx: Transaction, *live: ColumnElement[bool]) -> dict[int, tuple[int, int]]:
    query = (
        select(SeriesRow.job_id, func.count(), func.sum(SeriesRow.points))
        .join(JobRow, SeriesRow.job_id == JobRow.id)
        .where(*live)
        .group_by(SeriesRow.job_id)
    )
    return {job: (int(series), int(points)) for job, series, points in tx.session.execute(query)}


def _speeds(tx: Transaction, *live: ColumnElement[bool]) -> dict[str, int]:
    """Ask for the end of the index of each workload: there may be millions of samples."""
    workloads = select(JobRow.workload).where(*live).distinct().subquery()
    newest = select(func.max(SpeedRow.id)).where(SpeedRow.workload == workloads.c.workload).scalar_subquery()
    rows = tx.session.execute(select(workloads.c.workload, newest))
    return {workload: int(last) for workload, last in rows if last is not None}


def _workloads(tx: Transaction, *live: ColumnElement[bool]) -> dict[str, WorkloadRow]:
    query = select(WorkloadRow).where(WorkloadRow.name.in_(select(JobRow.workload).where(*live)))
    return {row.name: row for row in tx.session.scalars(query)}
