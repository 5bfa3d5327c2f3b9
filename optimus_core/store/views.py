"""Queries of people who look on: bounded, paged, and of those DAGs only that somebody may read."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, or_, select

from optimus_core.store.tables import ClusterRow, EventRow, GenerationRow, JobRow, OutputRow, RoundRow
from optimus_core.store.transaction import LIVE, Transaction

Plain = tuple[Any, ...]
"""Some columns of a row, in the order that the query's docstring names."""
_NOT_OVER = ("wanted", "starting", "running", "draining")
_MOST_AT_ONCE = 5000
"""Values that one query is given; databases bound them."""


@dataclass(frozen=True)
class Wanted:
    """Which jobs are asked for; what is None or empty leaves the choice open."""

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    cluster: str | None = None
    states: tuple[str, ...] = ()


def jobs_page(
    tx: Transaction, dags: Collection[str], wanted: Wanted, *, before: int | None, limit: int
) -> tuple[list[JobRow], int]:
    """Return the newest ``limit`` jobs of ``dags`` with an id below ``before``, and how many there are in all."""
    query = chosen(select(JobRow), dags, wanted)
    total = tx.session.scalar(chosen(select(func.count(JobRow.id)), dags, wanted)) or 0
    if before is not None:
        query = query.where(JobRow.id < before)
    return list(tx.session.scalars(query.order_by(JobRow.id.desc()).limit(limit))), total


