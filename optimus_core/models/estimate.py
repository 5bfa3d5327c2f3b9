"""What a model says of one number, and how sure it is."""

from __future__ import annotations

from typing import NamedTuple


class Estimate(NamedTuple):
    """A number with an 80 % interval.

    All three are None if the number can't be known yet. ``inf`` means that it never happens: a loss that the curve
    stays above is reached at step ``inf``. ``low <= value <= high`` wherever they are known.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is a number at all."""
        return self.value is not None


UNKNOWN = Estimate()
"""It can't be known yet."""
