"""How generations and jobs end: each function is one transaction that checks what it relies on."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from typing import Any

from optimus_core.checks import passable
from optimus_core.cluster.base import Cluster
from optimus_core.engine import pausing
from optimus_core.engine.collect import loss_points
from optimus_core.engine.context import Context
from optimus_core.engine.launch import job_of
from optimus_core.engine.memory import grow
from optimus_core.engine.result import result_of
from optimus_core.engine.verdict import MISSING, Verdict
from optimus_core.reasons import ReasonCode
from optimus_core.store import ACTIVE, CONFLICTS, FINAL, LIVE, GenerationRow, JobRow, Transaction
from optimus_core.workload import remember

Numbers = dict[str, Any]
UNAVAILABLE = ReasonCode.CLUSTER_UNAVAILABLE.value
"""Reason of a job for which nothing can be done, since the cluster can't be asked or used now."""
_KUEUE = "kueue.x-k8s.io"
"""Domain of Kueue's names."""
_UNRETRIED = ("refused", MISSING)
"""Failures that the next try can't mend: somebody has to change something."""


def drain(ctx: Context, job: JobRow, generation: GenerationRow, code: str, **numbers: Any) -> None:
    """Ask a started generation to stop; the next step deletes its replicas."""
    with ctx.store.transaction() as tx:
        row, owner = tx.generation(job.id, generation.number), tx.job(job.id)
        if row is not None and owner is not None and row.state in ("starting", "running"):
            _drain(tx, row, {"code": code, "numbers": numbers})
            tx.record(owner, "draining", row.number, code=code, **numbers)


def _drain(tx: Transaction, row: GenerationRow, cause: Numbers) -> None:
    row.state, row.draining_at, row.cause = "draining", tx.now, cause


def supersede(ctx: Context, job: JobRow, generation: GenerationRow, cause: Numbers) -> None:
    """Give up a wanted generation that has not begun; what runs goes on."""
    with ctx.store.transaction() as tx:
        row, owner = tx.generation(job.id, generation.number), tx.job(job.id)
        if row is not None and owner is not None and row.state == "wanted":
            row.state, row.cause, row.gone_at = "superseded", cause, tx.now
            tx.record(owner, "superseded", row.number, **cause)


def note_waiting(ctx: Context, job: JobRow, reason: Numbers) -> None:
    """Keep what the job waits for, unless it is known already, or the job is not as it was looked at any more."""
    if job.reason == reason:
        return
    with ctx.store.transaction() as tx:
        row = tx.job(job.id)
        if row is not None and (row.state, row.attempt, row.wanted) == (job.state, job.attempt, job.wanted):
            row.reason = reason


def note_unavailable(ctx: Context, job_id: int, error: Exception) -> None:
    """Keep why nothing can be done for a job now, for those who wonder why nothing happens."""
    reason = {"code": UNAVAILABLE, "numbers": {"message": passable(str(error))[:500]}}
    with contextlib.suppress(*CONFLICTS), ctx.store.transaction() as tx:
        known = tx.peek_job(job_id)
        row = tx.job(job_id) if known is not None and known.reason != reason else None
        if row is not None and row.state in LIVE:
            row.reason = reason


def note_unplanned(ctx: Context, cluster: str, error: Exception) -> None:
    """Keep for all that wait for a plan why there is none."""
    with ctx.store.transaction() as tx:
        waiting = [row.id for row in tx.jobs(cluster=cluster, states=("queued",))]
    for job_id in waiting:
        note_unavailable(ctx, job_id, error)


def note_available(ctx: Context, job: JobRow) -> None:
    """Put the reason of its size in the place of that, now that something can be done; who waits is told by a round."""
    if (job.reason or {}).get("code") != UNAVAILABLE or job.state == "queued":
        return
    with contextlib.suppress(*CONFLICTS), ctx.store.transaction() as tx:
        row = tx.job(job.id)
        if row is not None and row.reason == job.reason:
            wanted = tx.generation(row.id, row.wanted)
            row.reason = wanted.reason if wanted is not None else None


def note_held(ctx: Context, job: JobRow, generation: GenerationRow, gate: str) -> None:
    """Keep that a starting generation has not been let in by somebody: its time to start begins when it is."""
    with ctx.store.transaction() as tx:
        row, owner = tx.generation(job.id, generation.number), tx.job(job.id)
        if row is not None and owner is not None and row.state == "starting":
            numbers = {"gate": gate} | ({"by": "Kueue"} if _KUEUE in gate else {})
            row.cause = {"code": "waits_for_gate", "numbers": numbers | {"until": tx.now.isoformat()}}
            owner.reason = {"code": "waits_for_gate", "numbers": numbers}


