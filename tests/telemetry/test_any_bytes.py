"""Whatever a replica prints, and however it arrives."""

from __future__ import annotations

import json
import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from optimus_core.telemetry import LineSplitter, Parser, Point, parse_file
from optimus_core.telemetry.text import MAX_LENGTH

PIECES = st.sampled_from(
    [
        "loss", "val/loss", "step", "Epoch 2/3", "Epoch[", "]", "Batch [0-20]", "=", ": ", "0.25", "1e-5",
        "nan", "inf", "{", "}", "'", '"',
        '{"optimus": "report", "step": ', '"time": 1e999', ", ", "\n", "\r", "\b",
        "\x1b[1m", "\x1b]0;", "\x07", "━", "57/57 ", "10ms/step", "| 36/40 [00:01<00:00",
        "#argo progress=1/2",
        "9" * 20, "-", "+", ".", "%", " ", "\t", "٣", "\x00", "tensor(", "(", ")", "\ud800",
    ]
)  # fmt: skip
OUTPUTS = st.one_of(
    st.binary(max_size=200),
    st.lists(PIECES, max_size=30).map(lambda pieces: "".join(pieces).encode(errors="surrogatepass")),
)
PATTERNS = st.sampled_from([None, r"(?P<loss>\S*)", r"(?P<name>\w*)\W*(?P<value>.*)|(?P<step>\d+)(?P<epoch>.*)"])


@given(OUTPUTS, PATTERNS)
def test_no_output_raises_and_all_points_are_finite(data: bytes, pattern: str | None) -> None:
    result = parse_file(data, pattern)
    json.dumps(result.to_dict(), allow_nan=False)
    lines = data.count(b"\n") + 1
    assert all(1 <= p.line <= lines and math.isfinite(p.value) for p in result.points)
    assert 0 <= result.unread <= lines


@given(OUTPUTS, st.lists(st.integers(0, 200), max_size=8))
def test_how_an_output_is_cut_into_chunks_changes_nothing(data: bytes, cuts: list[int]) -> None:
    parser = Parser()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    records = [r for a, b in pairwise(edges) for r in parser.feed(data[a:b])]
    records += parser.finish()
    whole = parse_file(data)
    assert [r for r in records if isinstance(r, Point)] == whole.points
    assert [r for r in records if not isinstance(r, Point)] == whole.events
    assert parser.unread == whole.unread


@given(OUTPUTS)
def test_single_bytes_give_the_same_texts_as_the_whole(data: bytes) -> None:
    one, each = LineSplitter(), LineSplitter()
    whole = [*one.feed(data), *one.finish()]
    assert [t for b in data for t in each.feed(bytes([b]))] + list(each.finish()) == whole


def test_a_glyph_cut_between_chunks_is_whole() -> None:
    splitter = LineSplitter()
    glyph = "█".encode()
    assert list(splitter.feed(glyph[:1])) == []
    assert list(splitter.feed(glyph[1:] + b"\n")) == [("█", True)]


def test_a_line_without_end_is_bounded() -> None:
    splitter = LineSplitter()
    for _ in range(5):
        assert list(splitter.feed(b"x" * MAX_LENGTH)) == []
    assert list(splitter.feed(b"y\nloss=1\n")) == [("x" * MAX_LENGTH, True), ("loss=1", True)]


def test_endless_names_and_numbers_take_no_time() -> None:
    for piece in (b"a", b"1", b"a.", b"a=", b"Epoch ", b" ", b"'", b"=1", b"1/", b"{'a':", b"\x1b]", b"-a"):
        parse_file(piece * (200_000 // len(piece)))
