"""What earlier runs of the same workload taught about its curve, as the store keeps it: plain data in, plain data out.

known = remember(known, steps, losses)        when a run has ended well: WorkloadRow.curve is what comes back
prior = prior_of(known)                       when a run of the workload is fitted: ConvergenceModel(prior=prior)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from optimus_core.models.prior import CurvePrior


def prior_of(known: Mapping[str, Any] | None) -> CurvePrior | None:
    """Return the prior that :func:`remember` kept; None if there is none, or if it is of another form."""
    runs = (known or {}).get("runs")
    if not runs:
        return None
    try:
        return CurvePrior.from_dict({"runs": runs})
    except (KeyError, TypeError, ValueError):
        return None  # written by another version: the next run that ends writes it anew


def remember(known: Mapping[str, Any] | None, steps: npt.ArrayLike, losses: npt.ArrayLike) -> dict[str, Any] | None:
    """Return what to keep after one more run, the newest last; None if nothing was learned so far.

    Args:
        known: what was kept before.
        steps: steps of the run that ended.
        losses: its losses at them; a run that shows no curve teaches nothing.
    """
    prior = prior_of(known) or CurvePrior()
    prior.add(steps, losses)
    return prior.to_dict() if len(prior) else None
