"""The quickstart: a real Airflow, training jobs that share a small cluster, a live table, a summary.

make quickstart          # ends by itself; exit 0 only if every job succeeded
KEEP=1 make quickstart   # leaves the UI up until Ctrl-C
make demo-kubernetes     # the same with pods on a real cluster; one of them gets lost
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))

from checks import most_asked_for, steps_lost
from place import Place, kubernetes, local
from real_airflow import Airflow, end_with_parent
from summary import measured, print_job, resizes, simulated
from view import View

from optimus_core.cluster.base import NodeInfo
from optimus_core.counted import counted
from optimus_core.engine.engine import Engine
from optimus_core.reasons import duration
from optimus_core.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".quickstart"
DAG = "optimus_examples"
LIVELY = {
    "POLL_SECONDS": "1",
    "ROUND_DELAY_SECONDS": "1",
    "SPEED_WINDOW_SECONDS": "3",
    "RESTART_COST_SECONDS": "4",
    "YOUNG_STEPS": "10",
    "YOUNG_SECONDS": "5",
}
"""Settings for jobs of a minute; the defaults are for jobs of hours."""
JOBS = f"OPTIMUS_HOME={FOLDER.name}/optimus .venv/bin/optimus jobs"
_LOCK = "lock"
_LONGEST = 600
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Run it all; return the exit code."""
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    end_with_parent()
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    lock = _lock()
    if lock is None:
        console.print(f"another quickstart runs in {FOLDER}, or is about to end; stop it, or wait a moment")
        return 1
    _clear()
    try:
        with kubernetes() if "--kubernetes" in sys.argv[1:] else local() as place:
            return _airflow_at(console, place, lock)
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    except (OSError, RuntimeError, subprocess.CalledProcessError, httpx.HTTPError) as error:
        console.print(f"it can't go on: {error}", markup=False)
        return 1


def _airflow_at(console: Console, place: Place, lock: int) -> int:
    """Start an Airflow whose jobs run at ``place``, run it all, and stop it; return the exit code."""
    optimus = {"OPTIMUS_HOME": str(_folder("optimus"))}
    optimus |= {f"AIRFLOW__OPTIMUS__{key}": value for key, value in LIVELY.items()}
    (FOLDER / "optimus" / "clusters.yaml").write_text(place.clusters, encoding="utf-8")
    airflow = Airflow(_folder("airflow"), _dags(), optimus | place.environ, kept_open=[lock])
    try:
        return _run(console, airflow, place)
    except KeyboardInterrupt:
        console.print("interrupted: stopping Airflow and the jobs")
        return 130
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # what follows must not be cut short
        airflow.stop()


