"""The errors that Optimus raises on purpose."""

from __future__ import annotations


class OptimusError(Exception):
    """Any error that Optimus raises on purpose."""


class SpecificationError(OptimusError, ValueError):
    """What was asked for cannot be; the text says what was given, why not, and what to write instead."""


class ClusterUnavailable(OptimusError):
    """The cluster could not be asked: nothing is known, so nothing may be concluded from it."""


class ClusterRefusesNow(OptimusError):
    """The cluster has no place for it at present; the same request may be accepted later. Carries its own words."""


class PermissionMissing(ClusterUnavailable):
    """The cluster forbids us a call: the text names the permission that is missing."""


class NameTaken(OptimusError):
    """A replica's name is in use by something that Optimus did not make for this job."""


class StoreError(OptimusError):
    """The store can't be used as it is: the text says what to do."""


class UnknownJob(OptimusError, LookupError):
    """No job has this name or identity."""
