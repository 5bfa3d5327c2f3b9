"""The errors that Optimus raises on purpose."""

from __future__ import annotations


class OptimusError(Exception):
    """Any error that Optimus raises on purpose."""


class SpecificationError(OptimusError, ValueError):
    """What was asked for cannot be; the text says what was given, why not, and what to write instead."""
