"""Bytes of an output -> the texts that were shown, one after the other.

A progress bar ends its frames with carriage returns, so those end a text as line feeds do. A glyph may be
cut by the end of a chunk: bytes are decoded incrementally, and what is no UTF-8 becomes U+FFFD.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

MAX_LENGTH = 16_384
"""Characters of one text that are kept. No progress line is that long, and an output without any line end
must not fill the memory."""

_ENDS = re.compile(r"[\r\n]")
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours and cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles and links
    r"|\x1b[@-Z\\^_]"  # two-character escapes
    r"|[\x00\x08\x1b]"  # backspaces, and what is left of a broken escape
)


def clean(text: str) -> str:
    """The text without colours, cursor movements and backspaces."""
    if "\x1b" in text or "\x08" in text or "\x00" in text:
        return _CONTROL.sub("", text)
    return text


def frames(text: str) -> Iterator[str]:
    """The texts that carriage returns or line feeds separate within an already decoded line."""
    return (clean(frame[:MAX_LENGTH]) for frame in _ENDS.split(text))


def storable(text: str) -> str:
    """The text with U+FFFD for what no database keeps: lone surrogates, which JSON can spell, and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd") if not text.isprintable() else text


class LineSplitter:
    """Incremental: the same bytes give the same texts, however they are cut into chunks."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes) -> Iterator[tuple[str, bool]]:
        """Each text that is now complete, and whether a line feed ended it."""
        return self._split(self._decoder.decode(data))

    def finish(self) -> Iterator[tuple[str, bool]]:
        """What is left at the end of the output."""
        yield from self._split(self._decoder.decode(b"", final=True))
        rest, self._rest = self._rest, ""
        if rest:
            yield clean(rest), False

    def _split(self, text: str) -> Iterator[tuple[str, bool]]:
        lines = (self._rest + text).split("\n")
        *closed, rest = lines.pop().split("\r")
        self._rest = rest[:MAX_LENGTH]
        for line in lines:
            if "\r" in line:
                *overwritten, line = line.split("\r")
                for frame in overwritten:
                    yield clean(frame[:MAX_LENGTH]), False
            yield clean(line[:MAX_LENGTH]), True
        for frame in closed:
            yield clean(frame[:MAX_LENGTH]), False
