"""Checks of the arrays that the models are given; what can't be used is refused by name."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus_core.errors import SpecificationError

Floats: TypeAlias = NDArray[np.float64]


def column(values: ArrayLike, name: str, least: float = 0.0) -> Floats:
    """Return ``values`` as a one-dimensional array of finite floats, none under ``least``.

    Raises:
        SpecificationError: it is of another shape, no number, not finite, or too small.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SpecificationError(f"{name} hold something that is no number ({error}). Give numbers only.") from error
    if array.ndim != 1:
        raise SpecificationError(f"{name} have shape {array.shape}. Give one flat list, one number per point.")
    bad = ~np.isfinite(array) | (array < least)
    if bad.any():
        first = int(np.argmax(bad))
        raise SpecificationError(
            f"{name}[{first}] is {array[first]}. Leave out all that is not finite or under {least:g}."
        )
    return array


def weights_of(weights: ArrayLike | None, size: int) -> Floats:
    """Return the weights of ``size`` points, 1 each if none are given.

    Raises:
        SpecificationError: there are more or fewer weights than points, or one is negative or not finite.
    """
    if weights is None:
        return np.ones(size)
    array = column(weights, "weights")
    same_length(weights=array.size, points=size)
    return array


def same_length(**sizes: int) -> None:
    """Refuse columns that do not belong together.

    Raises:
        SpecificationError: the sizes differ.
    """
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} {name}" for name, size in sizes.items())
        raise SpecificationError(f"There are {told}. Give as many of one as of the other.")


def positive(value: float, name: str) -> float:
    """Return ``value`` if it is finite and above 0.

    Raises:
        SpecificationError: it is not.
    """
    if not (np.isfinite(value) and value > 0):
        raise SpecificationError(f"{name} is {value}; it must be a finite number above 0.")
    return float(value)
