"""What an execute means: a new job, the same one again, or a new attempt of it.

The owner token is claimed first, in the same transaction: from then on a late kill by the old owner does nothing.
The try number only says "newer"; it is never an owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import uuid4

from optimus_core.cluster.base import Cluster, NodeInfo
from optimus_core.engine.ceiling import ceiling_check
from optimus_core.engine.context import Context
from optimus_core.engine.identity import Identity
from optimus_core.engine.launch import added_to, needs_of, trial_specs
from optimus_core.engine.memory import remembered_factor
from optimus_core.errors import SpecificationError
from optimus_core.job import TrainingJob, capacity_check
from optimus_core.pools import pool_of
from optimus_core.store import ACTIVE, FINAL, GenerationRow, JobRow, Transaction


class Action(StrEnum):
    """What a submission led to."""

    CREATED = "created"
    REATTACHED = "reattached"
    FINISHED = "finished"
    RESUMED = "resumed"
    RESTARTED = "restarted"


@dataclass(frozen=True)
class Submission:
    """A job's id and name, the token that owns it now, and what the submission led to."""

    job_id: int
    name: str
    token: str
    action: Action


def submit(
    ctx: Context, job: TrainingJob, identity: Identity, try_number: int, *, fresh: bool = False, cluster: str = ""
) -> Submission:
    """Store what is asked for and own it.

    The same try number re-attaches to a live job and returns a finished one as it is. A later one stops a live
    job's generation and starts a new attempt from the checkpoint; after a success, or with ``fresh``, from scratch.
    What is only re-attached to is not checked again: nothing that has become of cluster and pools meanwhile harms it.

    Raises:
        SpecificationError: the job can never run on this cluster; nothing was changed.
    """
    name, submission = cluster or ctx.settings.cluster, None
    while submission is None:  # more than once only if the job was deleted or tried anew in between
        with ctx.store.transaction() as tx:
            is_there = _asks_for_nothing_new(tx.job_by_key(identity.key), job, try_number)
        checked = None if is_there else _check(ctx, name, job, identity)
        submission = _store(ctx, name, job, identity, try_number, fresh, checked)
    return submission


def _store(
    ctx: Context,
    name: str,
    job: TrainingJob,
    identity: Identity,
    try_number: int,
    fresh: bool,
    checked: _Checked | None,
) -> Submission | None:
    """Store what is asked for; None if that has to be checked first."""
    token = uuid4().hex
    with ctx.store.transaction() as tx:
        if checked is not None:
            tx.cluster(name)  # one submission at a time: two of the same job can't both create it
        row = tx.job_by_key(identity.key)
        if row is not None and row.try_number == try_number and row.state in FINAL:
            return Submission(row.id, row.name, row.token, Action.FINISHED)
        if checked is None and not _asks_for_nothing_new(row, job, try_number):
            return None
        if row is None:
            row = _create(tx, job, identity, try_number, token, name)
            action = Action.CREATED
        elif row.try_number == try_number:
            action = _again(tx, row, job, token)
        else:
            action = _next_attempt(tx, row, job, try_number, token, fresh)
        if checked is not None:
            row.pool = checked.pool
            if action is not Action.REATTACHED:
                row.added = checked.added
        tx.revise(row.cluster)
        return Submission(row.id, row.name, row.token, action)


@dataclass(frozen=True)
class _Checked:
    """What a cluster says of a job that it would take."""

    pool: str
    added: dict[str, Any] | None
    """By role what it adds to what a replica asks for."""


def _asks_for_nothing_new(row: JobRow | None, job: TrainingJob, try_number: int) -> bool:
    """Say whether the same try is there already, and nothing is changed in place that might be refused."""
    if row is None or row.try_number != try_number:
        return False
    asked = job.to_dict()
    same = all(row.specification.get(name) == asked.get(name) for name in ("workers", "servers", "pool"))
    return same or row.state in FINAL or row.specification_hash != job.specification_hash


def _check(ctx: Context, name: str, job: TrainingJob, identity: Identity) -> _Checked:
    """Refuse a job that this cluster or its pool would never take, before anything is stored."""
    declared, cluster = ctx.pools(name), ctx.cluster(name)
    labels = (job.pod.get("metadata") or {}).get("labels")
    pool = pool_of(declared.pools, job.name, job.pool, job.namespace or declared.namespace, labels)
    nodes = cluster.nodes()
    added = _taken_by(cluster, nodes, job, identity)
    for each in declared.pools:
        if each.name == pool:
            ceiling_check(job, each, added, nodes)
    return _Checked(pool, added or None)


