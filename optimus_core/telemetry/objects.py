"""Texts that are one JSON object or one printed Python dictionary -> metrics and coordinates."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from optimus_core.telemetry.grammar import FLOAT, STRUCTURAL, Reading
from optimus_core.telemetry.text import storable

_NUMBER = re.compile(rf"\s*(?:{FLOAT}|[+-]?(?:nan|inf(?:inity)?))\s*", re.ASCII | re.IGNORECASE).fullmatch
_WORD = r"'((?:[^'\\]++)?+)'"
_FLAT = re.compile(rf"\{{(?:{_WORD}: (?:{_WORD}|{FLOAT})(?:, |(?=\}})))++\}}", re.ASCII).fullmatch
_PAIRS = re.compile(rf"{_WORD}: (?:{_WORD}|({FLOAT}))", re.ASCII).findall
"""The dictionary that a trainer prints; reading it as a Python expression takes ten times as long."""

_STEPS = {"global_step": 5, "step": 4, "iteration": 3, "iter": 3, "batch": 2}
_DEPTH = 4


def load(text: str) -> dict[str, Any] | None:
    """The object, or None if the text is not one."""
    if _FLAT(text):
        return {name: word or plain for name, word, plain in _PAIRS(text)}
    try:
        value = json.loads(text) if text[1:].lstrip()[:1] == '"' else ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None


def number(value: object) -> float | None:
    """The number that the value is, or that a string of it spells."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and _NUMBER(value) is None:
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def whole(value: object) -> int | None:
    """The count that the value is."""
    found = number(value)
    return int(found) if found is not None and found.is_integer() and 0 <= found < 2**53 else None


def epoch(value: object) -> float | None:
    """The epochs that the value is."""
    found = number(value)
    return found if found is not None and 0 <= found < 1e18 else None


def read_object(fields: dict[str, Any]) -> Reading:
    """Reads the numbers of an object; nested names are joined with slashes."""
    reading = Reading()
    reading.epoch = epoch(fields.get("epoch"))
    for word, rank in _STEPS.items():
        step = whole(fields.get(word))
        if step is not None:
            reading.take_step(rank, step, None, per_epoch=word == "batch")
    reading.values = [(name, value) for name, value in flatten(fields) if name.lower() not in STRUCTURAL]
    return reading


def flatten(fields: dict[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Each number with its full name."""
    for key, value in fields.items():
        name = storable(f"{prefix}{key}")
        if isinstance(value, dict):
            if depth < _DEPTH:
                yield from flatten(value, f"{name}/", depth + 1)
        elif (found := number(value)) is not None and len(name) <= 128:
            yield name, found
