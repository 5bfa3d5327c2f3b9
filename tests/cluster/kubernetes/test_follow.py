"""A log that is followed is read whole, once and in order, over streams that break anywhere."""

import threading
import time
from contextlib import contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from urllib3.exceptions import ProtocolError

from optimus_core.cluster.base import OutputLine
from optimus_core.cluster.kubernetes.api import NotFound
from optimus_core.cluster.kubernetes.follow import FAST, Follower, Followers, Place, is_fast
from optimus_core.cluster.kubernetes.output import Cursor, stamped
from tests.cluster.kubernetes.test_output import MILLISECOND, SECOND, START, Log, logs, read_all, wanted
from tests.cluster.kubernetes.test_output import stamped as stamp
from tests.conftest import until


class Streams:
    """A log's streams: each gives what is there from a time on, in pieces, and ends as it is told."""

    def __init__(self, log, chunk=50, most=1 << 30, error=None):
        self.log, self.chunk, self.most, self.error, self.opened = log, chunk, most, error, 0

    @contextmanager
    def __call__(self, since):
        self.opened += 1
        data, _ = self.log.read(since, self.most)
        yield self._pieces(data)

    def _pieces(self, data):
        yield from (data[at : at + self.chunk] for at in range(0, len(data), self.chunk))
        if self.error:
            raise self.error


def take_all(follower, cursor, count, limit=1 << 20):
    """Take so many lines; return them, the cursor, and whether any were missed."""
    got, missed, end = [], False, time.monotonic() + 20
    while len(got) < count:
        assert time.monotonic() < end
        piece = follower.take(cursor, limit, wait=0.05)
        got += [(round(line.time * 1e3), line.data) for line in piece.lines]
        cursor, missed = piece.cursor, missed or piece.missed
    return got, cursor, missed


@settings(max_examples=60)
@given(lines=logs(), read=st.integers(0, 25), gone=st.integers(0, 25))
@example(lines=[(START, b""), (START, b""), (START - SECOND // 4, b"")], read=1, gone=1)
def test_a_stream_goes_on_behind_what_was_read_and_tells_what_is_not_there_any_more(lines, read, gone):
    log = Log([(time + index * (MILLISECOND + 1), b"%d" % index) for index, (time, _) in enumerate(lines)])
    _, text, _ = read_all(log, written=read, ended=False)
    cursor = Cursor.read(text)
    log.drop(gone)
    polled, _, missed = read_all(log, text)
    place = Place(cursor)
    new = [line.data for at, line in stamped(log.read(cursor.since, 1 << 30)[0].split(b"\n")) if place.is_new(at)]
    read_by_both = [data for data in new if data in {data for _, data in polled}]
    assert read_by_both == [data for _, data in polled]
    assert len(new) == len(polled) or missed
    assert not place.missed or missed


@settings(max_examples=25, deadline=None)
@given(lines=logs(), cuts=st.integers(1, 200), limit=st.integers(1, 200), chunk=st.integers(1, 60))
def test_each_line_is_given_once_however_streams_break_and_takers_take(lines, cuts, limit, chunk):
    lines = [(time, text) for time, text in lines if not text.startswith(b"\r")]
    log = Log(lines)
    first = [(at, text) for at, text in lines if at >= START - SECOND]
    follower = Follower(Streams(log, chunk), Cursor())
    got, cursor, missed = take_all(follower, Cursor(), len(first), limit)
    follower.close()
    assert (got, missed) == (wanted(first), False)
    assert read_all(log, cursor.write()) == ([], cursor.write(), False)


@pytest.mark.parametrize(
    "error", [pytest.param(None, id="ends quietly"), pytest.param(ProtocolError("reset"), id="breaks")]
)
def test_a_stream_that_ends_is_opened_again_where_it_was(error):
    log = Log((START + number * MILLISECOND, b"%d" % number) for number in range(100))
    streams = Streams(log, chunk=7, most=2000, error=error)
    follower = Follower(streams, Cursor())
    first, cursor, _ = take_all(follower, Cursor(), 40)
    streams.most = 1 << 30
    second, _, missed = take_all(follower, cursor, 100 - len(first))
    follower.close()
    assert ([text for _, text in first + second], missed) == ([b"%d" % number for number in range(100)], False)
    assert streams.opened > 1


def test_what_was_taken_and_not_kept_is_given_again():
    follower = Follower(Streams(Log([(START, b"a"), (START + 1, b"b")])), Cursor())
    until(lambda: follower.take(Cursor(), 1).lines)
    first = follower.take(Cursor(), 1)
    assert follower.take(Cursor(), 1) == first
    assert [line.data for line in follower.take(first.cursor, 1).lines] == [b"b"]
    follower.close()


def test_a_log_that_another_has_read_on_is_followed_no_more():
    followers = Followers()
    followers.begin("uid", Streams(Log([(START, b"a")])), Cursor())
    assert followers.take("uid", Cursor(START + SECOND, 1), 100) is None
    assert len(followers) == 0


def test_only_so_many_logs_are_followed_at_a_time():
    followers, stop = Followers(most=2), threading.Event()

    @contextmanager
    def silent(_):
        yield iter(lambda: stop.wait(0.01) or b"", None)

    for uid in "abc":
        followers.begin(uid, silent, Cursor())
    assert [followers.take(uid, Cursor(), 1) is not None for uid in "abc"] == [True, True, False]
    followers.end("a")
    followers.begin("c", silent, Cursor())
    assert followers.take("c", Cursor(), 1) is not None
    for uid in "bc":
        followers.end(uid)


def test_lines_that_nobody_takes_are_kept_within_bounds_and_read_later():
    log = Log((START + number * MILLISECOND, b"x" * 100) for number in range(1000))
    streams = Streams(log, chunk=200)
    follower = Follower(streams, Cursor(), held_bytes=5000)
    until(lambda: follower._size > 5000)
    time.sleep(0.1)
    assert follower._size < 6000
    got, _, missed = take_all(follower, Cursor(), 150)
    assert (got, missed) == (wanted(log.lines)[: len(got)], False)
    follower.close()


def test_a_pod_that_is_gone_ends_its_follower():
    def gone(_):
        raise NotFound("pods not found")

    follower = Follower(gone, Cursor())
    until(lambda: follower.closed)
    assert follower.take(Cursor(), 1) is None


@pytest.mark.parametrize(
    ("sizes", "seconds", "fast"),
    [
        pytest.param([], 0, False, id="nothing"),
        pytest.param([FAST - 1], 0, False, id="a long line"),
        pytest.param([FAST, FAST], 3, False, id="slow"),
        pytest.param([FAST, FAST], 1, True, id="fast"),
    ],
)
def test_a_log_is_fast_by_the_times_of_its_lines(sizes, seconds, fast):
    lines = [OutputLine(seconds * number, b"x" * size) for number, size in enumerate(sizes)]
    assert is_fast(lines) is fast


def test_bytes_that_are_no_lines_of_a_log_are_left_out():
    log = Log([(START, b"a")])
    log.read = lambda since, limit, written=None: (b"failed to open log\n" + stamp(START, b"a\n"), False)
    follower = Follower(Streams(log), Cursor())
    got, _, _ = take_all(follower, Cursor(), 1)
    follower.close()
    assert got == [(START // MILLISECOND, b"a")]
