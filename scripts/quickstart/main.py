"""The quickstart: a real Airflow, training jobs that share a small cluster, a live table, a summary.

make quickstart          # ends by itself; exit 0 only if every job succeeded
KEEP=1 make quickstart   # leaves the UI up until Ctrl-C
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))

from checks import most_asked_for, steps_lost
from real_airflow import Airflow
from summary import measured, print_job, simulated
from view import View

from optimus_core.cluster.base import NodeInfo
from optimus_core.engine.engine import Engine
from optimus_core.reasons import duration
from optimus_core.settings import Settings
from optimus_core.store import LIVE

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".quickstart"
DAG = "optimus_examples"
NODES = """local:
  kind: local
  nodes:
    - {name: node-1, cpu: "3", memory: 3Gi}
    - {name: node-2, cpu: "3", memory: 3Gi}
"""
LIVELY = {
    "POLL_SECONDS": "1",
    "ROUND_DELAY_SECONDS": "1",
    "SPEED_WINDOW_SECONDS": "3",
    "RESTART_COST_SECONDS": "4",
    "YOUNG_STEPS": "10",
    "YOUNG_SECONDS": "5",
}
"""Settings for jobs of a minute; the defaults are for jobs of hours."""
_LONGEST = 600


def main() -> int:
    """Run it all; return the exit code."""
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    if FOLDER.exists():
        shutil.rmtree(FOLDER)
    optimus = {"OPTIMUS_HOME": str(FOLDER / "optimus")}
    optimus |= {f"AIRFLOW__OPTIMUS__{key}": value for key, value in LIVELY.items()}
    (FOLDER / "optimus").mkdir(parents=True)
    (FOLDER / "optimus" / "clusters.yaml").write_text(NODES, encoding="utf-8")
    airflow = Airflow(_folder("airflow"), _dags(), optimus)
    os.environ.update(optimus)
    try:
        return _run(console, airflow, optimus)
    except KeyboardInterrupt:
        console.print("interrupted: stopping the jobs and Airflow")
        return 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # what follows must not be cut short
        _stop_jobs(Settings.load())
        airflow.stop()


def _run(console: Console, airflow: Airflow, optimus: dict[str, str]) -> int:
    began = time.monotonic()
    console.print(f"starting Airflow on {airflow.url} (files and logs in {FOLDER.name}/)")
    airflow.start()
    console.print(f"Airflow is up after {time.monotonic() - began:.0f} s; running the DAG {DAG}")
    run = airflow.trigger(DAG)
    airflow.trigger("optimus_rebalance")
    engine = Engine(Settings.load())
    state = _watch(console, engine, airflow, run)
    ok = _summarise(console, engine, airflow, run, state)
    if os.environ.get("KEEP"):
        console.print(
            f"\nThe UI is at {airflow.url}, user {airflow.user}, password {airflow.password}. Ctrl-C ends it."
        )
        while True:
            signal.pause()
    return 0 if ok else 1


def _watch(console: Console, engine: Engine, airflow: Airflow, run: str) -> str:
    """Show the jobs until the run has ended; return its state."""
    end = time.monotonic() + _LONGEST
    with View(console) as view:
        while time.monotonic() < end:
            view.update(engine.jobs())
            state = airflow.state(DAG, run)
            if state in ("success", "failed"):
                view.update(engine.jobs())
                return state
            time.sleep(1)
    return "not finished in time"


def _summarise(console: Console, engine: Engine, airflow: Airflow, run: str, state: str) -> bool:
    """Print the summary and the checks; return whether all is right."""
    reports = engine.jobs()
    histories = {report.id: engine.history(report.id) for report in reports}
    for report in reports:
        print_job(console, report, histories[report.id])
    nodes = engine.ctx.cluster(engine.settings.cluster).nodes()
    violations, highest = most_asked_for(engine, nodes)
    lost = [line for report in reports for line in steps_lost(histories[report.id])]
    succeeded = bool(reports) and all(report.state == "succeeded" for report in reports)
    console.print("")
    if succeeded:
        _compare(console, engine, nodes)
    for node in nodes:
        console.print(
            f"{node.name} offers {node.allocatable.describe()}; at most {highest[node.name].describe()} asked for"
        )
    console.print(f"({os.cpu_count()} cores are really there: what a node offers here is accounting, not enforcement)")
    problems = [*violations, *lost]
    if state != "success":
        problems.append(f"the DAG run is {state}: {', '.join(airflow.failed_tasks(DAG, run))}")
    for problem in problems:
        console.print(f"PROBLEM: {problem}", markup=False)
    console.print("every job succeeded" if succeeded and not problems else "not everything is right")
    return succeeded and not problems


def _compare(console: Console, engine: Engine, nodes: list[NodeInfo]) -> None:
    """Print average completion time and makespan: measured, and in simulation with the speeds that were seen."""
    ours, size, fixed = simulated(engine, nodes)
    rows = [
        ("Optimus, measured", *measured(engine.jobs())),
        ("Optimus, simulated", ours.average_completion, ours.makespan),
        (f"fixed equal sizes, simulated ({size.workers} workers each)", fixed.average_completion, fixed.makespan),
    ]
    for what, average, makespan in rows:
        console.print(f"{what:46} average completion {duration(average):>11}, makespan {duration(makespan):>11}")
    console.print("(simulated: the same arrivals with the speeds that were seen; the fixed size is the best of 1 to 4)")


def _stop_jobs(settings: Settings) -> None:
    """Stop what still runs and wait until it is gone."""
    engine = Engine(settings)
    for report in engine.jobs(live=True):
        engine.request_stop(report.id, by="the quickstart's end")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with engine.store.transaction() as tx:
            live = [row.id for row in tx.jobs(states=LIVE)]
        if not live:
            return
        for job_id in live:
            engine.step(job_id)
        time.sleep(0.2)


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
