"""The engine: what operator, trigger, CLI and page call. Everything is one of: submit, step, round, or a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from optimus_core import checks
from optimus_core.cluster.base import Cluster
from optimus_core.engine import endings, rounds, submit, untold
from optimus_core.engine.clusters import Connect, declare, opener, pools_by_cluster
from optimus_core.engine.context import Context
from optimus_core.engine.identity import Identity
from optimus_core.engine.reconcile import Step, reconcile
from optimus_core.engine.report import JobReport, event_dict, generation_dict, job_report
from optimus_core.engine.submit import Submission
from optimus_core.engine.untold import Untold
from optimus_core.engine.upkeep import delete_ended, delete_old_checkpoints, delete_orphans, drive_forsaken, is_forsaken
from optimus_core.errors import ClusterUnavailable, SpecificationError, UnknownJob
from optimus_core.job import Replicas, TrainingJob
from optimus_core.scheduling.types import Plan, Snapshot
from optimus_core.settings import Settings
from optimus_core.store import CONFLICTS, FINAL, LIVE, ActionRow, JobRow, Store, Transaction

_WAITING_SECONDS = 30.0
"""While a job waits somebody looks this often whether others than Optimus have made room: nobody else says so."""


class Engine:
    """Optimus on one store.

    Args:
        settings: all settings; the store and the clusters are opened as they say.
        open_cluster: returns the cluster of a name; by default those of ``clusters.yaml`` and of the store.
        connect: resolves connections of Airflow for those; None outside of it.
    """

    def __init__(
        self,
        settings: Settings,
        open_cluster: Callable[[str], Cluster] | None = None,
        connect: Connect | None = None,
    ) -> None:
        self.settings = settings
        store = Store(settings.database_url)
        clusters = open_cluster or opener(settings, connect, store)
        self.ctx = Context(store, settings, clusters, pools_by_cluster(settings))

    @property
    def store(self) -> Store:
        """The store that this engine works on."""
        return self.ctx.store

    def declare(self, name: str, declaration: Mapping[str, Any]) -> None:
        """Keep how a cluster is reached that no file declares; see :func:`clusters.declare`."""
        declare(self.store, name, declaration)

    def submit(
        self, job: TrainingJob, identity: Identity, try_number: int = 1, *, fresh: bool = False, cluster: str = ""
    ) -> Submission:
        """Store what is asked for, own it, and let a round see it; see :func:`submit.submit`."""
        submission = submit.submit(self.ctx, job, identity, try_number, fresh=fresh, cluster=cluster)
        self.round(cluster or self.settings.cluster)
        return submission

    def request_stop(self, job_id: int, *, token: str | None = None, by: str) -> bool:
        """Write the wish that a job stops; False if ``token`` owns it no more or it has ended."""
        return submit.request_stop(self.ctx, job_id, token=token, by=by)

    def step(self, job_id: int) -> Step:
        """Drive one job by one step, and plan if something waits to be planned."""
        step = reconcile(self.ctx, job_id)
        with self.store.transaction() as tx:
            row = tx.peek_job(job_id)
        if row is not None:
            self.round_if_due(row.cluster, self._patience(row))
        return step

    def _patience(self, row: JobRow) -> float:
        """Return after how many seconds without a round the job asks for one; a paused one must not be forgotten."""
        often = self.settings.interval_seconds
        if row.state not in ("queued", "paused"):
            return often
        often = min(often, _WAITING_SECONDS)
        return min(often, self.settings.max_paused / 10) if row.state == "paused" else often

    def round_if_due(self, cluster: str, idle_seconds: float) -> None:
        """Plan if something has been unplanned for a moment (a burst is one round), or no round came for so long."""
        with self.store.transaction() as tx:
            row = tx.peek_cluster(cluster)
            if row is None or row.revised_at is None:
                return
            waiting = (tx.now - row.revised_at).total_seconds() if row.revision != row.planned_revision else None
            idle = (tx.now - (row.planned_at or row.revised_at)).total_seconds()
        if (waiting is not None and waiting >= self.settings.round_delay_seconds) or (idle >= idle_seconds):
            self.round(cluster)

    def round(self, cluster: str = "") -> rounds.RoundReport | None:
        """Plan now; None if somebody else is planning or the cluster can't be asked."""
        name = cluster or self.settings.cluster
        try:
            return rounds.round_(self.ctx, name)
        except ClusterUnavailable as error:
            endings.note_unplanned(self.ctx, name, error)
        except CONFLICTS:
            pass  # the next round comes soon
        return None

    def upkeep(self, cluster: str = "") -> dict[str, Step]:
        """Drive forsaken jobs, stop orphans, delete checkpoints that nobody needs; return the steps taken."""
        name = cluster or self.settings.cluster
        delete_old_checkpoints(self.ctx)
        delete_orphans(self.ctx, name)
        return drive_forsaken(self.ctx, name)

    def delete_ended(self, days: float) -> int:
        """Delete jobs that ended more than so many days ago, with history and checkpoints; return how many."""
        return delete_ended(self.ctx, days)

    def peek(self, cluster: str = "") -> tuple[Snapshot, Plan]:
        """Return what a round would see and decide now, without applying it."""
        return rounds.peek(self.ctx, cluster or self.settings.cluster)

    def job(self, name: str) -> JobReport:
        """Return all that is known of the job with this name, title or id; of several the newest.

        Raises:
            UnknownJob: there is none.
        """
        with self.store.transaction() as tx:
            return job_report(tx, self._find(tx, name))

    def jobs(self, *, live: bool = False, limit: int | None = None) -> list[JobReport]:
        """Return all jobs, oldest first; with ``live`` only those that have not ended."""
        states = ("queued", "running", "paused", "stopping") if live else None
        with self.store.transaction() as tx:
            return [job_report(tx, row) for row in tx.jobs(states=states, limit=limit)]

    def job_by_id(self, job_id: int) -> JobReport:
        """Return all that is known of a job.

        Raises:
            UnknownJob: there is none of this id.
        """
        with self.store.transaction() as tx:
            row = tx.peek_job(job_id)
            if row is None:
                raise UnknownJob(f"there is no job with id {job_id}")
            return job_report(tx, row)

    def job_of(self, identity: Identity) -> JobReport | None:
        """Return the job of this identity, None if nobody has submitted it yet."""
        with self.store.transaction() as tx:
            row = tx.job_by_key(identity.key)
            return job_report(tx, row) if row is not None else None

    def history(self, job_id: int) -> dict[str, Any]:
        """Return a job's generations and events, oldest first, as plain data."""
        with self.store.transaction() as tx:
            return {
                "generations": [generation_dict(row) for row in tx.generations(job_id)],
                "events": [event_dict(row) for row in tx.events(job_id)],
            }

    def outputs(self, job_id: int) -> list[dict[str, Any]]:
        """Return the last output of each replica of a job."""
        with self.store.transaction() as tx:
            return [
                {"replica": row.replica, "uid": row.uid, "generation": row.generation, "tail": row.tail}
                for row in tx.outputs(job_id)
            ]

    def untold(self, job_id: int) -> list[Untold]:
        """Return what a job's replicas have written since the last call; see :func:`untold.untold`."""
        return untold.untold(self.ctx, job_id)

    def stop(self, name: str, user: str) -> JobReport:
        """Stop a job by a person's wish.

        Raises:
            UnknownJob: there is no such job.
            SpecificationError: it has ended already.
        """
        with self.store.transaction() as tx:
            row = self._find(tx, name)
            if row.state in FINAL:
                raise SpecificationError(f'job "{row.title}" has {row.state}; there is nothing to stop.')
            _audit(tx, user, "stop", row, {})
        self.request_stop(row.id, by=user)
        return self.job_by_id(row.id)

    def is_forsaken(self, job_id: int) -> bool:
        """Say whether nobody has driven a live job for longer than ``heartbeat_stale_seconds``."""
        with self.store.transaction() as tx:
            row = tx.peek_job(job_id)
            return row is not None and row.state in LIVE and is_forsaken(self.ctx, tx, row)

    def pin(self, name: str, user: str, *, workers: int, servers: int | None = None) -> JobReport:
        """Give a job a fixed size until it is unpinned.

        Raises:
            UnknownJob: there is no such job.
            SpecificationError: the size lies outside what the job allows.
        """
        with self.store.transaction() as tx:
            row = self._find(tx, name)
            size = _checked_size(row, workers, servers)
            row.pin = size
            _audit(tx, user, "pin", row, size)
            tx.record(row, "pinned", None, by=user, **size)
            tx.revise(row.cluster)
        self.round(row.cluster)
        return self.job_by_id(row.id)

    def unpin(self, name: str, user: str) -> JobReport:
        """Let the allocation size a job again.

        Raises:
            UnknownJob: there is no such job.
        """
        with self.store.transaction() as tx:
            row = self._find(tx, name)
            row.pin = None
            _audit(tx, user, "unpin", row, {})
            tx.record(row, "unpinned", None, by=user)
            tx.revise(row.cluster)
        self.round(row.cluster)
        return self.job_by_id(row.id)

    def note_rebalance(self, user: str, run_id: str) -> None:
        """Keep in the audit table that a person asked for a run of the rebalance DAG."""
        with self.store.transaction() as tx:
            tx.add(ActionRow(time=tx.now, user=user, action="rebalance", job_id=None, detail={"run_id": run_id}))

    def _find(self, tx: Transaction, name: str) -> JobRow:
        found = tx.find_job(name) if checks.passable(name) == name else None  # no store holds other texts
        if found is None and name.isdecimal() and len(name) < 10:  # a longer number is no id of any job
            found = tx.peek_job(int(name))
        if found is None:
            known = tx.newest_titles(5)
            hint = f" The newest are: {', '.join(known)}." if known else " No job has been submitted yet."
            raise UnknownJob(f"there is no job {checks.shown(name)}.{hint} See: optimus jobs")
        return found


