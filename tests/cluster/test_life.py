"""Replicas run, end, are asked to stop, and are lost: as real processes."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from optimus_core.cluster import life
from optimus_core.cluster.base import Phase
from optimus_core.cluster.shim.processes import stat_of
from tests.cluster.helpers import kill, processes_of, python, spec, supervisor_of, until

SLEEP = ("sleep", "600")
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)"
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(0)))
print('ready')
while True: time.sleep(600)
"""


@pytest.mark.parametrize(
    ("command", "phase", "code", "reason"),
    [
        pytest.param(("true",), Phase.SUCCEEDED, 0, "Completed", id="success"),
        pytest.param(("exit 3; true",), Phase.FAILED, 3, "Error", id="exit-code"),
        pytest.param(("kill -SEGV $$; true",), Phase.FAILED, 139, "Error", id="signal"),
        pytest.param(("no-such-program",), Phase.FAILED, 127, "StartError", id="no-such-program"),
    ],
)
def test_an_end_is_told_with_code_and_reason(driver, command, phase, code, reason):
    replica = driver.run(spec(*command))
    assert (replica.phase, replica.exit_code, replica.reason) == (phase, code, reason)
    assert replica.created_at <= replica.ended_at
    assert not replica.terminating
    assert not replica.ready


def test_a_command_that_does_not_exist_is_named(driver):
    assert driver.run(spec("no-such-program")).message == "no-such-program can't be started: No such file or directory"


def test_what_a_replica_leaves_in_its_termination_message_is_kept(driver):
    assert driver.run(spec("echo step 17 > $OPTIMUS_TERMINATION_MESSAGE; exit 1")).message == "step 17"


def test_a_replica_outlives_its_creator(driver, tmp_path):
    code = f"""
from tests.cluster.helpers import Driver, spec
from pathlib import Path
Driver(Path({str(driver.cluster.root)!r})).cluster.create("job-g1", [spec("sleep", "600")])
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=os.getcwd())
    (replica,) = driver.running()
    assert len(processes_of(replica.uid)) == 1
    assert psutil.Process(supervisor_of(driver, replica)).ppid() != os.getpid()


def test_a_killed_supervisor_takes_everything_with_it(driver):
    replica = driver.start(spec("sleep 600 & setsid sleep 601 & sleep 602"))
    until(lambda: len(processes_of(replica.uid)) == 4)
    kill(supervisor_of(driver, replica))
    lost = driver.ended()
    assert (lost.phase, lost.reason, lost.exit_code) == (Phase.FAILED, "Lost", None)
    assert processes_of(replica.uid) == []


def test_the_kernel_kills_the_command_of_a_killed_supervisor(driver):
    replica = driver.start(spec(*SLEEP))
    (process,) = processes_of(replica.uid)
    kill(supervisor_of(driver, replica))
    assert process.wait(5) is None  # nobody has looked at the cluster since


def test_a_request_to_stop_is_passed_on(driver):
    replica = driver.start(python(POLITE))
    driver.printed(b"ready")
    driver.cluster.delete([replica])
    ended = driver.ended()
    assert (ended.phase, ended.exit_code, ended.terminating) == (Phase.SUCCEEDED, 0, True)
    assert b"saved" in driver.text()


def test_a_replica_that_is_asked_to_stop_is_terminating_at_once(driver):
    driver.start(python(DEAF))
    driver.printed(b"deaf")
    driver.cluster.delete([driver.one()])
    assert driver.one().terminating
    assert driver.one().phase is Phase.RUNNING


def test_after_the_grace_period_it_is_killed_with_all_its_processes(driver):
    family = f"import subprocess; subprocess.Popen(['setsid', 'sleep', '600']); {DEAF}"
    replica = driver.start(python(family, grace=0.3))
    driver.printed(b"deaf")
    begun = time.monotonic()
    driver.cluster.delete([replica])
    ended = driver.ended()
    assert 0.25 < time.monotonic() - begun < 3
    assert (ended.exit_code, ended.reason) == (137, "Error")
    assert "grace" in ended.message
    assert processes_of(replica.uid) == []


def test_a_second_delete_shortens_the_grace_and_sends_no_second_signal(driver):
    counting = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print('term'))
print('ready')
while True: time.sleep(1)
"""
    replica = driver.start(python(counting, grace=60))
    driver.printed(b"ready")
    driver.cluster.delete([replica])
    driver.printed(b"term")
    driver.cluster.delete([replica])
    driver.cluster.delete([replica], grace_seconds=0.2)
    assert driver.ended().exit_code == 137
    assert driver.text().count(b"term") == 1


