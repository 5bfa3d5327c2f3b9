"""A clock and a trace around the engine's own ``plan(snapshot)``."""

from optimus_core.simulation.jobs import Kind, TrueJob, mixed, of_kinds, poisson, read_trace, uniform
from optimus_core.simulation.knowledge import Estimating, Knowledge, Oracle
from optimus_core.simulation.replay import Arrival, Outcome, replay
from optimus_core.simulation.result import Ended, Result
from optimus_core.simulation.simulate import Failure, Simulation, World

__all__ = [
    "Arrival",
    "Ended",
    "Estimating",
    "Failure",
    "Kind",
    "Knowledge",
    "Oracle",
    "Outcome",
    "Result",
    "Simulation",
    "TrueJob",
    "World",
    "mixed",
    "of_kinds",
    "poisson",
    "read_trace",
    "replay",
    "uniform",
]
