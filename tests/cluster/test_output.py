"""Output is read line by line from a cursor on, raw, and within bounds."""

import time

from optimus_core.cluster.base import Output
from optimus_core.cluster.output import read_lines
from optimus_core.cluster.shim.log import Log
from tests.cluster.helpers import python, spec, until


def data_of(output: Output) -> list[bytes]:
    return [line.data for line in output.lines]


def test_frames_of_a_progress_bar_are_lines_and_bytes_stay_as_they_are(driver):
    driver.run(python(r"import os; os.write(1, b'one\r\n 10%\r 20%\r\xff\xfe\n\nlast')"))
    assert data_of(driver.cluster.output(driver.one(), None)) == [b"one", b" 10%", b" 20%", b"\xff\xfe", b"", b"last"]


def test_both_streams_are_merged_and_lines_have_the_time_of_their_writing(driver):
    before = time.time()
    driver.run(spec("echo out; echo err >&2"))
    output = driver.cluster.output(driver.one(), None)
    assert data_of(output) == [b"out", b"err"]
    assert all(before <= line.time <= time.time() for line in output.lines)


def test_a_cursor_goes_on_where_the_last_reading_ended(driver):
    driver.run(spec("seq 1 100; true"))
    got, cursor, readings = [], None, 0
    while True:
        output = driver.cluster.output(driver.one(), cursor, limit_bytes=200)
        got, cursor, readings = got + data_of(output), output.cursor, readings + 1
        assert not output.missed
        if output.ended:
            break
    assert got == [b"%d" % number for number in range(1, 101)]
    assert readings > 5


def test_output_is_seen_while_the_replica_runs(driver):
    driver.start(spec("echo begun; sleep 600"))
    until(lambda: driver.text() == b"begun")
    output = driver.cluster.output(driver.one(), None)
    assert not output.ended
    assert driver.cluster.output(driver.one(), output.cursor) == Output((), output.cursor, ended=False)


def test_the_output_of_an_absent_replica_has_ended(driver):
    replica = driver.run(spec("echo x; true"))
    driver.cluster.forget("job")
    assert driver.cluster.output(replica, "5") == Output((), "5", ended=True)


def test_a_line_longer_than_the_limit_comes_whole(driver):
    driver.run(python("print('x' * 5000)"))
    output = driver.cluster.output(driver.one(), None, limit_bytes=100)
    assert data_of(output) == [b"x" * 5000]


def test_a_reader_that_comes_too_late_is_told_that_lines_are_missing(tmp_path):
    log = Log(str(tmp_path), limit=800)
    for number in range(1000):
        log.feed(b"line %d\n" % number)
    lines, position, missed, complete = read_lines(tmp_path, "0", 1 << 20)
    assert missed
    assert complete
    assert lines[-1].data == b"line 999"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1200
    assert read_lines(tmp_path, str(position), 1 << 20) == ((), position, False, True)


def test_a_disk_that_is_full_for_a_while_leaves_a_gap_that_is_told(tmp_path, monkeypatch):
    log = Log(str(tmp_path), limit=1 << 20)
    log.feed(b"before\n")
    real = log._append
    monkeypatch.setattr(log, "_append", lambda block: (_ for _ in ()).throw(OSError("full")))
    log.feed(b"lost\n")
    monkeypatch.setattr(log, "_append", real)
    log.feed(b"after\n")
    lines, _, missed, complete = read_lines(tmp_path, None, 1 << 20)
    assert [line.data for line in lines] == [b"before", b"after"]
    assert missed
    assert complete


def test_line_ends_that_are_cut_apart_are_one_end(tmp_path):
    log = Log(str(tmp_path), limit=1 << 20)
    for piece in (b"a\r", b"\nb", b"c\r", b"d\n"):
        log.feed(piece)
    assert [line.data for line in read_lines(tmp_path, None, 1 << 20)[0]] == [b"a", b"bc", b"d"]


def test_half_a_line_of_a_killed_writer_is_left_out(tmp_path):
    (tmp_path / "output-00000000000000000000.log").write_bytes(b"1.0 whole\n2.0 ha")
    lines, position, missed, _ = read_lines(tmp_path, None, 1 << 20)
    assert [line.data for line in lines] == [b"whole"]
    assert read_lines(tmp_path, str(position), 1 << 20) == ((), position, False, True)
    assert not missed
