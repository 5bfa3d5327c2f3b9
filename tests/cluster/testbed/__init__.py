"""A real Kubernetes cluster on one Linux machine, for tests: ``python -m tests.cluster.testbed up``."""

from tests.cluster.testbed.bed import Testbed
from tests.cluster.testbed.errors import ClusterError, MissingError
from tests.cluster.testbed.images import PYTHON_IMAGE

__all__ = ["PYTHON_IMAGE", "ClusterError", "MissingError", "Testbed"]
