"""The models that are fitted online: how the loss falls, how fast a job trains at a size."""

from optimus_core.models.convergence import ConvergenceModel
from optimus_core.models.estimate import UNKNOWN, Estimate
from optimus_core.models.prior import CurvePrior
from optimus_core.models.rest import converged_at
from optimus_core.models.sampling import next_sizes
from optimus_core.models.sizes import SpeedKind
from optimus_core.models.speed import SpeedModel

__all__ = [
    "UNKNOWN",
    "ConvergenceModel",
    "CurvePrior",
    "Estimate",
    "SpeedKind",
    "SpeedModel",
    "converged_at",
    "next_sizes",
]