def _audit(tx: Transaction, user: str, action: str, row: JobRow, detail: dict[str, Any]) -> None:
    tx.add(ActionRow(time=tx.now, user=user, action=action, job_id=row.id, detail=detail))


def _checked_size(row: JobRow, workers: int, servers: int | None) -> dict[str, int]:
    job = TrainingJob.from_dict(row.specification)
    if row.state in FINAL:
        raise SpecificationError(f'job "{row.title}" has {row.state}; its size can be pinned no more.')
    if not job.workers.min <= workers <= job.workers.max:
        raise _not_allowed(row, job.workers, "workers", workers)
    if job.servers is None:
        if servers:
            raise SpecificationError(f'job "{row.title}" is an all-reduce job; it has no servers. Give none.')
        return {"workers": workers, "servers": 0}
    count = job.servers.min if servers is None else servers
    if not job.servers.min <= count <= job.servers.max:
        raise _not_allowed(row, job.servers, "servers", count)
    return {"workers": workers, "servers": count}


def _not_allowed(row: JobRow, asked: Replicas, role: str, count: int) -> SpecificationError:
    nearest = min(max(count, asked.min), asked.max)
    return SpecificationError(
        f'job "{row.title}" allows {asked.min} to {asked.max} {role}, not {count}. Give such as {nearest}.'
    )
