"""Reads what a local replica printed, from a cursor on: its place in the whole stream."""

from __future__ import annotations

from pathlib import Path

from optimus_core.cluster.base import OutputLine


def read_lines(folder: Path, cursor: str | None, limit: int) -> tuple[tuple[OutputLine, ...], int, bool, bool]:
    """Return lines, where to read on, whether lines were missed, and whether the end of what there is was reached."""
    position = _place(cursor)
    for _ in range(8):  # a segment may be dropped between being listed and being opened
        try:
            return _read(_segments(folder), position, limit)
        except FileNotFoundError:
            continue
    return (), position, False, False


def _place(cursor: str | None) -> int:
    try:
        return max(0, int(cursor or 0))
    except ValueError:
        return 0


def _segments(folder: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.stem.partition("-")[2]), path) for path in folder.glob("output-*.log"))


def _read(
    segments: list[tuple[int, Path]], position: int, limit: int
) -> tuple[tuple[OutputLine, ...], int, bool, bool]:
    lines: list[OutputLine] = []
    missed, room = False, limit
    for number, (begin, path) in enumerate(segments):
        last = number == len(segments) - 1
        if not last and segments[number + 1][0] <= position:
            continue
        if begin > position:
            missed, position = True, begin
        data = _whole_lines(path, position - begin, room)
        position, room = position + len(data), room - len(data)
        lines += _parsed(data)
        if begin + path.stat().st_size > position:
            return tuple(lines), position, missed, last and not data  # what is left is half a line
    return tuple(lines), position, missed, True


def _whole_lines(path: Path, offset: int, limit: int) -> bytes:
    """Return whole lines from ``offset`` on; one at least, if there is one."""
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(max(0, limit))
        if not data.endswith(b"\n"):
            cut = data.rfind(b"\n") + 1
            data = data[:cut] if cut else data + file.readline()
    return data if data.endswith(b"\n") else b""


def _parsed(data: bytes) -> list[OutputLine]:
    return [_parse(line) for line in data.split(b"\n")[:-1]]


def _parse(line: bytes) -> OutputLine:
    time, _, text = line.partition(b" ")
    return OutputLine(float(time), text)