def _taken_by(
    cluster: Cluster, nodes: Sequence[NodeInfo], job: TrainingJob, identity: Identity
) -> dict[str, dict[str, int]]:
    """Refuse a job that never fits this cluster; return by role what the cluster adds to a replica."""
    selectors = needs_of(job)
    fitting = [node for node in nodes if any(needs.accept(node) for needs in selectors.values())]
    for role, needs in selectors.items():
        if nodes and not any(needs.accept(node) for node in nodes):
            raise SpecificationError(
                f'job "{job.name}": no node of cluster {cluster.name} may take one of {role}s'
                f"{f' ({needs.describe()})' if needs else ''}. Correct its node_selector, affinity or tolerations; "
                f"the nodes are {', '.join(node.name for node in nodes[:5])}."
            )
    room = [(node.name, node.allocatable) for node in fitting]
    capacity_check(job, room)
    really = cluster.trial(trial_specs(job, identity.label, cluster))
    capacity_check(job, room, {f"{role}s": asked for role, asked in really.items()})
    return added_to(job, really)


def _create(tx: Transaction, job: TrainingJob, identity: Identity, try_number: int, token: str, cluster: str) -> JobRow:
    workload = job.workload or identity.workload
    row = JobRow(
        key=identity.key,
        name=identity.label,
        title=identity.title,
        cluster=cluster,
        deployment=identity.deployment,
        dag_id=identity.dag_id,
        run_id=identity.run_id,
        task_id=identity.task_id,
        map_index=identity.map_index if identity.task_id is not None else None,
        workload=workload,
        state="queued",
        attempt=1,
        lineage=1,
        try_number=try_number,
        token=token,
        specification=job.to_dict(),
        specification_hash=job.specification_hash,
        priority=job.priority,
        deadline=job.deadline,
        wanted=0,
        retries={},
        memory_factor=remembered_factor(tx.peek_workload(workload), job),
        created_at=tx.now,
        queued_at=tx.now,
    )
    tx.add(row)
    tx.record(row, "queued", action=Action.CREATED.value)
    return row


def _again(tx: Transaction, row: JobRow, job: TrainingJob, token: str) -> Action:
    """The same try once more: adopt what lives."""
    row.token = token
    _change_in_place(row, job)
    tx.record(row, "reattached")
    return Action.REATTACHED


def _change_in_place(row: JobRow, job: TrainingJob) -> None:
    """Take over sizes, priority, deadline and stop criterion; the rest of a running job stays as it is."""
    if job.specification_hash == row.specification_hash:
        row.specification = job.to_dict()
    row.priority, row.deadline = job.priority, job.deadline


def _next_attempt(tx: Transaction, row: JobRow, job: TrainingJob, try_number: int, token: str, fresh: bool) -> Action:
    scratch = fresh or row.state == "succeeded" or row.verdict == "succeeded"
    for generation in tx.generations(row.id):
        _end_generation(tx, generation)
    row.token, row.try_number, row.attempt = token, try_number, row.attempt + 1
    row.state, row.verdict, row.cause, row.result = "queued", None, None, None
    row.specification, row.specification_hash = job.to_dict(), job.specification_hash
    row.priority, row.deadline = job.priority, job.deadline
    row.retries, row.not_before, row.ended_at, row.reason = {}, None, None, None
    row.memory_factor = remembered_factor(tx.peek_workload(row.workload), job)
    row.wanted, row.queued_at, row.started_at = 0, tx.now, None
    if scratch:
        start_from_scratch(tx, row)
    action = Action.RESTARTED if scratch else Action.RESUMED
    tx.record(row, "queued", action=action.value, checkpoint_step=row.checkpoint_step)
    return action


def _end_generation(tx: Transaction, generation: GenerationRow) -> None:
    cause: dict[str, Any] = {"code": "superseded", "numbers": {}}
    if generation.state == "wanted":
        generation.state, generation.cause, generation.gone_at = "superseded", cause, tx.now
    elif generation.state in ACTIVE:
        generation.state, generation.cause = "draining", cause
        generation.draining_at = generation.draining_at or tx.now


def start_from_scratch(tx: Transaction, row: JobRow) -> None:
    """Forget checkpoints and progress: a new lineage of checkpoints begins."""
    row.lineage += 1
    row.checkpoint_step, row.checkpoint_path = None, None
    row.step = row.epoch = row.loss = row.step_at = row.estimate = None
    for series in tx.all_series(row.id):
        tx.session.delete(series)


def request_stop(ctx: Context, job_id: int, *, token: str | None, by: str) -> bool:
    """Write the wish that a job stops, if ``token`` still owns it (None: a person, who needs none).

    Returns:
        Whether the wish was taken; not for a job that has ended or has another owner.
    """
    with ctx.store.transaction() as tx:
        row = tx.job(job_id)
        if row is None:
            raise SpecificationError(f"there is no job {job_id}")
        if row.state in FINAL or (token is not None and row.token != token):
            return False
        if row.state != "stopping":
            row.state, row.verdict = "stopping", row.verdict or "stopped"
            row.cause = row.cause or {"code": "stop_requested", "numbers": {"by": by}}
            tx.record(row, "stopping", by=by)
            tx.revise(row.cluster)
        return True
