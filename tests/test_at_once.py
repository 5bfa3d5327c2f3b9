from threading import Barrier

import pytest

from optimus_core.at_once import at_once


def fail(error):
    raise error


def test_two_calls_run_at_the_same_time_and_give_their_results_in_order():
    both = Barrier(2, timeout=10)
    assert at_once(lambda: (both.wait(), "a")[1], lambda: (both.wait(), "b")[1]) == ("a", "b")


def test_the_error_of_the_first_call_comes_before_that_of_the_second():
    with pytest.raises(KeyError):
        at_once(lambda: fail(KeyError()), lambda: fail(ValueError()))
    with pytest.raises(ValueError):
        at_once(lambda: 1, lambda: fail(ValueError()))


def test_both_calls_have_ended_when_one_has_failed():
    done = []
    with pytest.raises(KeyError):
        at_once(lambda: fail(KeyError()), lambda: done.append(1))
    assert done == [1]
