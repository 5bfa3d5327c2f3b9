import os
import signal
import subprocess
import sys
import threading

import pytest

import optimus_train
from optimus_train import stop


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """A process that has not yet asked, and its own handler back afterwards."""
    earlier = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(stop, "_installed", False)
    monkeypatch.setattr(stop, "_requested", threading.Event())
    yield
    signal.signal(signal.SIGTERM, earlier)


def test_sigterm_is_a_request_once_the_script_has_asked():
    assert not optimus_train.stop_requested()
    os.kill(os.getpid(), signal.SIGTERM)
    assert optimus_train.stop_requested()


def test_a_handler_that_was_there_before_is_called_too():
    called = []
    signal.signal(signal.SIGTERM, lambda number, frame: called.append(number))
    optimus_train.stop_requested()
    os.kill(os.getpid(), signal.SIGTERM)
    assert optimus_train.stop_requested()
    assert called == [signal.SIGTERM]


def test_asking_from_another_thread_installs_nothing_and_does_no_harm():
    before = signal.getsignal(signal.SIGTERM)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(optimus_train.stop_requested()))
    thread.start()
    thread.join()
    assert answers == [False]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_script_that_never_asks_dies_of_sigterm():
    code = "import os, signal, optimus_train; os.kill(os.getpid(), signal.SIGTERM); signal.pause()"
    root = os.path.dirname(os.path.dirname(optimus_train.__file__))
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": root}, timeout=30, check=False)
    assert done.returncode == -signal.SIGTERM
