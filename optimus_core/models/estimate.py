"""What a model says of one number, and how sure it is."""

from __future__ import annotations

from typing import NamedTuple


class Estimate(NamedTuple):
    """A number with the interval that it is believed to lie in.

    All three are None if the number can't be known yet. ``inf`` means that it never happens: a loss that the curve
    stays above is reached at step ``inf``. ``low <= value <= high`` wherever they are known.
    """

    value: float | None
    low: float | None
    high: float | None

    @property
    def is_known(self) -> bool:
        """Whether there is a number at all."""
        return self.value is not None


UNKNOWN = Estimate(None, None, None)
"""Nothing can be said yet."""
