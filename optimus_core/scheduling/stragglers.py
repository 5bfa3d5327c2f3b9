"""Which worker is slower than its like, and whether replacing it pays (section 5.4 of the Optimus paper, EuroSys 2018).

Asynchronous workers have speeds of their own: below half of the median is a straggler. Synchronous workers all wait
for the slowest, so it is their own step times, or the gaps between the arrivals of their gradients, that tell. Each
worker counts by the median of its samples, so one slow sample says nothing. If most of a node's workers are slow, the
node is the finding. All functions here are pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

SLOW = 0.5
"""A worker of less than this part of the median speed is a straggler."""
FEWEST_SAMPLES, FEWEST_WORKERS = 3, 3
"""Fewer samples of a worker, or fewer workers with enough of them, tell nothing."""


@dataclass(frozen=True)
class Straggler:
    """A worker or a node that is slow."""

    kind: Literal["worker", "node"]
    name: str
    workers: tuple[str, ...]
    """The slow workers: itself, or those on the node."""
    relative_speed: float
    """Its speed (of a node: its workers' median) as part of the median speed; 0 to 0.5."""


def slow_by_speed(speeds: Mapping[str, Sequence[float]], nodes: Mapping[str, str] | None = None) -> list[Straggler]:
    """Return the stragglers among asynchronous workers.

    Args:
        speeds: worker -> its latest speeds, in steps a second; what is negative or no number is left out.
        nodes: worker -> the node that it is on; without, no node can be the finding.
    """
    typical = {worker: _median(samples) for worker, samples in speeds.items()}
    known = {worker: speed for worker, speed in typical.items() if speed is not None}
    if len(known) < FEWEST_WORKERS:
        return []
    usual = median(known.values())
    if usual <= 0:
        return []
    slow = {worker: speed / usual for worker, speed in known.items() if speed < SLOW * usual}
    return _found(slow, known, nodes or {})


def slow_by_step_time(
    seconds: Mapping[str, Sequence[float]], nodes: Mapping[str, str] | None = None
) -> list[Straggler]:
    """Return the stragglers among synchronous workers.

    Args:
        seconds: worker -> the latest times of its own part of a step, without waiting for the others.
        nodes: as in :func:`slow_by_speed`.
    """
    speeds = {worker: [1 / t for t in times if t > 0] for worker, times in seconds.items()}
    return slow_by_speed(speeds, nodes)


def slow_by_arrival(arrivals: Sequence[Mapping[str, float]], nodes: Mapping[str, str] | None = None) -> list[Straggler]:
    """Return the stragglers among synchronous workers by when their gradients arrived.

    Args:
        arrivals: for each step, worker -> seconds from the begin of the step to the arrival of its gradient.
        nodes: as in :func:`slow_by_speed`.
    """
    workers = sorted({worker for step in arrivals for worker in step})
    return slow_by_step_time({worker: [s[worker] for s in arrivals if worker in s] for worker in workers}, nodes)


def expected_gain(
    relative_speed: float, remaining_seconds: float, cost: float, workers: int, *, synchronous: bool
) -> float:
    """Return the seconds by which a job is done sooner if its straggler is replaced; negative: later.

    A synchronous job goes at the pace of the straggler; an asynchronous one lacks only that worker's share.

    Args:
        relative_speed: of the straggler, as part of the others' speed.
        remaining_seconds: until the job is done if nothing is changed.
        cost: seconds that the replacement costs the whole job.
        workers: how many the job has, the straggler included.
        synchronous: whether every step waits for all workers.

    Raises:
        ValueError: a number is out of its range.
    """
    if not 0 <= relative_speed <= 1 or workers < 1 or not (remaining_seconds >= 0 and cost >= 0):
        raise ValueError(
            f"relative_speed {relative_speed} (0 to 1), workers {workers} (at least 1), remaining_seconds "
            f"{remaining_seconds} and cost {cost} (at least 0): one is out of its range"
        )
    present = relative_speed if synchronous else (workers - 1 + relative_speed) / workers
    return remaining_seconds * (1 - present) - cost


def _median(samples: Sequence[float]) -> float | None:
    usable = [x for x in samples if math.isfinite(x) and x >= 0]
    return median(usable) if len(usable) >= FEWEST_SAMPLES else None


def _found(slow: Mapping[str, float], known: Mapping[str, float], nodes: Mapping[str, str]) -> list[Straggler]:
    """Return slow nodes, then the slow workers that are on none of them, by name."""
    groups: dict[str, list[str]] = {}
    for worker in sorted(known):
        if worker in nodes:
            groups.setdefault(nodes[worker], []).append(worker)
    found = []
    for node, workers in sorted(groups.items()):
        bad = tuple(worker for worker in workers if worker in slow)
        if len(bad) > 1 and 2 * len(bad) > len(workers) and len(groups) > 1:
            found.append(Straggler("node", node, bad, median(slow[worker] for worker in bad)))
    covered = {worker for each in found for worker in each.workers}
    return found + [Straggler("worker", w, (w,), slow[w]) for w in sorted(slow) if w not in covered]
