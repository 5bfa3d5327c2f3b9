"""One read for all who ask at once, and never an older one than asked for."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from optimus_core.cluster.kubernetes.shared import SharedRead


def test_who_comes_while_a_read_is_under_way_shares_the_next_one():
    under_way, go_on, reads = threading.Event(), threading.Event(), []

    def read():
        reads.append(len(reads))
        if len(reads) == 1:
            under_way.set()
            assert go_on.wait(10)
        return reads[-1]

    shared = SharedRead(read)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(shared.get)
        assert under_way.wait(10)
        late = [pool.submit(shared.get) for _ in range(8)]
        while shared._counting.locked():
            pass
        go_on.set()
        assert first.result(10) == 0
        assert {each.result(10) for each in late} <= {1, 2}
    assert len(reads) <= 3


def test_a_read_that_fails_is_the_callers_error_and_the_next_one_reads_anew():
    answers = iter([OSError("away"), "pods"])

    def read():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    shared = SharedRead(read)
    with pytest.raises(OSError, match="away"):
        shared.get()
    assert shared.get() == "pods"
