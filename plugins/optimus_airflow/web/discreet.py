"""Sentences tell why a job has what it has; those that name a job of somebody else's DAG must not name it here."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Set
from typing import Any

from pydantic import BaseModel

from optimus_core.engine.engine import Engine
from optimus_core.store.views import names_outside

SOMEBODY = "another job"
_TELL = ("why", "reason", "ended_by", "text", "error")
_CAUSE = "cause"
"""What a sentence was made of: each text anywhere below is looked at."""
_WORD = re.compile(r"[\w.\[\]-]+")
_LONGEST_NAME = 63


def discreet(engine: Engine, dags: Collection[str], answer: Any) -> Any:
    """Return ``answer`` (models, dictionaries, lists), in which sentences name no job outside of ``dags`` any more."""
    told = list(_sentences(answer))
    words = {part for *_, text in told for word in _WORD.findall(text) if _may_be_a_job(word) for part in _parts(word)}
    if not words:
        return answer
    with engine.store.transaction() as tx:
        hidden = names_outside(tx, dags, words)
    for holder, key, text in told if hidden else ():
        put = dict.__setitem__ if isinstance(holder, dict) else setattr
        put(holder, key, _WORD.sub(lambda word: _replaced(word[0], hidden), text))
    return answer


def _sentences(data: Any, below_cause: bool = False) -> Iterator[tuple[Any, str, str]]:
    """Yield (holder, key, text) of each sentence; long lists of numbers are passed over."""
    if isinstance(data, list):
        for each in data if data and isinstance(data[0], dict | list | BaseModel) else ():
            yield from _sentences(each, below_cause)
    elif isinstance(data, dict | BaseModel):
        for key, value in list(data.items() if isinstance(data, dict) else data):
            if not isinstance(value, str):
                yield from _sentences(value, below_cause or key == _CAUSE)
            elif below_cause or key in _TELL:
                yield data, key, value


def _may_be_a_job(word: str) -> bool:
    """Titles of jobs are ``dag.task``, their names and those of their replicas have hyphens; 1.5 is none."""
    return ("." in word or "-" in word) and any(map(str.isalpha, word))


def _parts(word: str) -> Iterator[str]:
    """Yield what in a word may be a job: all of it, or what stands before a hyphen, as in a replica's name."""
    word = word.strip(".-")
    yield word
    yield from (word[: hyphen.start()] for hyphen in re.finditer("-", word[: _LONGEST_NAME + 1]))


def _replaced(word: str, hidden: Set[str]) -> str:
    if not hidden.isdisjoint(_parts(word)):
        return SOMEBODY + ("." if word.endswith(".") else "")
    return word
