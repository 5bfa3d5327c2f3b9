"""What people and programs are shown of a job: one shape for CLI, page, XCom and tests."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from optimus_core.counted import size_text
from optimus_core.engine.left import seconds_left, steps_left
from optimus_core.reasons import ReasonCode, render
from optimus_core.store import ACTIVE, FINAL, LIVE, EventRow, GenerationRow, JobRow, Transaction


@dataclass(frozen=True)
class JobReport:
    """A job as it stands. Times are ISO 8601 in UTC, durations seconds."""

    id: int
    name: str
    title: str
    cluster: str
    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int | None
    state: str
    phase: str
    attempt: int
    servers: int
    workers: int
    step: int | None
    epoch: float | None
    loss: float | None
    remaining_steps: float | None
    predicted_seconds: float | None
    """Until it ends, at the speed that the last plan counted on."""
    deadline: str | None
    late_seconds: float | None
    """How long after its deadline it ended, or is predicted to; None if in time, unknown, or without a deadline."""
    reason: str
    reason_code: str | None
    pinned: dict[str, int] | None
    checkpoint_step: int | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    stepped_at: str | None
    result: dict[str, Any] | None

    @property
    def final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for ``--json``."""
        return asdict(self)


def job_report(tx: Transaction, row: JobRow) -> JobReport:
    """Return the report of a job."""
    return report_of(row, tx.generations(row.id), tx.now)


def report_of(row: JobRow, generations: list[GenerationRow], now: datetime) -> JobReport:
    """Return the report of a job with these generations, oldest first, as it stands at ``now``."""
    present = next((g for g in reversed(generations) if g.state in ("starting", "running")), None)
    reason = row.reason if row.state in LIVE and not _is_stopped_for(row) else row.cause
    return JobReport(
        id=row.id,
        name=row.name,
        title=row.title,
        cluster=row.cluster,
        dag_id=row.dag_id,
        run_id=row.run_id,
        task_id=row.task_id,
        map_index=row.map_index,
        state=row.state,
        phase=phase_of(row, generations),
        attempt=row.attempt,
        servers=present.servers if present is not None else 0,
        workers=present.workers if present is not None else 0,
        step=row.step,
        epoch=row.epoch,
        loss=row.loss,
        remaining_steps=steps_left(row),
        predicted_seconds=None if row.state in (*FINAL, "stopping") else seconds_left(row),
        deadline=row.deadline.isoformat() if row.deadline else None,
        late_seconds=late_seconds(row, now),
        reason=render(reason["code"], reason.get("numbers")) if reason else "",
        reason_code=reason["code"] if reason else None,
        pinned=row.pin,
        checkpoint_step=row.checkpoint_step,
        created_at=row.created_at.isoformat(),
        started_at=row.started_at.isoformat() if row.started_at else None,
        ended_at=row.ended_at.isoformat() if row.ended_at else None,
        stepped_at=row.stepped_at.isoformat() if row.stepped_at else None,
        result=row.result,
    )


def late_seconds(row: JobRow, now: datetime) -> float | None:
    """Return how long after its deadline a job ended, or will end as far as is known; None if in time or unknown."""
    if row.deadline is None:
        return None
    predicted = timedelta(seconds=seconds_left(row) or 0.0)
    end = row.ended_at if row.state in FINAL and row.ended_at is not None else now + predicted
    late = (end - row.deadline).total_seconds()
    return late if late > 0 else None


def phase_of(row: JobRow, generations: list[GenerationRow]) -> str:
    """Return a job's state, refined by its generations: starting, resizing, stopping, blocked, backing off."""
    if row.state == "paused" and any(g.state in ACTIVE for g in generations):
        return "pausing"
    if row.state != "running":
        return "backing off" if row.state == "queued" and row.not_before is not None else row.state
    states = {g.state for g in generations}
    if "draining" in states:
        causes = {(g.cause or {}).get("code") for g in generations if g.state == "draining"}
        return "resizing" if causes == {"resize"} else "stopping"
    if "starting" in states:
        return "starting"
    if "running" in states:
        return "running"
    return "blocked"


def generation_dict(row: GenerationRow) -> dict[str, Any]:
    """Return a generation as plain data, with the sentence of its reason."""
    times = ("wanted_at", "starting_at", "running_at", "first_step_at", "draining_at", "gone_at")
    return {
        "number": row.number,
        "attempt": row.attempt,
        "state": row.state,
        "servers": row.servers,
        "workers": row.workers,
        "placement": row.placement,
        "why": _sentence(row.reason),
        "ended_by": _sentence(row.cause) if row.state not in ("starting", "running") else "",
        "first_step": row.first_step,
        "last_step": row.last_step,
    } | {name: moment.isoformat() if (moment := getattr(row, name)) is not None else None for name in times}


def event_dict(row: EventRow) -> dict[str, Any]:
    """Return one row of a job's history as plain data."""
    return {
        "time": row.time.isoformat(),
        "attempt": row.attempt,
        "generation": row.generation,
        "kind": row.kind,
        "cause": row.cause,
        "text": _sentence(row.cause) or _plain(row.cause),
    }


def _plain(cause: dict[str, Any]) -> str:
    """Return what is known of an event that has no reason: ``1 server, 3 workers, on node-1``."""
    known = dict(cause)
    words = []
    if all(isinstance(known.get(role), int) for role in ("servers", "workers")):
        words.append(size_text(known.pop("servers"), known.pop("workers")))
    if isinstance(known.get("placement"), dict):
        words.append(f"on {', '.join(sorted(known.pop('placement')))}")
    return ", ".join([*words, *(f"{name.replace('_', ' ')} {value}" for name, value in known.items())])


def _is_stopped_for(row: JobRow) -> bool:
    """Say whether what a job is stopped for matters more than what its end waits for."""
    return row.state == "stopping" and (row.reason or {}).get("code") != ReasonCode.CLUSTER_UNAVAILABLE.value


def _sentence(reason: dict[str, Any] | None) -> str:
    if not reason or "code" not in reason:
        return ""
    return render(reason["code"], reason.get("numbers", {k: v for k, v in reason.items() if k != "code"}))
