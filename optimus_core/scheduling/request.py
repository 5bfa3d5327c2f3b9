"""What a job asks of :func:`optimus_core.scheduling.allocate.allocate`: plain values, of no use of the rest here."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Size = tuple[int, int]
"""(servers, workers); (0, 0) is nothing: the job waits, or is paused."""
NOTHING: Size = (0, 0)


@dataclass(frozen=True)
class Quota:
    """What a pool is guaranteed and what it may have at most, by resource, in the unit of the capacity."""

    guaranteed: Mapping[str, float] = field(default_factory=dict)
    """Kept for its jobs while they can use it, and lent while they can't; of a resource not named here: nothing."""
    ceiling: Mapping[str, float] = field(default_factory=dict)
    """Of a resource not named here: all."""

    def __post_init__(self) -> None:
        for name in ("guaranteed", "ceiling"):
            for resource, amount in getattr(self, name).items():
                if not amount >= 0:
                    raise ValueError(f"a pool's {name} of {resource} is {amount}; write an amount of at least 0")


@dataclass(frozen=True, eq=False)
class Request:
    """A job with the sizes that it may have, and what each of them would give and take.

    All sequences are as long as ``sizes``. Durations are seconds from now.
    """

    name: str
    sizes: Sequence[Size]
    """(servers, workers) of each size, the least one first: it is the job's minimum; (0, 0) is never among them."""
    demand: Mapping[str, ArrayLike]
    """Resource -> what each size asks for in all, in the unit of the capacity."""
    seconds: ArrayLike
    """Seconds a step at each size; infinite where the job does not advance."""
    deviation: ArrayLike = 0.0
    """Standard deviation of ``seconds``."""
    remaining: float | None = None
    """Steps that are left; None: unknown, the job counts as one of median length and gets its minimum."""
    remaining_deviation: float = 0.0
    """Standard deviation of ``remaining``."""
    weight: float = 1.0
    """How much a second of this job counts beside one of another."""
    deadline: float | None = None
    """Seconds from now until it should be done; a job that would be late at its minimum counts for more."""
    pool: str = "default"
    """Whose guarantee and ceiling it counts for."""
    present: Size = NOTHING
    change_cost: float = 15.0
    """Seconds that a change of its size costs it."""
    may_pause: bool = True
    """Whether it may have nothing for a while; if not, it gets its minimum before others get anything."""
    rank: tuple[float, ...] = ()
    """Order in which minimums are given to those that may not be paused; then by name."""

    def __post_init__(self) -> None:
        count = len(self.sizes)
        if not count or NOTHING in self.sizes:
            raise ValueError(f"request {self.name!r}: sizes must hold at least one size, and none without replicas")
        for name in ("seconds", "deviation"):
            object.__setattr__(self, name, _column(getattr(self, name), count, f"request {self.name!r}: {name}"))
        demand = {r: _column(d, count, f"request {self.name!r}: demand of {r}") for r, d in self.demand.items()}
        object.__setattr__(self, "demand", demand)
        for name in ("remaining", "deadline"):
            if (value := getattr(self, name)) is not None and not math.isfinite(value):
                raise ValueError(f"request {self.name!r}: {name} is {value}; write a number, or None if unknown")
        if not (self.weight > 0 and math.isfinite(self.weight) and self.change_cost >= 0):
            raise ValueError(
                f"request {self.name!r}: weight is {self.weight} and change_cost {self.change_cost}; "
                "weight is above 0, change_cost at least 0"
            )

    @classmethod
    def from_speed(
        cls,
        name: str,
        speed: Callable[[int, int], float],
        *,
        servers: tuple[int, int] = (0, 0),
        workers: tuple[int, int],
        server_demand: Mapping[str, float] | None = None,
        worker_demand: Mapping[str, float],
        relative_deviation: float = 0.0,
        remaining: float | None = None,
        weight: float = 1.0,
        deadline: float | None = None,
        pool: str = "default",
        present: Size = NOTHING,
        change_cost: float = 15.0,
        may_pause: bool = True,
    ) -> Request:
        """Tabulate ``speed``, which gives steps a second for (servers, workers), over bounds of both, each included.

        Args:
            name: of the job.
            speed: steps per second at a size; 0 or less where it does not advance.
            servers: least and largest number of parameter servers.
            workers: least and largest number of workers.
            server_demand: what one server asks for.
            worker_demand: what one worker asks for.
            relative_deviation: standard deviation of the seconds a step, as a part of them.
            remaining: steps that are left; None if unknown.
            weight: what a second of it counts.
            deadline: seconds from now.
            pool: whose guarantee and ceiling it counts for.
            present: the size that it has.
            change_cost: seconds that a change costs it.
            may_pause: whether it may have nothing.
        """
        sizes = [(s, w) for s in spread(*servers) for w in spread(*workers)]
        given = np.array([speed(*size) for size in sizes], dtype=float)
        seconds = np.where(given > 0, 1 / np.maximum(given, 1e-300), np.inf)
        counts = np.array(sizes, dtype=float)
        asked = server_demand or {}
        resources = sorted({*asked, *worker_demand})
        demand: dict[str, ArrayLike] = {
            r: counts @ np.array([asked.get(r, 0.0), worker_demand.get(r, 0.0)]) for r in resources
        }
        return cls(
            name,
            sizes,
            demand,
            seconds,
            np.where(np.isfinite(seconds), seconds, 0.0) * relative_deviation,
            remaining,
            weight=weight,
            deadline=deadline,
            pool=pool,
            present=present,
            change_cost=change_cost,
            may_pause=may_pause,
        )


_DENSE = 64


@functools.cache
def spread(low: int, high: int) -> tuple[int, ...]:
    """Return the numbers from ``low`` to ``high`` that are tried: all of the first 64, then ones 5 % apart."""
    numbers, value = [], low
    while value < high:
        numbers.append(value)
        value += 1 if value < low + _DENSE else max(1, value // 20)
    return (*numbers, high)


def _column(values: ArrayLike, count: int, where: str) -> NDArray[np.float64]:
    column = np.broadcast_to(np.asarray(values, dtype=float), (count,))
    if np.isnan(column).any() or (column < 0).any():
        raise ValueError(f"{where} has a value that is negative or no number; write amounts of at least 0")
    return column
