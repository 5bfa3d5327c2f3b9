"""What can go wrong."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """The cluster does not do what was asked; the text says what to look at."""


class MissingError(ClusterError):
    """This machine can't run the cluster; the text says what it lacks and what to do instead."""