def chosen(query: Select[Any], dags: Collection[str], wanted: Wanted) -> Select[Any]:
    """Return ``query`` of jobs, for those only that are wanted and of ``dags``."""
    query = query.where(JobRow.dag_id.in_(dags))
    for name in ("dag_id", "run_id", "task_id", "map_index", "cluster"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(getattr(JobRow, name) == value)
    return query.where(JobRow.state.in_(wanted.states)) if wanted.states else query


def named(tx: Transaction, name: str) -> Plain | None:
    """Return (id, name, dag_id) of the newest job with this name or title, None if there is none."""
    query = select(JobRow.id, JobRow.name, JobRow.dag_id).where(or_(JobRow.name == name, JobRow.title == name))
    found = tx.session.execute(query.order_by(JobRow.id.desc()).limit(1)).first()
    return tuple(found) if found is not None else None


def names_outside(tx: Transaction, dags: Collection[str], words: Collection[str]) -> set[str]:
    """Return those of ``words`` that are the name or the title of a job which belongs to none of ``dags``."""
    found: set[str] = set()
    ordered = sorted(words)
    for start in range(0, len(ordered), _MOST_AT_ONCE):
        some = ordered[start : start + _MOST_AT_ONCE]
        query = select(JobRow.name, JobRow.title).where(or_(JobRow.name.in_(some), JobRow.title.in_(some)))
        rows = tx.session.execute(query.where(or_(JobRow.dag_id.is_(None), JobRow.dag_id.not_in(dags))))
        found.update(each for row in rows for each in row)
    return found.intersection(words)


def generations_of(tx: Transaction, job_ids: Iterable[int], limit: int) -> list[GenerationRow]:
    """Return the newest ``limit`` generations of several jobs, oldest first."""
    query = select(GenerationRow).where(GenerationRow.job_id.in_(tuple(job_ids)))
    newest = query.order_by(GenerationRow.wanted_at.desc(), GenerationRow.number.desc()).limit(limit)
    return list(tx.session.scalars(newest))[::-1]


def present_generations(tx: Transaction, job_ids: Iterable[int]) -> dict[int, list[GenerationRow]]:
    """Return, by job, those generations that are not over yet, oldest first: what tells how a job stands."""
    query = select(GenerationRow).where(GenerationRow.job_id.in_(tuple(job_ids)), GenerationRow.state.in_(_NOT_OVER))
    found: dict[int, list[GenerationRow]] = {}
    for row in tx.session.scalars(query.order_by(GenerationRow.number)):
        found.setdefault(row.job_id, []).append(row)
    return found


def events_page(tx: Transaction, job_id: int, *, after: int, limit: int) -> list[EventRow]:
    """Return at most ``limit`` rows of a job's history, oldest first.

    With ``after`` 0 they are the newest that there are, otherwise the first whose id lies above it.
    """
    query = select(EventRow).where(EventRow.job_id == job_id, EventRow.id > after)
    if after:
        return list(tx.session.scalars(query.order_by(EventRow.id).limit(limit)))
    return list(tx.session.scalars(query.order_by(EventRow.id.desc()).limit(limit)))[::-1]


def newest_outputs(tx: Transaction, job_id: int, limit: int) -> list[OutputRow]:
    """Return at most ``limit`` outputs of a job's replicas, those of the newest generations, oldest first."""
    query = select(OutputRow).where(OutputRow.job_id == job_id)
    query = query.order_by(OutputRow.generation.desc(), OutputRow.replica.desc(), OutputRow.uid.desc())
    return list(tx.session.scalars(query.limit(limit)))[::-1]


def jobs_since(tx: Transaction, dags: Collection[str], cluster: str, since: datetime, limit: int) -> list[Plain]:
    """Return (id, name, title, state) of the newest jobs of a cluster that are live or ended after ``since``."""
    columns: tuple[Any, ...] = (JobRow.id, JobRow.name, JobRow.title, JobRow.state)
    query = chosen(select(*columns), dags, Wanted(cluster=cluster))
    query = query.where(or_(JobRow.state.in_(LIVE), JobRow.ended_at >= since))
    return [tuple(row) for row in tx.session.execute(query.order_by(JobRow.id.desc()).limit(limit))]


def generations_since(tx: Transaction, job_ids: Iterable[int], since: datetime, limit: int) -> list[GenerationRow]:
    """Return the newest generations of several jobs that held room after ``since``, oldest first."""
    query = select(GenerationRow).where(
        GenerationRow.job_id.in_(tuple(job_ids)),
        GenerationRow.starting_at.is_not(None),
        or_(GenerationRow.gone_at.is_(None), GenerationRow.gone_at >= since),
    )
    return list(tx.session.scalars(query.order_by(GenerationRow.starting_at.desc()).limit(limit)))[::-1]


def waiting_jobs(tx: Transaction, dags: Collection[str], cluster: str, limit: int) -> list[Plain]:
    """Return (name, title, state, priority, queued_at, reason) of jobs that wait, in the order of their minimums."""
    columns = (JobRow.name, JobRow.title, JobRow.state, JobRow.priority, JobRow.queued_at, JobRow.reason)
    query = chosen(select(*columns), dags, Wanted(cluster=cluster, states=("queued", "paused")))
    order = (JobRow.state != "paused", JobRow.priority.desc(), JobRow.queued_at, JobRow.id)
    return [tuple(row) for row in tx.session.execute(query.order_by(*order).limit(limit))]


def rounds_page(tx: Transaction, cluster: str, limit: int) -> list[Plain]:
    """Return (id, time, changes) of the newest rounds, newest first, without their plans, which are large."""
    query = select(RoundRow.id, RoundRow.time, RoundRow.changes).where(RoundRow.cluster == cluster)
    return [tuple(row) for row in tx.session.execute(query.order_by(RoundRow.id.desc()).limit(limit))]


def titles_of(tx: Transaction, dags: Collection[str], names: Iterable[str]) -> dict[str, str]:
    """Return name -> title of those of ``names`` that belong to ``dags``."""
    query = select(JobRow.name, JobRow.title).where(JobRow.dag_id.in_(dags), JobRow.name.in_(tuple(names)))
    return {name: title for name, title in tx.session.execute(query)}


def waiting_by_pool(tx: Transaction, cluster: str) -> dict[str, int]:
    """Return how many jobs of a cluster wait, by their pool."""
    waits = JobRow.state.in_(("queued", "paused"))
    query = select(JobRow.pool, func.count()).where(JobRow.cluster == cluster, waits).group_by(JobRow.pool)
    return {pool: count for pool, count in tx.session.execute(query)}


def states_of(tx: Transaction, dags: Collection[str]) -> dict[str, int]:
    """Return how many live jobs of ``dags`` are in each state."""
    query = select(JobRow.state, func.count(JobRow.id)).where(JobRow.dag_id.in_(dags), JobRow.state.in_(LIVE))
    return {state: count for state, count in tx.session.execute(query.group_by(JobRow.state))}


def with_deadline(tx: Transaction, dags: Collection[str], limit: int) -> list[JobRow]:
    """Return live jobs of ``dags`` that have a deadline, the earliest first."""
    query = chosen(select(JobRow), dags, Wanted(states=LIVE)).where(JobRow.deadline.is_not(None))
    return list(tx.session.scalars(query.order_by(JobRow.deadline).limit(limit)))


def cluster_names(tx: Transaction) -> list[str]:
    """Return the names of all clusters that were ever used."""
    return list(tx.session.scalars(select(ClusterRow.name).order_by(ClusterRow.name)))
