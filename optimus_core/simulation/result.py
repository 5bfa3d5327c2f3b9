"""What a simulation came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

_DIGITS = 6


@dataclass(frozen=True)
class Ended:
    """A job that is done; times in seconds."""

    name: str
    arrived: float
    ended: float
    restarts: int
    queued: float
    """How long it had no replica, since it waited or was paused."""
    alone: float
    """How long it takes at its fastest size."""

    @property
    def took(self) -> float:
        """From its arrival to its end."""
        return self.ended - self.arrived


@dataclass(frozen=True)
class Result:
    """Figures of one policy; times in seconds.

    Attributes:
        average: completion time, from arrival to end.
        p50: its median.
        p99: its 99th percentile.
        makespan: from the first arrival to the last end.
        restarts: changes of size or place after the first start, of all jobs.
        utilisation: part of the cluster held over the makespan, by each job's dominant resource.
        fairness: Jain's index of the slowdowns (completion time over that at the fastest size alone): 1 is equal.
        queued: average time without any replica.
        jobs: the jobs by name.
    """

    average: float
    p50: float
    p99: float
    makespan: float
    restarts: int
    utilisation: float
    fairness: float
    queued: float
    jobs: tuple[Ended, ...]

    @classmethod
    def of(cls, ended: Sequence[Ended], used: float) -> Result:
        """Return the figures of the jobs that ended, which held ``used`` clusters times seconds."""
        took = np.array([each.took for each in ended])
        slowdowns = took / np.array([each.alone for each in ended])
        makespan = max(each.ended for each in ended) - min(each.arrived for each in ended)
        return cls(
            average=float(took.mean()),
            p50=float(np.percentile(took, 50)),
            p99=float(np.percentile(took, 99)),
            makespan=makespan,
            restarts=sum(each.restarts for each in ended),
            utilisation=used / makespan,
            fairness=float(slowdowns.sum() ** 2 / (len(ended) * (slowdowns**2).sum())),
            queued=float(np.mean([each.queued for each in ended])),
            jobs=tuple(sorted(ended, key=lambda each: each.name)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON, without the single jobs."""
        figures = asdict(self)
        del figures["jobs"]
        return {name: round(value, _DIGITS) for name, value in figures.items()}
