"""Why each job has what it has, in numbers."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from optimus_core.counted import size_text
from optimus_core.reasons import Number, Reason, ReasonCode
from optimus_core.resources import Resources
from optimus_core.scheduling.admission import Standing
from optimus_core.scheduling.explain_pools import PoolTeller
from optimus_core.scheduling.placement import Room
from optimus_core.scheduling.rows import Problem, Row, Vector, is_known, placement_of, size_of, smaller_of
from optimus_core.scheduling.speeds import Pair
from optimus_core.scheduling.types import Decision, Plan, Snapshot

Numbers = dict[str, Number]


def explain(snapshot: Snapshot, problem: Problem, standing: Standing) -> Plan:
    """Return the plan of a standing, with the reason of every decision."""
    teller = _Teller(snapshot, problem, standing)
    free = standing.room.free.clip(min=0).tolist()
    left = {
        name: dict(zip(problem.resources, amounts, strict=True))
        for name, amounts in zip(standing.room.names, free, strict=True)
    }
    return Plan(
        cluster=snapshot.cluster,
        time=snapshot.time,
        decisions=[teller.decision(row) for row in problem.rows],
        free=left,
        pools=teller.pools.uses(),
    )


class _Teller:
    def __init__(self, snapshot: Snapshot, problem: Problem, standing: Standing) -> None:
        self._now, self._problem, self._standing = snapshot.time, problem, standing
        self.pools = PoolTeller(problem, standing)
        self._ready = {node.name for node in problem.nodes}
        self._position = {row.name: number for number, row in enumerate(standing.waiting, 1)}
        self._free = standing.room.total()
        self._fed = sum(self._grew(row) for row in problem.rows)
        nodes = sorted(snapshot.nodes, key=lambda node: node.name)
        offers = [problem.vector(node.allocatable) for node in nodes]
        self._empty = Room([node.name for node in nodes], offers, len(problem.resources))

    def _grew(self, row: Row) -> bool:
        size = self._standing.size(row)
        return size != row.present and smaller_of(size, row.present) == row.present

    def decision(self, row: Row) -> Decision:
        """Return the decision about one job."""
        size, worker, server = self._standing.size(row), self._saved(row, (0, 1)), self._saved(row, (1, 0))
        waits, late = self._waits_for(row), self._late(row, size)
        reason = waits if waits is not None and size == (0, 0) else self._reason(row, size, worker)
        if late is not None:
            reason = reason.model_copy(update={"numbers": reason.numbers | {"late_seconds": late}})
        return Decision(
            job=row.name,
            size=size_of(size),
            placement=placement_of(self._standing.seats[row.name]),
            present=size_of(row.present),
            reason=reason,
            remaining=row.job.remaining,
            seconds_saved_by_one_worker=worker,
            seconds_saved_by_one_server=server,
            predicted_seconds=self._seconds(row, size),
            late_seconds=late,
            waits_for=waits,
            changed=self._standing.moved(row),
        )

    def _paused(self, row: Row) -> Reason:
        """Return for whom a job is paused, for how long it has been and may be, and what it has left."""
        numbers: Numbers = self.pools.numbers(row) | {"other": self._shorter(row)}
        if row.job.paused_seconds:
            numbers["paused_seconds"] = row.job.paused_seconds
        back = self._problem.settings.max_paused - row.job.paused_seconds
        if back > 0:
            by = datetime.fromtimestamp(self._now + back, UTC)
            numbers |= {"back_seconds": back, "back_by": f"{by:%Y-%m-%d %H:%M} UTC"}
        if (left := self._seconds(row, row.floor)) is not None:
            numbers["left_seconds"] = left
        return Reason(code=ReasonCode.PAUSED, numbers=numbers)

    def _shorter(self, row: Row) -> str:
        """Return how many of those that run have less left to do at their minimum."""
        left = self._seconds(row, row.floor)
        running = [other for other in self._problem.rows if self._standing.seats[other.name]]
        least = [seconds for other in running if (seconds := self._seconds(other, other.floor)) is not None]
        count = sum(left is not None and seconds < left for seconds in least)
        if not count:
            return "jobs that must have their minimum"
        return "1 job that has less left to do" if count == 1 else f"{count} jobs that have less left to do"

    def _seconds(self, row: Row, size: Pair) -> float | None:
        if row.seconds is None or size == (0, 0) or not is_known(row.job):
            return None
        seconds = row.seconds(size)
        return seconds if math.isfinite(seconds) else None

    def _late(self, row: Row, size: Pair) -> float | None:
        """Return how long after its deadline a job will be done, its restart included if it changes."""
        seconds = self._seconds(row, size)
        if seconds is None or row.job.deadline is None:
            return None
        late = self._now + seconds + (self._restart(row) if self._standing.moved(row) else 0.0) - row.job.deadline
        return late if late > 0 else None

    def _saved(self, row: Row, step: Pair) -> float | None:
        size = self._standing.size(row)
        if step[0] and row.job.strategy == "allreduce":
            return None
        now, then = self._seconds(row, size), self._seconds(row, (size[0] + step[0], size[1] + step[1]))
        return None if now is None or then is None else now - then

    def _waits_for(self, row: Row) -> Reason | None:
        if row.deferred:
            return self._deferred(row)
        if row.name not in self._position:
            return None
        if row.job.state == "paused" or row.present != (0, 0):
            return self._paused(row)
        needed = row.demand(row.floor)
        numbers: Numbers = {"size": size_text(*row.floor), "needed": self._text(needed)}
        if self._empty.place(row, row.floor) is None:
            whole = self._empty.free.sum(axis=0).tolist()
            numbers |= {"largest": self._largest(row), "cluster": self._text(tuple(whole))}
            return Reason(code=ReasonCode.CAN_NEVER_FIT, numbers=numbers)
        numbers |= {"position": self._position[row.name], "waiting": len(self._position)}
        if self.pools.is_at_ceiling(row, needed):
            return Reason(code=ReasonCode.WAITS_FOR_POOL, numbers=numbers | self.pools.numbers(row))
        numbers |= {"free": self._text(tuple(self._free))} | self.pools.kept(row) | self.pools.numbers(row)
        return Reason(code=ReasonCode.WAITS_FOR_ROOM, numbers=numbers)

    def _deferred(self, row: Row) -> Reason:
        job = row.job
        if job.pinned is not None and row.floor == (0, 0):
            return Reason(code=ReasonCode.PAUSED, numbers={"by": "pin"})
        if job.not_before is not None and job.not_before > self._now:
            return Reason(code=ReasonCode.BACKING_OFF, numbers={"seconds": job.not_before - self._now})
        return Reason(code=ReasonCode.BARRED_SIZE, numbers={"other": "every size"})

    def _largest(self, row: Row) -> str:
        shares = [max((v for v in node), default=0) for node in (self._empty.free / self._scale()).tolist()]
        index = max(range(len(shares)), key=lambda number: shares[number], default=None)
        return "nothing" if index is None else self._text(tuple(self._empty.free[index].tolist()))

    def _scale(self) -> list[int]:
        return [max(1, int(amount)) for amount in self._empty.free.sum(axis=0)]

    def _text(self, amounts: Vector) -> str:
        return Resources(dict(zip(self._problem.resources, amounts, strict=True))).describe()

    def _reason(self, row: Row, size: Pair, worker: float | None) -> Reason:
        numbers: Numbers = self.pools.numbers(row) | {"size": size_text(*size)}
        if worker is not None:
            numbers["saved_seconds"] = worker
        if row.job.pinned is not None and not row.held:
            return Reason(code=ReasonCode.PINNED, numbers=numbers)
        if row.present == (0, 0):
            return self._started(row, size)
        return self._changed(row, size) if self._standing.moved(row) else self._kept(row, size, numbers)

    def _started(self, row: Row, size: Pair) -> Reason:
        numbers: Numbers = self.pools.numbers(row) | {"size": size_text(*size), "minimum": size_text(*row.floor)}
        if (seconds := self._seconds(row, size)) is not None:
            numbers["predicted_seconds"] = seconds
        code = ReasonCode.STARTED_AT_MINIMUM if size == row.floor else ReasonCode.STARTED
        return Reason(code=code, numbers=numbers)

    def _changed(self, row: Row, size: Pair) -> Reason:
        numbers: Numbers = self.pools.numbers(row) | {"size": size_text(*size), "present": size_text(*row.present)}
        now, then = self._seconds(row, row.present), self._seconds(row, size)
        saved = None if now is None or then is None else now - then
        numbers |= {"restart_seconds": self._restart(row)} | ({} if saved is None else {"saved_seconds": saved})
        if size == row.present:
            return Reason(code=ReasonCode.MOVED, numbers=numbers)
        if self._grew(row):
            return Reason(code=ReasonCode.GROWN, numbers=numbers)
        if smaller_of(size, row.present) != size:
            return Reason(code=ReasonCode.RESHAPED, numbers=numbers)
        if saved is not None:
            numbers["lost_seconds"] = -saved
        return Reason(code=ReasonCode.SHRUNK, numbers=numbers | {"jobs_fed": self._fed})

    def _restart(self, row: Row) -> float:
        return row.restart / (1 + self._problem.settings.min_gain)

    def _kept(self, row: Row, size: Pair, numbers: Numbers) -> Reason:
        if row.held:
            away = sorted(set(row.seats) - self._ready)
            if away:
                return Reason(code=ReasonCode.NODE_NOT_READY, numbers=numbers | {"node": away[0]})
            if row.job.resizable:
                return Reason(code=ReasonCode.BARRED_SIZE, numbers=numbers | {"other": "that it may have"})
            return Reason(code=ReasonCode.NOT_RESIZABLE, numbers=numbers)
        if row.seconds is None or row.job.speed.get("is_default", False):
            return Reason(code=ReasonCode.UNKNOWN_SPEED, numbers=numbers)
        if row.job.remaining.value is None:
            assumed: Numbers = {} if row.assumed_seconds is None else {"assumed": row.assumed_seconds}
            return Reason(code=ReasonCode.UNKNOWN_REMAINING, numbers=numbers | assumed)
        return self._kept_by_choice(row, size, numbers)

    def _kept_by_choice(self, row: Row, size: Pair, numbers: Numbers) -> Reason:
        if size == row.ceiling:
            return Reason(code=ReasonCode.KEPT_AT_MAXIMUM, numbers=numbers)
        if (size[0], size[1] + 1) in row.barred:
            return Reason(code=ReasonCode.BARRED_SIZE, numbers=numbers | {"other": size_text(size[0], size[1] + 1)})
        saved = numbers.get("saved_seconds")
        if not isinstance(saved, int | float) or saved <= 0:
            return Reason(code=ReasonCode.KEPT, numbers=numbers)
        if self.pools.is_at_ceiling(row, row.worker):
            return Reason(code=ReasonCode.KEPT_AT_CEILING, numbers=numbers)
        if self._standing.room.place(row, (0, 1)) is None:
            return Reason(code=ReasonCode.KEPT_NO_ROOM, numbers=numbers)
        numbers |= {"restart_seconds": self._restart(row), "margin": self._problem.settings.min_gain}
        numbers |= {"other": size_text(size[0], size[1] + 1)}
        return Reason(code=ReasonCode.KEPT_CHANGE_NOT_WORTH_COST, numbers=numbers)
