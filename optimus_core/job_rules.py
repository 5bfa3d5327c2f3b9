"""What the plain parts of a job may be: its command, environment, expression for metrics and deadline."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from optimus_core import checks
from optimus_core.errors import SpecificationError

RESERVED_PREFIXES = ("OPTIMUS_", "DMLC_", "PET_", "AIRFLOW__")
"""Environment variables that begin so are set by Optimus or belong to Airflow."""
RESERVED_NAMES = ("TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "NNODES")
"""Environment variables by which the replicas of a framework find each other."""


def command(command: object) -> None:
    """Refuse what is no program with its arguments."""
    if isinstance(command, str):
        try:
            words = shlex.split(command) or ["python", "train.py"]
        except ValueError:
            words = ["python", "train.py"]
        raise SpecificationError(
            f"command is the text {checks.shown(command)}; it is a list of words, since no shell reads it. "
            f"Write {json.dumps(words, ensure_ascii=False)}."
        )
    if not isinstance(command, Sequence) or not command or not command[0]:
        raise SpecificationError(
            f"command is {checks.shown(command)}; it is a program and its arguments. "
            'Write such as ["python", "train.py"].'
        )
    for index, word in enumerate(command):
        if not isinstance(word, str):
            write = json.dumps(checks.shown(word), ensure_ascii=False)
            raise SpecificationError(f"command[{index}] is {checks.shown(word)}; each word is a text. Write {write}.")
        if (write := checks.passable(word)) != word:
            raise SpecificationError(
                f"command[{index}] is {checks.shown(word)}, with a NUL or half a character in it, which no program can "
                f"be given. Write {checks.shown(write)}."
            )


def environment(env: object) -> None:
    """Refuse names that are taken and values that are no texts."""
    given = checks.mapping(env, "env", '{"LEVEL": "3"}')
    for name in given:
        if name in RESERVED_NAMES or name.startswith(RESERVED_PREFIXES):
            raise SpecificationError(
                f'env sets "{name}", which Optimus sets itself or which belongs to Airflow. Use another name; reserved '
                f"are {', '.join(f'{prefix}*' for prefix in RESERVED_PREFIXES)}, {', '.join(RESERVED_NAMES)}."
            )
        if not name or "=" in name or not name.isprintable():
            raise SpecificationError(f'env sets {checks.shown(name)}, which is no name. Write such as "LEVEL".')
    checks.texts(given, "env", secret=True)


def metrics(metrics: object) -> None:
    """Refuse what is no regular expression with the groups that are needed."""
    if metrics is None:
        return
    example = r"Write such as r'loss=(?P<loss>\S+)' or r'(?P<name>\w+)=(?P<value>\S+)'."
    if not isinstance(metrics, str):
        raise SpecificationError(f"metrics is {checks.shown(metrics)}; it is a regular expression. {example}")
    try:
        groups = set(re.compile(metrics).groupindex)
        endless = repeats_within_repeats(metrics)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise SpecificationError(
            f"metrics is {metrics!r}, which is no regular expression of Python: {error}. {example}"
        ) from error
    if "loss" not in groups and not {"name", "value"} <= groups:
        raise SpecificationError(
            f'metrics is {metrics!r}, which has neither a group "loss" nor the groups "name" and "value". {example}'
        )
    if endless:
        raise SpecificationError(f"metrics is {metrics!r}, {ENDLESS} {example}")


ENDLESS = (
    "which repeats what can itself match in several ways, such as (a+)+ or (a|ab)*: a line that it doesn't match could "
    "take it for ever. Repeat one set of characters, such as [a-z ]+ for ([a-z]+ )+."
)
"""Why an expression is refused of which :func:`repeats_within_repeats` is true."""
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")
_SETTLED = ("POSSESSIVE_REPEAT", "ATOMIC_GROUP")


def repeats_within_repeats(pattern: str) -> bool:
    """Say whether something is repeated that can itself match in several ways, for which time grows exponentially."""
    return any(
        str(kind) in _REPEATS and value[1] > 1 and any(_varies(*part) for part in _parts(value[2]))
        for kind, value in _parts(_parser.parse(pattern))
    )


def _varies(kind: object, value: Any) -> bool:
    return str(kind) == "BRANCH" or (str(kind) in _REPEATS and value[0] != value[1])


def _parts(tree: Any) -> Iterator[tuple[object, Any]]:
    """Yield all parts of a parsed expression, but not what is inside those that never try a second way."""
    if isinstance(tree, _parser.SubPattern):
        for kind, value in tree:
            yield kind, value
            if str(kind) not in _SETTLED:
                yield from _parts(value)
    elif isinstance(tree, tuple | list):
        for each in tree:
            yield from _parts(each)


def deadline(deadline: object) -> None:
    """Refuse what is no time with its zone."""
    if deadline is None:
        return
    if not isinstance(deadline, datetime):
        raise SpecificationError(
            f"deadline is {checks.shown(deadline)}; it is a time with its zone. "
            "Write such as datetime(2026, 8, 1, 12, tzinfo=UTC), in a file 2026-08-01T12:00:00+00:00."
        )
    if deadline.utcoffset() is None:
        raise SpecificationError(
            f"deadline is {deadline.isoformat()}, without a time zone. Write {deadline.isoformat()}+00:00 for UTC."
        )
    if not 1970 < deadline.year < 9000:
        raise SpecificationError(
            f"deadline is {deadline.isoformat()}; a deadline lies between the years 1971 and 8999. "
            "Write such as 2026-08-01T12:00:00+00:00, or leave it out if there is none."
        )
