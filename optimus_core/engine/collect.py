"""Output becomes points, speeds and events: cursor and points in one transaction, so that nothing counts twice.

Rank 0 tells the loss; of the others only how fast they are and the end of their output are kept, read in turn
(:mod:`.stragglers`) and when they have ended.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath

from optimus_core.cluster.base import CheckpointPlace, Cluster, Output, Replica, Role
from optimus_core.engine.context import Context
from optimus_core.engine.launch import checkpoint_folder, checkpoint_place, job_of
from optimus_core.engine.memory import remember as remember_memory
from optimus_core.engine.reader import Reader, Reading
from optimus_core.engine.stopping import is_met
from optimus_core.errors import ClusterUnavailable, SpecificationError
from optimus_core.job import TrainingJob
from optimus_core.store import (
    GenerationRow,
    JobRow,
    OutputRow,
    SeriesRow,
    SpeedRow,
    Transaction,
    is_of_the_store,
)
from optimus_core.telemetry import BoundedSeries, Event, EventKind, Point
from optimus_core.telemetry.grammar import is_loss
from optimus_core.telemetry.text import storable

_log = logging.getLogger(__name__)

MOST_METRICS = 20
"""Series kept of one job: a script that prints a new name each step can't fill the store."""
SAMPLES_THAT_ARE_NEWS = (1, 3)
"""Numbers of speed samples of a generation at which its job's speed is known so much better that it may matter."""
_MOST_READS = 64
"""Reads of one step, each of up to a mebibyte; the rest waits for the next step."""
_SMALL_READ = 1 << 16
"""Bytes: what a running replica writes while it is read, this much or less, waits for the next step too."""
_GENERATION_FOLDER = re.compile(r"/g([0-9]{6,})/")
"""How it names that of a generation's checkpoints."""
_STEP_FOLDER = re.compile(r"step-([0-9]{12,18})")
"""How ``optimus_train`` names the folder of a checkpoint."""
_MOST_FAILURES = 2
"""Replicas whose output can't be read in one step before the others are not tried: each may cost a time-out."""
_MOST_TOLD = 5
"""Gaps of a replica's output that are told of in the history; its row counts all."""


def collect(ctx: Context, job: JobRow, replicas: Sequence[Replica], cluster: Cluster) -> ClusterUnavailable | None:
    """Read what the job's replicas have written since the last time.

    Returns:
        Why the output of some can't be read now, which must not keep the job from being judged and stopped.
    """
    failures: list[ClusterUnavailable] = []
    for replica in replicas:
        leads = replica.role is Role.WORKER and replica.index == 0
        if leads or replica.phase.ended:
            try:
                read_all(ctx, job, replica, cluster)
            except ClusterUnavailable as error:
                failures.append(error)
        if len(failures) == _MOST_FAILURES:
            break
    return failures[0] if failures else None


def unread(ctx: Context, job: JobRow, replicas: Sequence[Replica]) -> list[Replica]:
    """Return the ended replicas whose output was not read to its end."""
    with ctx.store.transaction() as tx:
        read = {row.uid for row in tx.outputs(job.id) if row.ended}
    return [replica for replica in replicas if replica.phase.ended and replica.uid not in read]


def give_up(ctx: Context, job: JobRow, replicas: Sequence[Replica]) -> None:
    """Take the rest of the output of ended replicas for lost, and tell so in the history."""
    for replica in replicas:
        with ctx.store.transaction() as tx:
            known = tx.output(job.id, replica.name, replica.uid)
            owner, row = rows_of(tx, job, replica, known.cursor if known is not None else None)
            if owner is not None and row is not None:
                _keep(ctx, tx, owner, row, Output((), row.cursor or "", ended=True, missed=True), leads=True)


def read_all(ctx: Context, job: JobRow, replica: Replica, cluster: Cluster) -> None:
    """Read what one replica has written since the last time."""
    leads = replica.role is Role.WORKER and replica.index == 0
    for _ in range(_MOST_READS):
        if not _read_once(ctx, job, replica, cluster, leads):
            break


