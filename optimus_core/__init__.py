"""The scheduler core of Optimus: no Airflow import anywhere in it.

Importing this package costs nothing but the standard library; models and the store load when used.
"""

from optimus_core.job import (
    AllReduce,
    Converged,
    Epochs,
    Loss,
    ParameterServer,
    Replicas,
    Steps,
    TrainingJob,
)
from optimus_core.settings import Settings

__all__ = [
    "AllReduce",
    "Converged",
    "Epochs",
    "Loss",
    "ParameterServer",
    "Replicas",
    "Settings",
    "Steps",
    "TrainingJob",
]

__version__ = "0.1.0"