def held_until(generation: GenerationRow) -> datetime | None:
    """Return until when a starting generation was held, None if it never was."""
    cause = generation.cause or {}
    return datetime.fromisoformat(cause["numbers"]["until"]) if cause.get("code") == "waits_for_gate" else None


def end_back_off(ctx: Context, job: JobRow) -> None:
    """Let the next round plan a job whose back-off is over."""
    with ctx.store.transaction() as tx:
        row = tx.job(job.id)
        if row is not None and row.not_before is not None and row.not_before <= tx.now:
            row.not_before = None
            tx.revise(row.cluster)


def succeed(ctx: Context, job: JobRow, generation: GenerationRow) -> None:
    """The replicas that decide have all exited 0, unasked: the job has succeeded once the others are gone."""
    with ctx.store.transaction() as tx:
        row, owner = tx.generation(job.id, generation.number), tx.job(job.id)
        if row is None or owner is None or row.state not in ("starting", "running") or owner.state == "stopping":
            return
        _drain(tx, row, {"code": "finished", "numbers": {}})
        owner.state, owner.verdict, owner.cause = "stopping", "succeeded", {"code": "finished", "numbers": {}}
        tx.record(owner, "stopping", row.number, code="finished")


def fail(ctx: Context, job: JobRow, generation: GenerationRow, verdict: Verdict) -> None:
    """Stop what is left of a failed generation and retry or give up, by the class of the failure."""
    fail_as(ctx, job, generation, verdict.failure or "lost", verdict.numbers)


def fail_as(ctx: Context, job: JobRow, generation: GenerationRow, kind: str, numbers: Numbers) -> None:
    """The same for a failure that is known by its class."""
    with ctx.store.transaction() as tx:
        row, owner = tx.generation(job.id, generation.number), tx.job(job.id)
        if row is None or owner is None or row.state not in ("starting", "running") or owner.state in FINAL:
            return
        cause = {"code": kind, "numbers": numbers | {"attempt": owner.attempt, "generation": row.number}}
        _drain(tx, row, cause)
        tx.record(owner, "failed", row.number, **cause)
        if owner.state == "stopping":
            return
        _retry_or_give_up(ctx, tx, owner, row, kind, cause)


def _retry_or_give_up(
    ctx: Context, tx: Transaction, owner: JobRow, row: GenerationRow, kind: str, cause: Numbers
) -> None:
    used = dict(owner.retries.get(kind, {"used": 0, "generations": []}))
    used["used"] += 1
    used["generations"] = [*used["generations"], row.number][-10:]
    owner.retries = owner.retries | {kind: used}
    hopeless = kind in _UNRETRIED or (kind == "user_error" and row.first_step is None)
    if hopeless or used["used"] > job_of(owner).retries:
        owner.state, owner.verdict = "stopping", "failed"
        numbers = cause["numbers"] | {"retries_used": used["used"] - 1, **_attempts(used)}
        if owner.memory_factor > 1:
            numbers["grown"] = owner.memory_factor
        owner.cause = {"code": kind, "numbers": numbers}
        tx.record(owner, "stopping", row.number, code=kind)
    else:
        _requeue(ctx, tx, owner, kind, used["used"])
    if kind == "oom":
        grow(ctx.settings, tx, owner)
    tx.revise(owner.cluster)


def _attempts(used: Numbers) -> Numbers:
    return {"failed_generations": ", ".join(str(number) for number in used["generations"])}


def roll_back(ctx: Context, job: JobRow, generation: GenerationRow, code: str, numbers: Numbers) -> None:
    """The cluster has no place for a generation now: give it up whole, and let a round decide anew after a wait.

    No retry is used up, since nothing is wrong with the job; its size is barred for a while.
    """
    with ctx.store.transaction() as tx:
        row, owner = tx.generation(job.id, generation.number), tx.job(job.id)
        if row is None or owner is None or row.state not in ("starting", "running"):
            return
        cause = {"code": code, "numbers": numbers}
        _drain(tx, row, cause)
        tx.record(owner, "rolled_back", row.number, **cause)
        if owner.state == "stopping":
            return
        owner.state, owner.wanted, owner.reason = "queued", 0, cause
        owner.not_before = tx.now + timedelta(seconds=ctx.settings.retry_backoff_seconds)
        tx.revise(owner.cluster)


