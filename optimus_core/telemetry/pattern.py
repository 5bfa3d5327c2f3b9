"""A user's own regular expression, which replaces the default grammar entirely."""

from __future__ import annotations

import re

from optimus_core.errors import SpecificationError
from optimus_core.job_rules import ENDLESS, repeats_within_repeats
from optimus_core.telemetry.grammar import Reading
from optimus_core.telemetry.objects import epoch, number, whole

MAX_LENGTH = 512
"""Characters of a text that a user's expression sees: time grows with a power of them."""

_EXAMPLE = r"Write for example r'loss=(?P<loss>\S+) step=(?P<step>\d+)' or r'(?P<name>\w+)=(?P<value>\S+)'."


def compile_pattern(pattern: object) -> re.Pattern[str]:
    """The expression, or a SpecificationError that says what to write instead."""
    if not isinstance(pattern, str):
        kind = type(pattern).__name__
        raise SpecificationError(f"Progress pattern {pattern!r} is no text but {kind}. {_EXAMPLE}")
    try:
        compiled = re.compile(pattern, re.ASCII)
        endless = repeats_within_repeats(pattern)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise SpecificationError(
            f"Progress pattern {pattern!r} is no regular expression of Python: {error}. {_EXAMPLE}"
        ) from error
    groups = set(compiled.groupindex)
    if "loss" not in groups and not {"name", "value"} <= groups:
        raise SpecificationError(
            f"Progress pattern {pattern!r} has {_named(groups)}, so it is unknown which part is the number; "
            f"it needs a group named loss, or the two groups name and value. {_EXAMPLE}"
        )
    if endless:
        raise SpecificationError(f"Progress pattern {pattern!r} is one {ENDLESS} {_EXAMPLE}")
    return compiled


def read_pattern(pattern: re.Pattern[str], text: str) -> Reading:
    """All matches within a text; the last step and epoch are those of all of them."""
    reading = Reading()
    for match in pattern.finditer(text[:MAX_LENGTH]):
        groups = match.groupdict()
        name = groups.get("name") or ("loss" if groups.get("loss") is not None else None)
        value = number(groups.get("loss") if groups.get("loss") is not None else groups.get("value"))
        if name and value is not None:
            reading.values.append((name, value))
        step, epochs = whole(groups.get("step")), epoch(groups.get("epoch"))
        reading.step = step if step is not None else reading.step
        reading.epoch = epochs if epochs is not None else reading.epoch
    return reading


def _named(groups: set[str]) -> str:
    return f"the groups {', '.join(sorted(groups))}" if groups else "no named group"