def _read_once(ctx: Context, job: JobRow, replica: Replica, cluster: Cluster, leads: bool) -> bool:
    """Read one piece; return whether there may be more at once."""
    with ctx.store.transaction() as tx:
        known = tx.output(job.id, replica.name, replica.uid)
        if known is not None and known.ended:
            return False
        cursor = known.cursor if known is not None else None
    output = cluster.output(replica, cursor)
    if not (output.lines or output.ended or output.missed):
        return False
    try:
        with ctx.store.transaction() as tx:
            owner, row = rows_of(tx, job, replica, cursor)
            if owner is None or row is None:
                return False
            _keep(ctx, tx, owner, row, output, leads)
            if leads:
                _learn(ctx, tx, owner, row, output, cluster)
            elif replica.role is Role.WORKER and ctx.settings.stragglers != "off":
                _learn_own_times(ctx, owner, row, output)
    except Exception as error:
        if is_of_the_store(error):
            raise
        _pass_over(ctx, job, replica, cursor, output, error)
    size = sum(len(line.data) for line in output.lines)
    return not output.ended and size > (0 if replica.phase.ended else _SMALL_READ)


def rows_of(
    tx: Transaction, job: JobRow, replica: Replica, cursor: str | None
) -> tuple[JobRow | None, OutputRow | None]:
    """Return the rows of the job and of the replica's output; None if another collector was faster."""
    owner, row = tx.job(job.id), tx.output(job.id, replica.name, replica.uid)
    if owner is None or (row.cursor if row is not None else None) != cursor:
        return None, None
    if row is None:
        row = OutputRow(job_id=job.id, replica=replica.name, uid=replica.uid, generation=replica.generation)
        row.tail, row.written, row.told, row.gaps, row.unread, row.ended = "", 0, 0, 0, 0, False
        tx.add(row)
    return owner, row


def _pass_over(
    ctx: Context, job: JobRow, replica: Replica, cursor: str | None, output: Output, error: Exception
) -> None:
    """Go on after a piece that can't be taken in: it would come again for ever, and hide what follows it."""
    _log.error("a piece of the output of %s can't be taken in", replica.name, exc_info=error)
    with ctx.store.transaction() as tx:
        owner, row = rows_of(tx, job, replica, cursor)
        if owner is None or row is None:
            return
        row.cursor, row.ended, row.gaps = output.cursor, output.ended, row.gaps + 1
        if row.gaps <= _MOST_TOLD:
            told = storable(f"{type(error).__name__}: {error}")[:200]
            tx.record(owner, "output_unread", row.generation, replica=row.replica, error=told)


def _keep(ctx: Context, tx: Transaction, owner: JobRow, row: OutputRow, output: Output, leads: bool) -> None:
    row.cursor, row.ended = output.cursor, output.ended
    text = "".join(line.data.decode("utf-8", "replace") + "\n" for line in output.lines)
    row.written += len(text)
    row.tail = (row.tail + text)[-ctx.settings.log_tail_bytes :].replace("\x00", "\ufffd")
    if output.missed:
        row.gaps += 1
    if output.missed and leads and row.gaps <= _MOST_TOLD:  # of the others nothing was to be known but their speed
        tx.record(owner, "output_missed", row.generation, replica=row.replica)


def _learn(ctx: Context, tx: Transaction, owner: JobRow, row: OutputRow, output: Output, cluster: Cluster) -> None:
    generation = tx.generation(owner.id, row.generation)
    if generation is None or generation.attempt != owner.attempt:
        return  # what an old attempt prints counts no more
    if tx.is_succeeded(generation):
        return  # nor what an old generation prints, as it may on a node that nobody reached
    spec = job_of(owner)
    reader = Reader(spec.metrics, steps_per_epoch(spec), ctx.settings.speed_window_seconds, row.reader)
    reading = reader.read(output.lines)
    row.reader, row.unread = reader.state(), reader.unread
    _refuse_checkpoints(ctx, tx, owner, generation, reading, cluster)
    _keep_progress(tx, owner, generation, reading, spec)
    _keep_series(ctx, tx, owner, reading)
    _keep_events(tx, owner, generation, reading)
    _keep_speeds(tx, owner, generation, reading)


