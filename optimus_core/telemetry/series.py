"""A curve of any length in a bounded number of points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from optimus_core.telemetry.records import Point

_MOST = 1e290
"""A value beyond this, either way, counts as this in a mean: a sum of any number of them is finite."""


@dataclass(slots=True)
class _Bucket:
    """Neighbours in the curve, as sums; what not all of them have is left out."""

    count: int
    line: int
    value: float
    step: int | None
    epoch: float | None
    time: float | None
    like: Point

    @classmethod
    def of(cls, point: Point) -> _Bucket:
        value = max(-_MOST, min(_MOST, point.value))
        return cls(1, point.line, value, point.step, point.epoch, point.time, point)

    def merge(self, other: _Bucket) -> None:
        self.count += other.count
        self.line = other.line
        self.value += other.value
        self.step = None if self.step is None or other.step is None else self.step + other.step
        self.epoch = None if self.epoch is None or other.epoch is None else self.epoch + other.epoch
        self.time = None if self.time is None or other.time is None else self.time + other.time

    def point(self) -> Point:
        if self.count == 1:
            return self.like
        n = self.count
        return replace(
            self.like,
            line=self.line,
            value=self.value / n,
            step=None if self.step is None else (2 * self.step + n) // (2 * n),
            epoch=None if self.epoch is None else self.epoch / n,
            time=None if self.time is None else self.time / n,
        )


class BoundedSeries:
    """Keeps at most `limit` points of one metric: the first and the last as they are, means in between.

    Points between them are averaged in buckets of `stride`. When there would be too many, neighbours are
    merged and the stride doubles, so all buckets but the last weigh the same. Adding points one by one,
    in chunks or at once gives the same.
    """

    def __init__(self, limit: int = 2000) -> None:
        if limit < 4:
            raise ValueError(f"limit of a BoundedSeries is {limit}; it must be 4 or more, for example 2000.")
        self.limit = limit
        self.stride = 1
        self.count = 0
        self._first: Point | None = None
        self._last: Point | None = None
        self._buckets: list[_Bucket] = []

    def add(self, point: Point) -> None:
        """Appends the next point of the curve."""
        self.count += 1
        if self._first is None:
            self._first = point
            return
        if self._last is not None:
            self._settle(self._last)
        self._last = point

    def extend(self, points: Iterable[Point]) -> None:
        """Appends the next points of the curve."""
        for point in points:
            self.add(point)

    def points(self) -> list[Point]:
        """The curve."""
        middle = [bucket.point() for bucket in self._buckets]
        return [p for p in (self._first, *middle, self._last) if p is not None]

    def __len__(self) -> int:
        return len(self._buckets) + (self._first is not None) + (self._last is not None)

    def state(self) -> dict[str, Any]:
        """All that is needed to go on later, as JSON: the points alone do not tell what each weighs."""
        return {
            "limit": self.limit,
            "stride": self.stride,
            "count": self.count,
            "first": None if self._first is None else asdict(self._first),
            "last": None if self._last is None else asdict(self._last),
            "buckets": [asdict(bucket) for bucket in self._buckets],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> BoundedSeries:
        """The series whose state was kept."""
        series = cls(state["limit"])
        series.stride, series.count = state["stride"], state["count"]
        series._first = None if state["first"] is None else Point(**state["first"])
        series._last = None if state["last"] is None else Point(**state["last"])
        series._buckets = [_Bucket(**{**kept, "like": Point(**kept["like"])}) for kept in state["buckets"]]
        return series

    def _settle(self, point: Point) -> None:
        buckets = self._buckets
        if buckets and buckets[-1].count < self.stride:
            buckets[-1].merge(_Bucket.of(point))
            return
        if len(buckets) == self.limit - 2:
            self._double()
            self._settle(point)
        else:
            buckets.append(_Bucket.of(point))

    def _double(self) -> None:
        self.stride *= 2
        for left, right in zip(self._buckets[::2], self._buckets[1::2], strict=False):
            left.merge(right)
        del self._buckets[1::2]


def compact(points: Iterable[Point], limit: int = 2000) -> list[Point]:
    """The curve in at most `limit` points; as it is if it has no more."""
    series = BoundedSeries(limit)
    series.extend(points)
    return series.points()
