"""The models that are fitted online: how the loss falls, how fast a job trains at a size."""

from optimus_core.models.convergence import ConvergenceModel, Estimate, converged_at
from optimus_core.models.speed import SpeedKind, SpeedModel

__all__ = ["ConvergenceModel", "Estimate", "SpeedKind", "SpeedModel", "converged_at"]