def _learn_own_times(ctx: Context, owner: JobRow, row: OutputRow, output: Output) -> None:
    """Keep of a worker that does not lead only how fast it is."""
    spec, known = job_of(owner), row.reader or {}
    reader = Reader(spec.metrics, steps_per_epoch(spec), ctx.settings.speed_window_seconds, known)
    reader.read(output.lines)
    row.reader = known | reader.state()


def _keep_speeds(tx: Transaction, owner: JobRow, generation: GenerationRow, reading: Reading) -> None:
    """Keep speed samples; the first few of a generation are news that a round must see."""
    if not reading.speeds:
        return
    before = tx.count_speeds(owner.id, generation.number)
    if any(before < news <= before + len(reading.speeds) for news in SAMPLES_THAT_ARE_NEWS):
        tx.revise(owner.cluster)
    for speed in reading.speeds:
        tx.add_speed(
            SpeedRow(
                job_id=owner.id,
                workload=owner.workload,
                specification_hash=owner.specification_hash,
                generation=generation.number,
                servers=generation.servers,
                workers=generation.workers,
                steps=speed.steps,
                seconds=speed.seconds,
                time=datetime.fromtimestamp(speed.time, UTC),
            )
        )


def steps_per_epoch(job: TrainingJob) -> int | None:
    """Return the steps of an epoch that the job declares, directly or by samples and batch; None if it does not."""
    if job.steps_per_epoch is not None:
        return job.steps_per_epoch
    if job.samples_per_epoch is not None and job.batch_size is not None:
        return max(1, -(-job.samples_per_epoch // job.batch_size))
    return None


def _keep_progress(
    tx: Transaction, owner: JobRow, generation: GenerationRow, reading: Reading, spec: TrainingJob
) -> None:
    if not reading.steps:
        return
    step = max([*reading.steps, generation.last_step or 0])  # a checkpoint is often told of after later steps
    if generation.first_step is None:
        generation.first_step = reading.steps[0]
        generation.first_step_at = tx.now
        _measure_restart(tx, owner, generation)
        remember_memory(tx, owner, spec)
    if owner.step is None or step > owner.step:
        owner.step_at = tx.now
    owner.step, generation.last_step = step, step
    epochs = [point.epoch for _, point in reading.points if point.epoch is not None]
    per_epoch = steps_per_epoch(spec)
    if epochs:
        owner.epoch = epochs[-1]
    elif per_epoch:
        owner.epoch = round(step / per_epoch, 3)
    losses = [point.value for _, point in reading.points if is_loss(point.name)]
    if losses:
        owner.loss = losses[-1]


def _measure_restart(tx: Transaction, owner: JobRow, generation: GenerationRow) -> None:
    """A resize cost the time from the stop of the old size to the first step of the new one."""
    earlier = [g for g in tx.generations(owner.id) if g.number < generation.number and g.state != "superseded"]
    before = earlier[-1] if earlier else None
    if before is None or before.draining_at is None or (before.cause or {}).get("code") != "resize":
        return
    seconds = (tx.now - before.draining_at).total_seconds()
    known = tx.workload(owner.workload)
    known.restart_seconds = seconds if known.restart_seconds is None else (known.restart_seconds + seconds) / 2
    known.updated_at = tx.now
    tx.record(owner, "resized", generation.number, restart_seconds=round(seconds, 2))


def _keep_series(ctx: Context, tx: Transaction, owner: JobRow, reading: Reading) -> None:
    by_name: dict[str, list[Point]] = {}
    for step, point in reading.points:
        by_name.setdefault(point.name[:200], []).append(
            Point(point.line, point.name, point.value, step, point.epoch, point.time)
        )
    kept = len(tx.all_series(owner.id)) if by_name else 0
    for name, points in by_name.items():
        row = tx.series(owner.id, name)
        if row is None:
            if kept >= MOST_METRICS:
                continue
            row, kept = SeriesRow(job_id=owner.id, name=name, state={}, points=0), kept + 1
            tx.add(row)
        series = BoundedSeries.from_state(row.state) if row.state else BoundedSeries(ctx.settings.points_limit)
        last = max((p.step for p in series.points() if p.step is not None), default=-1)
        fresh = [p for p in points if p.step is None or p.step > last]  # after a restart steps come again
        series.extend(fresh)
        row.state, row.points = series.state(), row.points + len(fresh)


def _keep_events(tx: Transaction, owner: JobRow, generation: GenerationRow, reading: Reading) -> None:
    for event in reading.events:
        if event.kind is EventKind.CHECKPOINT:
            _confirm_checkpoint(tx, owner, generation, event.step or 0, event.message)
        elif event.kind in (EventKind.TOTAL, EventKind.PROGRESS) and event.total:
            owner.total_steps = event.total
        elif event.kind is EventKind.DIVERGED:
            tx.record(owner, "diverged", generation.number, step=event.step, message=event.message[:200])


def _refuse_checkpoints(
    ctx: Context, tx: Transaction, owner: JobRow, generation: GenerationRow, reading: Reading, cluster: Cluster
) -> None:
    """Drop checkpoints that are none of this job's: a script may print anything, and a checkpoint proves success."""
    told = [event for event in reading.events if event.kind is EventKind.CHECKPOINT]
    if not told:
        return
    place = _checkpoint_place(owner, cluster)
    folder = checkpoint_folder(ctx, owner, place) if place is not None else None
    here = place is not None and place.root is None
    refused = [event for event in told if folder is None or not is_checkpoint(event, folder, here=here)]
    reading.events = [event for event in reading.events if event not in refused]
    reading.steps += [event.step for event in told if event not in refused and event.step is not None]
    news = "checkpoint_refused"
    if refused and not any((e.kind, e.generation) == (news, generation.number) for e in tx.events(owner.id, 200)):
        tx.record(owner, news, generation.number, step=refused[0].step, path=refused[0].message[:500], folder=folder)


def _checkpoint_place(owner: JobRow, cluster: Cluster) -> CheckpointPlace | None:
    try:
        return checkpoint_place(job_of(owner), owner.name, cluster)
    except SpecificationError:
        return None


def is_checkpoint(event: Event, folder: str, *, here: bool) -> bool:
    """Say whether what a script calls a checkpoint can be one of its job's.

    Args:
        event: what it said.
        folder: where the job's checkpoints lie.
        here: it is a folder of this machine: what is told of must be there. One that made way for newer ones is not.
    """
    path, named = PurePosixPath(event.message), _STEP_FOLDER.fullmatch(PurePosixPath(event.message).name)
    if event.step is None or ".." in path.parts or PurePosixPath(folder) not in path.parents:
        return False
    if named is not None and int(named[1]) != event.step:
        return False
    return not (here and path.is_absolute()) or os.path.exists(path)


def _confirm_checkpoint(tx: Transaction, owner: JobRow, generation: GenerationRow, step: int, path: str) -> None:
    saved_by = _GENERATION_FOLDER.search(owner.checkpoint_path or "")
    if saved_by is not None and int(saved_by[1]) > generation.number:
        return  # told late: a newer generation has gone on from an older one, and resumes from its own
    owner.checkpoint_step, owner.checkpoint_path = step, path or None
    if owner.retries and step > (generation.first_step or 0):
        owner.retries = {}  # healthy progress: budgets recover
    tx.record(owner, "checkpoint", generation.number, step=step)


def criterion_met(ctx: Context, job: JobRow) -> int | None:
    """Return the step at which the job's stop criterion is met by what was seen so far, None if it is not."""
    spec = job_of(job)
    if spec.stop is None:
        return None
    with ctx.store.transaction() as tx:
        owner = tx.peek_job(job.id)
        losses = loss_points(tx, job.id)
    if owner is None or not is_met(spec.stop, owner.step, owner.epoch, losses, steps_per_epoch(spec)):
        return None
    return owner.step or 0


def loss_points(tx: Transaction, job_id: int) -> list[Point]:
    """Return the points of the job's loss; see :func:`loss_series`."""
    chosen = loss_series(tx, job_id)
    return BoundedSeries.from_state(chosen.state).points() if chosen is not None else []


def loss_series(tx: Transaction, job_id: int) -> SeriesRow | None:
    """Return the series of the loss: the one called ``loss``, else the first whose name is a loss's."""
    rows = sorted(tx.all_series(job_id), key=lambda row: (row.name != "loss", "val" in row.name.lower(), row.name))
    return next((row for row in rows if is_loss(row.name) and row.state), None)