@pytest.mark.parametrize(
    "stuck",
    [
        pytest.param(("supervisor",), id="the supervisor"),
        pytest.param(("command",), id="the command"),
        pytest.param(("supervisor", "command"), id="both"),
    ],
)
@pytest.mark.parametrize("when", ["before it is asked", "after it was asked"])
def test_a_replica_that_is_stuck_ends_soon_after_its_grace_all_the_same(driver, monkeypatch, stuck, when):
    monkeypatch.setattr(life, "OVERDUE_SECONDS", 0.5)
    family = f"import subprocess; subprocess.Popen(['setsid', 'sleep', '600']); {DEAF}"
    replica = driver.start(python(family, grace=0.5))
    driver.printed(b"deaf")
    pids = {"supervisor": [supervisor_of(driver, replica)], "command": [p.pid for p in processes_of(replica.uid)]}
    if when == "after it was asked":
        driver.cluster.delete([replica])
    for pid in [pid for name in stuck for pid in pids[name]]:
        os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    driver.cluster.delete([replica])
    assert driver.one().phase is Phase.RUNNING
    ended = driver.ended()
    assert time.monotonic() - begun < 5
    assert ended.terminating
    assert processes_of(replica.uid) == []
    until(lambda: (stat := stat_of(pids["supervisor"][0])) is None or stat[0] == "Z")
    assert (ended.reason, ended.exit_code) == (("Lost", None) if "supervisor" in stuck else ("Error", 137))


def test_a_stuck_supervisor_that_nobody_asked_to_stop_is_left_alone(driver, monkeypatch):
    monkeypatch.setattr(life, "OVERDUE_SECONDS", 0.0)
    replica = driver.start(spec(*SLEEP))
    os.kill(supervisor_of(driver, replica), signal.SIGSTOP)
    assert driver.one().phase is Phase.RUNNING
    os.kill(supervisor_of(driver, replica), signal.SIGCONT)
    assert len(processes_of(replica.uid)) == 1


def test_without_grace_there_is_only_the_kill(driver):
    replica = driver.start(python(POLITE))
    driver.printed(b"ready")
    driver.cluster.delete([replica], grace_seconds=0)
    assert driver.ended().exit_code == 137
    assert b"saved" not in driver.text()


def test_deleting_what_has_ended_changes_nothing(driver):
    replica = driver.run(spec("true"))
    driver.cluster.delete([replica])
    assert driver.one() == replica


def test_a_delete_does_not_hit_a_later_replica_of_the_same_name(driver):
    first = driver.run(spec(*SLEEP[:1], "0"))
    driver.cluster.forget("job")
    second = driver.start(spec(*SLEEP))
    driver.cluster.delete([first])
    assert second.uid != first.uid
    assert not driver.one().terminating


def test_a_strangers_sigterm_is_a_disruption_even_if_the_work_was_saved(driver):
    replica = driver.start(python(POLITE))
    driver.printed(b"ready")
    os.kill(supervisor_of(driver, replica), signal.SIGTERM)
    ended = driver.ended()
    assert (ended.exit_code, ended.reason, ended.terminating) == (0, "Disrupted", True)


def test_what_a_command_leaves_behind_dies_with_it(driver):
    replica = driver.run(spec("sleep 600 & setsid sleep 601 & env -i setsid sleep 602.25 & exit 0"))
    assert replica.phase is Phase.SUCCEEDED
    assert processes_of(replica.uid) == []
    assert not [p for p in psutil.process_iter(["cmdline"]) if "602.25" in (p.info["cmdline"] or [])]


def tamper(driver, replica, **changes):
    """Change a record's status, without looking at it as the cluster does."""
    path = driver.cluster.root / "replicas" / replica.name / "status.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_process_id_that_was_given_out_anew_fools_nobody(driver):
    replica = driver.start(spec(*SLEEP))
    kill(supervisor_of(driver, replica))
    until(lambda: not processes_of(replica.uid))
    with subprocess.Popen(SLEEP) as other:  # lives, but began at another time
        tamper(driver, replica, pid=other.pid)
        reason = driver.one().reason
        driver.cluster.delete([replica])
        alive = other.poll() is None
        other.kill()
    assert reason == "Lost"
    assert alive


def test_a_record_of_an_earlier_boot_is_lost(driver):
    replica = driver.start(spec(*SLEEP))
    kill(supervisor_of(driver, replica))
    tamper(driver, replica, boot="an earlier one")
    assert driver.ended().reason == "Lost"


def test_a_record_that_looks_dead_while_its_lock_is_held_is_unknown(driver):
    replica = driver.start(spec(*SLEEP))
    before = driver.cluster.root / "replicas" / replica.name / "status.json"
    kept = before.read_text()
    tamper(driver, replica, start=1)
    assert driver.one().phase is Phase.UNKNOWN
    before.write_text(kept)
    assert driver.one().phase is Phase.RUNNING


def test_nothing_is_known_of_another_host(driver):
    replica = driver.start(spec(*SLEEP))
    before = driver.cluster.root / "replicas" / replica.name / "status.json"
    kept = before.read_text()
    tamper(driver, replica, host="elsewhere", boot="another", processes="others")
    assert driver.one().phase is Phase.UNKNOWN
    before.write_text(kept)


def test_a_request_without_a_signal_is_found_too(driver):
    replica = driver.start(python(POLITE))
    driver.printed(b"ready")
    request = {"grace_seconds": 5, "deadline": time.time() + 5}
    (driver.cluster.root / "replicas" / replica.name / "stop.json").write_text(json.dumps(request))
    assert driver.ended().exit_code == 0


def test_nothing_outlives_a_record_that_was_removed_by_hand(driver):
    replica = driver.start(spec(*SLEEP))
    os.rename(driver.cluster.root / "replicas" / replica.name, driver.cluster.root / "elsewhere")
    until(lambda: not processes_of(replica.uid))
