"""A replica's output -> loss points, speed samples and events. Standard library only.

Nothing here raises on any output: what can't be read is skipped and counted, and what is no finite number
is an event.
"""

from optimus_core.telemetry.parser import Parser, parse_file
from optimus_core.telemetry.records import Event, EventKind, ParseResult, Point, Record
from optimus_core.telemetry.series import BoundedSeries, compact
from optimus_core.telemetry.speed import SpeedMeter, SpeedSample
from optimus_core.telemetry.steps import StepCounter
from optimus_core.telemetry.text import LineSplitter

__all__ = [
    "BoundedSeries",
    "Event",
    "EventKind",
    "LineSplitter",
    "ParseResult",
    "Parser",
    "Point",
    "Record",
    "SpeedMeter",
    "SpeedSample",
    "StepCounter",
    "compact",
    "parse_file",
]
