"""What is left of a job now: as was planned, less the steps that it has made since."""

from __future__ import annotations

from optimus_core.store import JobRow


def steps_left(row: JobRow) -> float | None:
    """Return the steps that a job still has to make; None if nobody knows."""
    known = row.estimate or {}
    value, at = (known.get("remaining") or {}).get("value"), known.get("step")
    if value is None or at is None:
        return value
    return max(0.0, float(value - ((row.step or 0) - at)))


def seconds_left(row: JobRow) -> float | None:
    """Return how long a job still takes at the speed of the last plan; None if nothing is predicted.

    It falls as steps are made, not as time goes by: a job that is stopped, or stuck, has as much left as before.
    """
    known, left = row.estimate or {}, steps_left(row)
    predicted, steps = known.get("predicted_seconds"), known.get("predicted_steps")
    if predicted is None or left is None or not steps:
        return predicted
    return float(predicted * left / steps)
