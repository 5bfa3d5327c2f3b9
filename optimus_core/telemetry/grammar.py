"""The default grammar: one text -> its metrics and its coordinates.

One regular expression finds both `name=value` (also `name: value`, and the pairs of Python and JSON
dictionaries) and the words that say where in the run a line is (`Epoch[0]`, `Batch [0-20]`, `step 120`).
Digits are ASCII. When a text is ambiguous nothing is read: 1,234 may be one number or two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FLOAT = r"[+-]?(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+"
_NOT_FINITE = r"[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?+)"
_NAME = r"([A-Za-z_](?<![\w/.@$?&`-][A-Za-z_])(?:(?<=T)ime (?=cost))?+[\w./@%-]*+)"
"""Not within a word, a path, an option (--lr=0.1) or a query. The first letter comes before the test of what
is left of it, since an expression that begins with a set of characters is searched for much faster.
`Time cost` is a duration: its name must not be cost, as a loss may be."""

_WORDS = ("[Ee]poch", "EPOCH", "[Ss]tep", "STEP", "global_step", "[Ii]ter", "[Ii]teration", "[Bb]atch")
_IS_WORD = "|".join(rf"(?<={word})(?<![\w./@%-]{word})" for word in _WORDS)
_COORDINATE = (
    rf"(?:{_IS_WORD})[\"']?[ \t]*+[=:]?[ \t]*+[\"']?[\[(]?[ \t]*+"
    r"(\d{1,18}+(?:\.\d*+)?)(?:[ \t]*+/[ \t]*+(\d{1,18}+)|-(\d{1,18}+))?+"
    r"(?![\w%]|[.:,]\d)[\"')\]]*+(?:\[[ \t]*+(\d{1,18}+)/(\d{1,18}+)\])?"
)
_METRIC = (
    r"([\"']?[ \t]*+[=:][ \t]*+[\"']?)"
    r"(?:(?:tensor|array|(?:np|numpy)\.float\d++)\()?"
    rf"({FLOAT}|{_NOT_FINITE})(?![\w]|[.:/,-]\d)(%?)"
)
_FIND = re.compile(rf"{_NAME}(?:{_METRIC}|{_COORDINATE})", re.ASCII).findall
_TQDM = re.compile(r"\|[ ]*(\d{1,18})/(\d{1,18}) \[", re.ASCII).search
_KERAS = re.compile(r"\s*(\d{1,18})/(\d{1,18})\s.*?(?:s/step|s/epoch|\u2501|\[[=>])", re.ASCII).match
_HEADER = re.compile(r"\W*epoch\W*\d+(?:\s*/\s*\d+)?\W*$", re.ASCII | re.IGNORECASE).match

_RANKS = {"global_step": 5, "step": 4, "iteration": 3, "iter": 3, "batch": 2}
"""Words that count steps. If a line has several, the highest wins."""

STRUCTURAL = frozenset(_RANKS) | {"epoch", "timestamp"}
"""Names that are never metrics of their own."""

_LOSS = re.compile(r"loss|cost|entropy|nll|perplexity|ppl|mse|rmse|mae|error|objective", re.IGNORECASE).search


def is_loss(name: str) -> bool:
    """Whether a NaN under this name means that the training has diverged."""
    return _LOSS(name) is not None


@dataclass(slots=True)
class Reading:
    """What one text told; `values` may hold what is not finite."""

    values: list[tuple[str, float]] = field(default_factory=list)
    step: int | None = None
    epoch: float | None = None
    per_epoch: bool = False
    steps_per_epoch: int | None = None
    bar: bool = False
    header: bool = False
    rank: int = 0

    def __bool__(self) -> bool:
        return bool(self.values) or self.bar or self.step is not None or self.epoch is not None

    def take_step(self, rank: int, step: int, total: int | None, per_epoch: bool) -> None:
        """Keeps the step of the highest rank."""
        if rank > self.rank:
            self.rank, self.step, self.per_epoch = rank, step, per_epoch
            self.steps_per_epoch = total if per_epoch else None


def read(text: str) -> Reading:
    """Reads a text of any content; never raises."""
    reading = Reading()
    for name, sep, value, percent, *place in _FIND(text):
        word = name.lower()
        if not value:
            _take_place(reading, word, *place)
        elif word in STRUCTURAL:
            if not percent:
                _take_coordinate(reading, word, float(value))
        elif not _is_setting(name) and not (sep == ":" and _is_place(name, value)):
            reading.values.append((name, float(value)))
    if "/" in text:
        _take_bar(reading, text)
    if reading.epoch is not None and not reading.values:
        reading.header = _HEADER(text) is not None
    return reading


def _take_coordinate(reading: Reading, word: str, number: float) -> None:
    """Takes `step=120`, and what a logger made of it: `step: 1.2e+02`."""
    if not 0 <= number < 1e18:
        return
    if word == "epoch":
        reading.epoch = number
    elif word in _RANKS and number.is_integer():
        reading.take_step(_RANKS[word], int(number), None, per_epoch=word == "batch")


def _take_place(reading: Reading, word: str, first: str, total: str, last: str, step: str, steps: str) -> None:
    """Takes `Epoch[1]`, `Batch [0-20]`, `step 100/600` and `Epoch: [0][10/500]`."""
    if word != "epoch":
        within = word == "batch" or bool(total)
        reading.take_step(_RANKS[word], int(float(last or first)), int(total) if total else None, within)
        return
    reading.epoch = float(first)
    if steps:
        reading.take_step(_RANKS["step"], int(step), int(steps), per_epoch=True)


def _is_setting(name: str) -> bool:
    """TF_ENABLE_ONEDNN_OPTS=0 is an environment variable; VAL_LOSS=0.3 is not."""
    return len(name) > 128 or ("_" in name and name.isupper() and not is_loss(name))


def _is_place(name: str, value: str) -> bool:
    """port.cc:153, localhost:8080 and worker:0 are places, since nothing parts name and number."""
    return value.isdigit() and not is_loss(name)


def _take_bar(reading: Reading, text: str) -> None:
    found = (_TQDM(text) if "|" in text else None) or _KERAS(text)
    if found is None:
        return
    reading.bar = True
    done, total = int(found[1]), int(found[2])
    reading.take_step(1, done, total, per_epoch=True)