def _requeue(ctx: Context, tx: Transaction, owner: JobRow, kind: str, used: int) -> None:
    delay = min(ctx.settings.retry_backoff_seconds * 2 ** (used - 1), ctx.settings.retry_backoff_max_seconds)
    owner.state, owner.wanted, owner.not_before = "queued", 0, tx.now + timedelta(seconds=delay)
    owner.reason = {"code": "backing_off", "numbers": {"failure": kind, "seconds": delay, "retry": used}}
    for generation in tx.generations(owner.id):
        if generation.state == "wanted":
            generation.state, generation.gone_at = "superseded", tx.now
    tx.record(owner, "retried", None, failure=kind, retry=used, seconds=delay)


def settle(ctx: Context, job: JobRow, generation: GenerationRow) -> None:
    """A drained generation is gone: free its room, and confirm what it was stopped for."""
    with ctx.store.transaction() as tx:
        row, owner = tx.generation(job.id, generation.number), tx.job(job.id)
        if row is None or owner is None or row.state != "draining":
            return
        row.state, row.gone_at, row.last_step = "gone", tx.now, owner.step
        cause = row.cause or {"code": "resize", "numbers": {}}
        tx.record(owner, "gone", row.number, code=cause["code"])
        if cause["code"] == pausing.PAUSE:
            pausing.confirm(tx, owner, row)
        if cause["code"] == "criterion_met" and owner.state == "running" and row.attempt == owner.attempt:
            _confirm_criterion(ctx, tx, owner, row, cause)
        tx.revise(owner.cluster)


def _confirm_criterion(ctx: Context, tx: Transaction, owner: JobRow, row: GenerationRow, cause: Numbers) -> None:
    """The stop criterion was met and we stopped it: a success once a checkpoint after that step is confirmed."""
    met_at = cause["numbers"].get("step", 0)
    if not job_of(owner).resumable or (owner.checkpoint_step is not None and owner.checkpoint_step >= met_at):
        owner.state, owner.verdict, owner.cause = "stopping", "succeeded", cause
        tx.record(owner, "stopping", row.number, **cause)
        return
    numbers = {"step": met_at, "checkpoint_step": owner.checkpoint_step, "generation": row.number}
    _retry_or_give_up(ctx, tx, owner, row, "no_checkpoint", {"code": "no_checkpoint", "numbers": numbers})


def finish(ctx: Context, job: JobRow, cluster: Cluster) -> bool:
    """No replica is left of a stopping job: remove their objects, then write its final state and what it came to.

    In this order: once its state is final nobody drives it any more, and what could not be removed would stay.

    Returns:
        Whether it was written: not if the job has ended already, or a new attempt has begun.

    Raises:
        ClusterUnavailable: the objects can't be removed now; the job has not ended, and the next step tries again.
    """
    if not is_kept(job):
        cluster.forget(job.name)
    with ctx.store.transaction() as tx:
        owner = tx.job(job.id)
        if owner is None or (owner.state, owner.attempt) != ("stopping", job.attempt):
            return False
        generations = tx.generations(owner.id)
        if any(generation.state in ACTIVE for generation in generations):
            return False
        owner.state, owner.ended_at = owner.verdict or "stopped", tx.now
        owner.result = result_of(owner, generations)
        owner.reason = owner.cause
        if owner.state == "succeeded":
            _learn(tx, owner)
        tx.record(owner, owner.state, None, **(owner.cause or {}))
        tx.revise(owner.cluster)
        return True


def is_kept(job: JobRow) -> bool:
    """Say whether what has ended of the job's replicas stays to be looked at."""
    on_finish = job.specification.get("on_finish", "")
    return on_finish == "keep_pod" or (on_finish == "delete_succeeded_pod" and job.verdict != "succeeded")


def _learn(tx: Transaction, owner: JobRow) -> None:
    """Keep for the workload's next run how much work this one took, and how its loss went."""
    known = tx.workload(owner.workload)
    known.runs, known.updated_at = known.runs + 1, tx.now
    if owner.step:
        known.total_steps = float(owner.step)
    points = [(point.step, point.value) for point in loss_points(tx, owner.id) if point.step is not None]
    if points:
        known.curve = remember(known.curve, *zip(*points, strict=True))
