"""Several calls at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_A = TypeVar("_A")
_B = TypeVar("_B")


def at_once(first: Callable[[], _A], second: Callable[[], _B]) -> tuple[_A, _B]:
    """Return what two calls that wait for others give, in the time of the slower one.

    Raises:
        BaseException: what the first raises, else what the second does; by then both have ended.
    """
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(second)
        one = first()
    return one, other.result()
