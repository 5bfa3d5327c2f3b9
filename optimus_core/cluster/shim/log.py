"""What a replica prints, with the time of each line, within a bounded room."""

from __future__ import annotations

import os
import time

LONGEST_LINE = 1 << 20
"""Bytes after which a line without an end is written all the same."""
SEGMENTS = 8
"""Files that the bounded room is divided into; the oldest is dropped for a new one."""


class Log:
    """The output: ``<seconds since 1970> <line>`` each, in segments named after their place in the whole stream."""

    def __init__(self, folder: str, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self.position, self.size, self.descriptor = 0, 0, -1
        self.rest, self.after_return = b"", False

    def feed(self, data: bytes) -> None:
        """Keep whole lines; a carriage return ends one as a line feed does (and both together end one only)."""
        if self.after_return and data.startswith(b"\n"):
            data = data[1:]
        self.after_return = data.endswith(b"\r") if data else self.after_return
        text = self.rest + data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self.rest = text.split(b"\n")
        if len(self.rest) > LONGEST_LINE:
            lines, self.rest = [*lines, self.rest], b""
        self._write(lines)

    def close(self) -> None:
        """Write the last line, which may lack its end."""
        if self.rest:
            self._write([self.rest])

    def _write(self, lines: list[bytes]) -> None:
        if not lines:
            return
        stamp = b"%.6f " % time.time()
        block = b"".join(stamp + line + b"\n" for line in lines)
        try:
            self._append(block)
        except OSError:  # such as a full disk: a hole in the stream, which a reader is told of
            self._close_segment()
        self.position += len(block)

    def _append(self, block: bytes) -> None:
        if self.descriptor < 0 or self.size >= self.limit // SEGMENTS:
            self._next_segment()
        try:
            rest = memoryview(block)
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
        except OSError:
            os.ftruncate(self.descriptor, self.size)
            raise
        self.size += len(block)

    def _next_segment(self) -> None:
        self._close_segment()
        name = os.path.join(self.folder, f"output-{self.position:020d}.log")
        self.descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        segments = sorted(name for name in os.listdir(self.folder) if name.startswith("output-"))
        while len(segments) > SEGMENTS:
            os.unlink(os.path.join(self.folder, segments.pop(0)))

    def _close_segment(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor, self.size = -1, 0
