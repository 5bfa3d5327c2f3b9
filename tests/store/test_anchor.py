"""The store's file stays open between transactions: its log is not written back at the end of each one."""

import gc
import os
import shutil
import subprocess
import sys

import pytest

from optimus_core.store import Store


@pytest.fixture
def file(tmp_path):
    return tmp_path / "optimus.db"


def revise(store):
    with store.transaction() as tx:
        tx.revise("kube")


def revision(store):
    with store.transaction() as tx:
        return tx.peek_cluster("kube").revision


def log_of(file):
    return file.with_name(file.name + "-wal")


def test_the_log_outlives_a_transaction(file):
    store = Store(f"sqlite:///{file}")
    revise(store)
    assert log_of(file).stat().st_size > 0
    assert revision(Store(f"sqlite:///{file}")) == 1


def test_the_log_is_written_back_when_nobody_uses_the_store_any_more(file):
    store = Store(f"sqlite:///{file}")
    revise(store)
    del store
    gc.collect()
    assert not log_of(file).exists()
    assert revision(Store(f"sqlite:///{file}")) == 1


def test_the_log_is_written_back_at_the_end_of_the_process(file):
    code = f"from optimus_core.store import Store; kept = Store('sqlite:///{file}')"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert file.exists()
    assert not log_of(file).exists()


def test_a_child_process_gets_no_connection_of_its_parent(file):
    store = Store(f"sqlite:///{file}")
    revise(store)
    child = os.fork()
    if child == 0:
        open_files = {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_there(name)}
        revise(store)
        os._exit(any(name.startswith(str(file)) for name in open_files))
    assert os.waitpid(child, 0)[1] == 0
    revise(store)
    assert revision(store) == 3


def _is_there(name):
    return os.path.lexists(f"/proc/self/fd/{name}")


def test_a_file_that_was_put_in_its_place_is_used_and_kept_whole(file, tmp_path):
    other = Store(f"sqlite:///{tmp_path / 'other.db'}")
    for _ in range(3):
        revise(other)
    del other
    gc.collect()
    store = Store(f"sqlite:///{file}")
    revise(store)
    for each in (file, log_of(file), file.with_name(file.name + "-shm")):
        each.unlink(missing_ok=True)
    shutil.copy(tmp_path / "other.db", file)
    revise(store)
    del store
    gc.collect()
    assert revision(Store(f"sqlite:///{file}")) == 4
