"""What a regular beat looks after: jobs that nobody drives any more, and checkpoints that nobody needs."""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from optimus_core.engine.context import Context
from optimus_core.engine.endings import is_kept
from optimus_core.engine.launch import checkpoint_name, checkpoint_place, job_of
from optimus_core.engine.reconcile import Step, reconcile
from optimus_core.engine.verdict import ALIVE
from optimus_core.errors import OptimusError
from optimus_core.store import CONFLICTS, FINAL, LIVE, JobRow, Transaction

_log = logging.getLogger(__name__)


def drive_forsaken(ctx: Context, cluster: str) -> dict[str, Step]:
    """Take a step with each job whose trigger or command has not been heard of for a while.

    Returns:
        Job name -> the step taken.
    """
    with ctx.store.transaction() as tx:
        forsaken = [(row.id, row.name) for row in tx.jobs(cluster=cluster, states=LIVE) if is_forsaken(ctx, tx, row)]
    return {name: _drive(ctx, job_id, name) for job_id, name in forsaken}


def _drive(ctx: Context, job_id: int, name: str) -> Step:
    """Take a step; an error of one job must not keep the others from being driven."""
    try:
        return reconcile(ctx, job_id)
    except Exception:  # noqa: BLE001 - logged with its trace
        _log.exception("a step with job %s failed", name)
        return Step("failed", ctx.settings.poll_seconds)


def is_forsaken(ctx: Context, tx: Transaction, row: JobRow) -> bool:
    """Say whether nobody has driven a live job for longer than ``heartbeat_stale_seconds``."""
    last = row.stepped_at or row.queued_at
    return tx.now - last > timedelta(seconds=ctx.settings.heartbeat_stale_seconds)


def delete_orphans(ctx: Context, cluster: str) -> list[str]:
    """Stop and remove replicas whose job has ended: a process that stalled for long may have made them late.

    What has ended of a job that keeps its replicas for people stays.

    Returns:
        The names of those that were asked to stop.
    """
    known = ctx.cluster(cluster)
    replicas = known.list()
    with ctx.store.transaction() as tx:
        ended = {row.name: row for row in tx.jobs(cluster=cluster, states=FINAL)}
    late = [r for r in replicas if r.job in ended]
    orphans = [r for r in late if r.phase in ALIVE and not r.terminating]
    known.delete(orphans)
    for name in sorted({r.job for r in late if not is_kept(ended[r.job])}):
        known.forget(name)
    return [r.name for r in orphans]


def delete_old_checkpoints(ctx: Context) -> list[Path]:
    """Delete the checkpoints of jobs that succeeded longer ago than ``checkpoint_keep_days``.

    Those of failed and stopped jobs stay: a later try goes on from them.

    Returns:
        The folders that are gone now.
    """
    with ctx.store.transaction() as tx:
        rows = list(_long_succeeded(ctx, tx))
    for row in rows:
        if row.checkpoint_path is not None and _discard_claim(ctx, row):
            with contextlib.suppress(*CONFLICTS), ctx.store.transaction() as tx:
                owner = tx.job(row.id)
                if owner is not None and owner.state == "succeeded":
                    owner.checkpoint_path = None  # else it is looked for at every beat
    return [folder for row in rows for folder in _delete_checkpoints(ctx, row)]


def _long_succeeded(ctx: Context, tx: Transaction) -> Iterator[JobRow]:
    limit: datetime = tx.now - timedelta(days=ctx.settings.checkpoint_keep_days)
    return (row for row in tx.jobs(states=("succeeded",)) if row.ended_at is not None and row.ended_at < limit)


def delete_ended(ctx: Context, days: float) -> int:
    """Delete jobs that ended more than so many days ago, with their history and their checkpoints.

    What lies beside these checkpoints stays: another deployment may share the folder, so that one whose job this
    store does not know is not known to be nobody's.

    A job whose own claim can't be deleted now is kept.

    Returns:
        How many jobs are gone now.
    """
    with ctx.store.transaction() as tx:
        limit = tx.now - timedelta(days=days)
        rows = [row for row in tx.jobs(states=FINAL) if row.ended_at is not None and row.ended_at < limit]
    kept = {row.id for row in rows if not _discard_claim(ctx, row)}
    with ctx.store.transaction() as tx:
        count = tx.delete_ended_before(limit, kept)
    for row in rows:
        if row.id not in kept:
            _delete_checkpoints(ctx, row)
    return count


def _discard_claim(ctx: Context, row: JobRow) -> bool:
    """Remove the claim that was made for a job, if one was; False if it can't be now: its row still knows of it."""
    try:
        cluster = ctx.cluster(row.cluster)
        if checkpoint_place(job_of(row), row.name, cluster).made_of is not None:
            cluster.discard_checkpoints(row.name, row.specification.get("namespace"))
        return True
    except OptimusError as error:
        is_made = "storage_class" in (row.specification.get("checkpoints") or {})
        if is_made:
            _log.warning("the claim for checkpoints of job %s can't be deleted now: %s", row.name, error)
        return not is_made


def _delete_checkpoints(ctx: Context, row: JobRow) -> list[Path]:
    """Delete a job's folders of the starts from scratch that its row knows of, and its own once it is empty."""
    of_job = Path(ctx.settings.checkpoint_root) / row.name
    folders = [of_job / checkpoint_name(row, lineage) for lineage in range(1, row.lineage + 1)]
    found = [folder for folder in folders if folder.is_dir()]
    for folder in found:
        shutil.rmtree(folder, ignore_errors=True)
    if found:
        with contextlib.suppress(OSError):  # something else is in it
            of_job.rmdir()
    return found