def _lock() -> int | None:
    """Return what says that our folder is in use, None if it is already."""
    FOLDER.mkdir(exist_ok=True)
    descriptor = os.open(FOLDER / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return descriptor


def _clear() -> None:
    """Delete what an earlier quickstart has left to look at."""
    for entry in FOLDER.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()


def _run(console: Console, airflow: Airflow, place: Place) -> int:
    began = time.monotonic()
    console.print(f"starting Airflow on {airflow.url} (files and logs in {FOLDER.name}/)")
    airflow.start()
    console.print(f"Airflow is up after {time.monotonic() - began:.0f} s; running the DAG {DAG}")
    console.print(f"to watch: {airflow.url}, user {airflow.user}, password {airflow.password}", markup=False)
    console.print(f"or: {JOBS}")
    run = airflow.trigger(DAG)
    airflow.trigger("optimus_rebalance")
    engine = Engine(Settings.load(airflow.environ))
    state = _watch(console, engine, airflow, run, place)
    ok = _summarise(console, engine, airflow, run, state, place)
    if os.environ.get("KEEP"):
        console.print(
            f"\nThe UI is at {airflow.url}, user {airflow.user}, password {airflow.password}; the jobs are shown by\n"
            f"{JOBS}\nCtrl-C ends it.",
            markup=False,
        )
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0 if ok else 1


def _watch(console: Console, engine: Engine, airflow: Airflow, run: str, place: Place) -> str:
    """Show the jobs until the run has ended; return its state."""
    end = time.monotonic() + _LONGEST
    with View(console) as view:
        while time.monotonic() < end:
            view.update(engine.jobs())
            place.disturb(engine)
            state = airflow.state(DAG, run)
            if state in ("success", "failed"):
                view.update(engine.jobs())
                return state
            time.sleep(1)
    return "not finished in time"


def _summarise(console: Console, engine: Engine, airflow: Airflow, run: str, state: str, place: Place) -> bool:
    """Print the summary and the checks; return whether all is right."""
    reports = engine.jobs()
    histories = {report.id: engine.history(report.id) for report in reports}
    for report in reports:
        print_job(console, report, histories[report.id])
    console.print("")
    nodes = engine.ctx.cluster(engine.settings.cluster).nodes()
    succeeded = bool(reports) and all(report.state == "succeeded" for report in reports)
    if succeeded:
        _compare(console, engine, nodes)
    problems = _check(console, engine, nodes, list(histories.values()))
    console.print(f"({os.cpu_count()} cores {place.note})")
    if place.lost and succeeded:
        console.print(f"{place.lost} has lost a replica on the way, and went on")
    problems += place.problems()
    if state != "success":
        problems.append(f"the DAG run is {state}: {', '.join(airflow.failed_tasks(DAG, run))}")
    for problem in problems:
        console.print(f"PROBLEM: {problem}", markup=False)
    console.print("every job succeeded" if succeeded and not problems else "not everything is right")
    return succeeded and not problems


def _check(console: Console, engine: Engine, nodes: list[NodeInfo], histories: list[dict[str, Any]]) -> list[str]:
    """Print what was asked for and how jobs were resized; return what should not have been."""
    too_much, highest = most_asked_for(engine, nodes)
    for node in nodes:
        most = highest[node.name].describe()
        console.print(f"{node.name} offers {node.allocatable.describe()}; at most {most} asked for")
    if not too_much:
        console.print("at no moment was more asked for than there is")
    lost = [line for history in histories for line in steps_lost(history)]
    changes = [resizes(history) for history in histories]
    grown, shrunk = (sum(change[index] for change in changes) for index in (0, 1))
    went_on = "" if lost else ", and each went on from its checkpoint"
    console.print(f"jobs have grown {counted(grown, 'time')} and shrunk {counted(shrunk, 'time')}{went_on}")
    return [*too_much, *lost]


def _compare(console: Console, engine: Engine, nodes: list[NodeInfo]) -> None:
    """Print average completion time and makespan: measured, and in simulation with the speeds that were seen."""
    ours, fixed = simulated(engine, nodes)
    rows = [("Optimus, measured", *measured(engine.jobs()))]
    rows += [("Optimus, simulated", ours.average_completion, ours.makespan)]
    for workers, outcome in fixed.items():
        rows.append(
            (f"all fixed at {counted(workers, 'worker')}, simulated", outcome.average_completion, outcome.makespan)
        )
    for what, average, makespan in rows:
        console.print(f"{what:36} average completion {duration(average):>11}, makespan {duration(makespan):>11}")
    console.print("(simulated: the same arrivals with the speeds that were seen; fixed: within each job's bounds)")
    best, outcome = min(fixed.items(), key=lambda pair: pair[1].average_completion)
    if outcome.average_completion < ours.average_completion:
        console.print(
            f"(why all at {best} can be better than Optimus: which number is best is known only afterwards, and jobs of"
            " a minute hardly win back what it costs to start small, learn and restart)"
        )


def _folder(name: str) -> Path:
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _dags() -> Path:
    """Return a folder with just our DAGs."""
    folder = _folder("dags")
    for file in sorted((ROOT / "dags").glob("*.py")):
        shutil.copy(file, folder)
    return folder


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
