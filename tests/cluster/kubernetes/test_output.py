"""Every line of a log is read once and in order, however the reads cut it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.cluster.kubernetes.output import Cursor, parse

START = 1_790_000_000 * 10**9
SECOND, MILLISECOND = 10**9, 10**6


def stamped(time, text=b""):
    """A line as the API gives it with timestamps."""
    whole, part = divmod(time, SECOND)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{part:09d}Z ".encode() + text


class Log:
    """A container's log, and the kubelet's way of reading it."""

    def __init__(self, lines, newline_at_end=True):
        self.lines, self.newline_at_end = list(lines), newline_at_end

    def read(self, since, limit, written=None):
        """Return what a read gives while only the first ``written`` lines are there, and whether it was cut."""
        here = self.lines[:written]
        first = START - SECOND if since is None else int(datetime.fromisoformat(since).timestamp()) * SECOND
        data = b"".join(stamped(time, text) + b"\n" for time, text in here if time >= first)
        if len(here) == len(self.lines) and not self.newline_at_end:
            data = data.removesuffix(b"\n")
        return data[:limit], len(data) >= limit

    def drop(self, count):
        """Rotate: the oldest lines are out of reach."""
        del self.lines[:count]


def read_all(log, cursor=None, written=None, limit=1 << 20, ended=True):
    """Read on as a cluster does until nothing is left; return the lines, the cursor, and whether any were missed."""
    got, missed, larger = [], False, limit
    known = Cursor.read(cursor)
    while True:
        data, cut = log.read(known.since, larger, written)
        piece = parse(data, known, cut=cut, ended=ended)
        assert Cursor.read(piece.cursor.write()) == piece.cursor
        got += [(round(line.time * 1e3), line.data) for line in piece.lines]
        known, missed = piece.cursor, missed or piece.missed
        if not cut:
            return got, known.write(), missed
        larger = limit if piece.lines else larger * 4


def wanted(lines):
    return [(time // MILLISECOND, text) for time, text in lines]


_TEXTS = st.one_of(
    st.sampled_from([b"", b" ", b"step 1\r step 2\r", b"\r", b"2026-01-01T00:00:00Z not a stamp", b"\xff\xfe\0"]),
    st.binary(max_size=40).map(lambda text: text.replace(b"\n", b"")),
)
_STEPS = st.sampled_from([0, 0, 0, 1, 300, 700, 2500, 60_000]).map(lambda ms: ms * MILLISECOND)
_BACK = st.sampled_from([0, 0, 0, 1, 250, 900]).map(lambda ms: ms * MILLISECOND)


@st.composite
def logs(draw):
    """Lines of a container: many of one time, some up to 0.9 s behind the one before them."""
    time, lines = START, []
    for step, back, text in draw(st.lists(st.tuples(_STEPS, _BACK, _TEXTS), max_size=25)):
        time += step
        lines.append((time - back, text))
    return lines


@given(lines=logs(), limits=st.lists(st.integers(1, 300), min_size=1), data=st.data(), newline=st.booleans())
def test_each_line_is_read_once_and_in_order_however_the_log_is_cut(lines, limits, data, newline):
    log, got, cursor, seen = Log(lines, newline), [], None, 0
    for limit in limits:
        seen = data.draw(st.integers(seen, len(lines)), label="lines that are written")
        fresh, cursor, missed = read_all(log, cursor, seen, limit, ended=False)
        assert not missed
        got += fresh
        assert got == wanted(lines)[: len(got)]
    fresh, cursor, missed = read_all(log, cursor, limit=data.draw(st.integers(1, 5000)))
    assert got + fresh == wanted(lines)
    assert not missed
    assert read_all(log, cursor) == ([], cursor, False)


@given(lines=logs().filter(bool), data=st.data())
def test_a_rotation_loses_no_line_unnoticed_and_brings_none_twice(lines, data):
    log = Log([(time + index * (MILLISECOND + 1), b"%d" % index) for index, (time, _) in enumerate(lines)])
    numbers = [text for _, text in log.lines]
    read = data.draw(st.integers(1, len(lines)), label="lines that were read")
    gone = data.draw(st.integers(0, len(lines)), label="lines that are gone")
    first, cursor, _ = read_all(log, written=read)
    log.drop(gone)
    second, _, missed = read_all(log, cursor)
    got = [text for _, text in (*first, *second)]
    assert len(set(got)) == len(got)
    assert [text for text in numbers if text in got] == got
    if got != numbers and log.read(Cursor.read(cursor).since, 1)[0]:
        assert missed


def test_a_rotation_that_took_only_what_was_read_is_not_told():
    log = Log((START + number * SECOND // 10, b"%d" % number) for number in range(10))
    _, cursor, _ = read_all(log, written=8)
    log.drop(7)  # the last line that was read is still there
    assert read_all(log, cursor)[::2] == (
        [(START // MILLISECOND + 800, b"8"), (START // MILLISECOND + 900, b"9")],
        False,
    )


def test_a_rotation_that_took_more_than_was_read_is_told_once():
    log = Log((START + number * SECOND, b"%d" % number) for number in range(10))
    _, cursor, _ = read_all(log, written=4)
    log.drop(6)
    fresh, cursor, missed = read_all(log, cursor)
    assert ([text for _, text in fresh], missed) == ([b"6", b"7", b"8", b"9"], True)
    assert read_all(log, cursor) == ([], cursor, False)


def test_lines_that_are_cut_before_the_place_that_was_read_are_not_missed():
    log = Log((START, b"%d" % number) for number in range(100))
    _, cursor, _ = read_all(log)
    data, cut = log.read(Cursor.read(cursor).since, 200)
    piece = parse(data, Cursor.read(cursor), cut=cut, ended=True)
    assert (piece.lines, piece.missed, piece.complete) == ((), False, False)


def test_a_line_of_the_same_time_is_not_read_again_when_one_of_an_earlier_time_came_between():
    log = Log([(START + 5, b"a"), (START + 4, b"b"), (START + 5, b"c"), (START + 6, b"d")])
    got, cursor = [], None
    for written in (1, 2, 3, 4):
        fresh, cursor, _ = read_all(log, cursor, written)
        got += [text for _, text in fresh]
    assert got == [b"a", b"b", b"c", b"d"]


def test_a_line_that_is_seconds_late_and_comes_no_more_does_not_hide_the_next():
    log = Log([(START + 10 * SECOND, b"a"), (START, b"late"), (START + 10 * SECOND, b"b")])
    first, cursor, _ = read_all(log, written=2)
    second, _, missed = read_all(log, cursor)
    assert ([text for _, text in (*first, *second)], missed) == ([b"a", b"late", b"b"], False)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"unable to retrieve container logs for containerd://ab12", [], id="words-of-the-api"),
        pytest.param(b"failed to open log\n" + stamped(START, b"a\n"), [b"a"], id="words-before-lines"),
        pytest.param(stamped(START, b"a\n") + b"the rest of a longer line\n", [b"a"], id="a-part-without-a-stamp"),
        pytest.param(b"2026-01-01T00:00:00Z a\n", [b"a"], id="no-fraction"),
        pytest.param(b"2026-01-01T02:00:00.5+02:00 a\n", [b"a"], id="a-node-in-another-time-zone"),
        pytest.param(b"2026-01-01T00:00:00Z\n", [b""], id="no-space"),
        pytest.param(b"2026-01-01T00:00:00Z   a \n", [b"  a "], id="its-own-spaces"),
    ],
)
def test_only_stamped_lines_count(text, lines):
    piece = parse(text, Cursor(), cut=False, ended=True)
    assert ([line.data for line in piece.lines], piece.missed, piece.complete) == (lines, False, True)


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        pytest.param(b"1970-01-01T00:00:01Z", 1.0, id="seconds"),
        pytest.param(b"1970-01-01T00:00:01.25Z", 1.25, id="a-short-fraction"),
        pytest.param(b"1970-01-01T00:00:01.000000001Z", 1.000000001, id="nanoseconds"),
        pytest.param(b"1970-01-01T01:00:01.5+01:00", 1.5, id="a-time-zone"),
    ],
)
def test_a_line_has_the_time_of_its_stamp(stamp, time):
    (line,) = parse(stamp + b" x\n", Cursor(), cut=False, ended=True).lines
    assert line.time == time


def test_a_last_line_without_an_end_waits_until_it_gets_one_or_the_container_has_ended():
    data = stamped(START, b"a\n") + stamped(START + 1, b"half")
    while_it_runs = parse(data, Cursor(), cut=False, ended=False)
    assert [line.data for line in while_it_runs.lines] == [b"a"]
    assert not while_it_runs.complete
    after = parse(data, while_it_runs.cursor, cut=False, ended=True)
    assert [line.data for line in after.lines] == [b"half"]
    assert after.complete


def test_a_cursor_asks_from_the_second_before_since_the_api_knows_no_fractions():
    assert Cursor().since is None
    assert Cursor.read(None) == Cursor()
    assert Cursor(1_790_000_000 * SECOND + 5, 1).since == "2026-09-21T14:13:19Z"


def test_nothing_is_concluded_from_a_log_that_is_not_there():
    cursor = Cursor(START, 3)
    piece = parse(b"", cursor, cut=False, ended=True)
    assert (piece.lines, piece.cursor, piece.missed) == ((), cursor, False)
