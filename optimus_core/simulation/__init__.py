"""A clock and a trace around the engine's own ``plan(snapshot)``."""

from optimus_core.simulation.replay import Arrival, Outcome, replay

__all__ = ["Arrival", "Outcome", "replay"]
