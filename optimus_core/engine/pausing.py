"""Pauses as the engine carries them out: the round asks for one, a step stops the job, what it saved is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from optimus_core.engine.context import Context
from optimus_core.reasons import ReasonCode
from optimus_core.scheduling.pausing import Spell, paused_in_all
from optimus_core.store import GenerationRow, JobRow, Transaction

PAUSE = ReasonCode.PAUSED.value
"""Why a generation is stopped whose job is paused."""


def spells(row: JobRow, generations: Sequence[GenerationRow], now: datetime) -> list[Spell]:
    """Return the pauses of a job's attempt, each with how long it ran after it; the last may still last.

    A pause begins when the job is asked to stop and ends when all its replicas run again.
    """
    found: list[list[float]] = []
    since: datetime | None = None
    for generation in (each for each in generations if each.attempt == row.attempt):
        if generation.running_at is not None:
            if since is not None:
                found.append([(generation.running_at - since).total_seconds(), 0.0])
                since = None
            if found:
                found[-1][1] += ((generation.draining_at or now) - generation.running_at).total_seconds()
        if since is None and (generation.cause or {}).get("code") == PAUSE:
            since = generation.draining_at
    if since is not None:
        found.append([(now - since).total_seconds(), 0.0])
    return [(max(0.0, away), max(0.0, ran)) for away, ran in found]


def is_away(row: JobRow, generations: Sequence[GenerationRow]) -> bool:
    """Say whether a job is paused and has not run since, whatever its row says (it may back off meanwhile)."""
    last: GenerationRow | None = None
    for generation in (each for each in generations if each.attempt == row.attempt):
        if generation.running_at is not None or (generation.cause or {}).get("code") == PAUSE:
            last = generation
    return last is not None and (last.cause or {}).get("code") == PAUSE


def paused_seconds(row: JobRow, generations: Sequence[GenerationRow], now: datetime) -> float:
    """Return how long a job has been paused in all since it last held its minimum for good."""
    return paused_in_all(spells(row, generations, now))


def may_be_paused(row: JobRow, present: GenerationRow | None) -> bool:
    """Say whether a round may still pause a job: nobody has pinned it since the snapshot, and it can be resumed."""
    started = present is not None and present.state in ("starting", "running")
    return started and row.state == "running" and row.pin is None and row.checkpoint_step is not None


def ask_for(tx: Transaction, row: JobRow, present: GenerationRow, reason: dict[str, Any]) -> None:
    """Write that a job is to be paused; a step with it stops what runs."""
    row.state, row.wanted = "paused", 0
    row.reason = reason | {"numbers": reason.get("numbers", {}) | {"step": row.checkpoint_step}}
    tx.record(row, "pausing", present.number, **row.reason)


def take_back(tx: Transaction, row: JobRow, present: GenerationRow) -> None:
    """A pause that has not begun is wanted no more: what runs goes on."""
    row.state, row.wanted = "running", present.number
    tx.record(row, "pause_withdrawn", present.number)


def drain(ctx: Context, job: JobRow, generation: GenerationRow) -> None:
    """Ask a started generation of a job that is to be paused to save and stop."""
    with ctx.store.transaction() as tx:
        row, owner = tx.generation(job.id, generation.number), tx.job(job.id)
        if row is None or owner is None or owner.state != "paused" or row.state not in ("starting", "running"):
            return
        cause = {"code": PAUSE, "numbers": {"step": owner.checkpoint_step}}
        row.state, row.draining_at, row.cause = "draining", tx.now, cause
        tx.record(owner, "draining", row.number, **cause)


def confirm(tx: Transaction, owner: JobRow, generation: GenerationRow) -> None:
    """A paused job has stopped: record what it goes on from, and what is done again if its stop saved nothing."""
    numbers = dict(_saved(owner))
    generation.cause = {"code": PAUSE, "numbers": numbers}
    if owner.state == "paused":
        owner.reason = {"code": PAUSE, "numbers": (owner.reason or {}).get("numbers", {}) | numbers}
    tx.record(owner, "paused", generation.number, code=PAUSE, **numbers)


def _saved(owner: JobRow) -> Iterator[tuple[str, int]]:
    if owner.checkpoint_step is not None:
        yield "step", owner.checkpoint_step
        if owner.step is not None and owner.step > owner.checkpoint_step:
            yield "lost_steps", owner.step - owner.checkpoint_step
