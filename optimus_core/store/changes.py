"""Marks that differ as soon as something differs that people are shown: a poll of what stays the same reads no job.

Each holds numbers of few rows, read from indexes. What moves by itself, such as lateness or the age of a heartbeat, is
told anew once a minute.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select

from optimus_core.store.tables import (
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
from optimus_core.store.transaction import LIVE, Transaction
from optimus_core.store.views import Wanted, chosen

Mark = list[Any]
_JOBS: tuple[Any, ...] = (func.count(JobRow.id), func.sum(JobRow.id), func.sum(JobRow.version))
_SIZES: tuple[Any, ...] = (func.count(), func.sum(GenerationRow.version))
_POINTS: tuple[Any, ...] = (func.count(), func.sum(SeriesRow.points))
_TAILS: tuple[Any, ...] = (func.count(), func.sum(OutputRow.version))


def of_counts(tx: Transaction, dags: Collection[str]) -> Mark:
    """Return the mark of all live jobs of ``dags``, and of which clusters there are."""
    jobs = chosen(select(*_JOBS), dags, Wanted(states=LIVE))
    return _mark(tx, jobs, select(func.count()).select_from(ClusterRow))


def of_page(tx: Transaction, dags: Collection[str], wanted: Wanted, *, before: int | None, limit: int) -> Mark:
    """Return the mark of a page of jobs, chosen as ``jobs_page`` does."""
    columns: tuple[Any, ...] = (JobRow.id, JobRow.version)
    query = chosen(select(*columns), dags, wanted)
    if before is not None:
        query = query.where(JobRow.id < before)
    jobs = [tuple(row) for row in tx.session.execute(query.order_by(JobRow.id.desc()).limit(limit))]
    sizes = select(*_SIZES).where(GenerationRow.job_id.in_([job_id for job_id, _ in jobs]))
    return [jobs, *_mark(tx, chosen(select(func.count(JobRow.id)), dags, wanted), sizes)]


def of_job(tx: Transaction, job_id: int) -> Mark:
    """Return the mark of one job with all that its view shows."""
    workload = select(JobRow.workload).where(JobRow.id == job_id).scalar_subquery()
    return _mark(
        tx,
        select(func.max(JobRow.version)).where(JobRow.id == job_id),
        select(*_SIZES).where(GenerationRow.job_id == job_id),
        select(func.max(EventRow.id)).where(EventRow.job_id == job_id),
        select(*_POINTS).where(SeriesRow.job_id == job_id),
        select(*_TAILS).where(OutputRow.job_id == job_id),
        select(func.max(SpeedRow.id)).where(SpeedRow.workload == workload),
        select(func.max(WorkloadRow.updated_at)).where(WorkloadRow.name == workload),
    )


def of_cluster(tx: Transaction, cluster: str) -> Mark:
    """Return the mark of a cluster: its live jobs, their sizes, and its rounds."""
    live = (JobRow.cluster == cluster, JobRow.state.in_(LIVE))
    return _mark(
        tx,
        select(*_JOBS).where(*live),
        select(*_SIZES).join(JobRow, GenerationRow.job_id == JobRow.id).where(*live),
        select(func.max(RoundRow.id)).where(RoundRow.cluster == cluster),
        select(func.max(ClusterRow.planned_at)).where(ClusterRow.name == cluster),
    )


def _mark(tx: Transaction, *queries: Select[Any]) -> Mark:
    """Return the minute, and what queries of one row each give."""
    return [_minute(tx), *(each for query in queries for each in tx.session.execute(query).one())]


def _minute(tx: Transaction) -> datetime:
    return tx.now.replace(second=0, microsecond=0)
