"""How long until a person sees the cluster or a job, with 1,000 jobs and a million points, against Airflow's DAG list?

    python benchmarks/page.py [--jobs 1000] [--points 1000] [--rounds 7]

A real Airflow with 100 DAGs serves all three pages to one Chromium, in turns; a time ends when what the page is for is
there: the first DAG, a job of the cluster, the curve of a job. Medians are compared; the answers of the API behind the
page are bounded, too. It needs node and Chromium: make browser.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import insert

from optimus_core.engine.engine import Engine
from optimus_core.engine.identity import Identity
from optimus_core.job import AllReduce, Replicas, TrainingJob
from optimus_core.models import ConvergenceModel
from optimus_core.settings import Settings
from optimus_core.store import EventRow, GenerationRow, JobRow, OutputRow, SeriesRow, migrate
from optimus_core.store.database import open_database
from optimus_core.telemetry import BoundedSeries, Point
from tests.e2e.real_airflow import RealAirflow

GOAL = 1.5
MOST_BYTES = 2_000_000
DAGS, EVENTS = 100, 20
PAINT = Path(__file__).parents[1] / "tests" / "page" / "paint.mjs"
DAG_FILE = f"""
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator
for number in range({DAGS}):
    with DAG(f"dag_{{number:03}}", schedule=None):
        EmptyOperator(task_id="train")
"""


def fill(home: Path, jobs: int, points: int) -> str:
    """Make a store with running jobs, each with sizes, a history, an output and a curve; return one job's name."""
    settings = Settings(home=home, database_url=f"sqlite:///{home / 'optimus.db'}")
    migrate.upgrade(open_database(settings.database_url))
    engine = Engine(settings)
    asked = TrainingJob(
        name="train", command=["true"], strategy=AllReduce(), workers=Replicas(cpu="10m", memory="1Mi", max=4)
    )
    first = engine.submit(asked, _identity(0)).job_id
    steps = range(1, points + 1)
    series = BoundedSeries()
    series.extend(Point(step, "loss", 1 / step, step, None, None) for step in steps)
    curve = ConvergenceModel().fit(steps, [1 / step for step in steps]).to_dict()
    known = {"curve": curve, "predicted_seconds": 3600.0, "remaining": {"value": 1e4, "low": 9e3, "high": 2e4}}
    with engine.store.transaction() as tx:
        row = tx.job(first)
        like = {column.key: getattr(row, column.key) for column in JobRow.__table__.columns}
        like |= {"state": "running", "estimate": known}
        tx.session.execute(insert(JobRow), [_job(like, number) for number in range(1, jobs)])
        ids = [each.id for each in tx.jobs() if each.id != first]
        for table, make in ((GenerationRow, _sizes), (EventRow, _events), (OutputRow, _output)):
            tx.session.execute(insert(table), [each for job_id in ids for each in make(job_id, tx.now)])
        state = series.state()
        tx.session.execute(
            insert(SeriesRow), [{"job_id": each, "name": "loss", "state": state, "points": points} for each in ids]
        )
        return str(tx.jobs()[-1].name)


def _identity(number: int) -> Identity:
    return Identity.of_task("default", f"dag_{number % DAGS:03}", f"run_{number}", "train")


def _job(like: dict[str, Any], number: int) -> dict[str, Any]:
    who = _identity(number)
    named = {"key": who.key, "name": who.label, "title": who.title, "dag_id": who.dag_id, "run_id": who.run_id}
    return like | named | {"id": like["id"] + number, "workload": who.workload, "step": 1000, "loss": 0.001}


def _sizes(job_id: int, now: Any) -> list[dict[str, Any]]:
    why = {"code": "grown", "numbers": {"present": "1 worker", "size": "2 workers", "saved_seconds": 60.0}}
    times = {"wanted_at": now, "starting_at": now, "running_at": now}
    return [
        {"job_id": job_id, "number": number, "attempt": 1, "servers": 0, "workers": number, "placement": {}}
        | {"state": state, "reason": why, "gone_at": now if state == "gone" else None}
        | times
        for number, state in ((1, "gone"), (2, "running"))
    ]


def _events(job_id: int, now: Any) -> list[dict[str, Any]]:
    one = {"job_id": job_id, "time": now, "attempt": 1, "generation": 1, "kind": "resized"}
    return [one | {"cause": {"code": "grown", "numbers": {"size": f"{n} workers"}}} for n in range(EVENTS)]


def _output(job_id: int, now: Any) -> list[dict[str, Any]]:
    tail = "".join(f"step={step} loss={1 / step:.5f}\n" for step in range(1, 200))
    return [{"job_id": job_id, "replica": "worker-0", "uid": "u", "generation": 2, "tail": tail}]


def measure(airflow: RealAirflow, token: str, job: str, rounds: int) -> dict[str, list[int]]:
    """Return milliseconds of each page in each round; the first finds an empty cache."""
    pages = {
        "dags": {"url": f"{airflow.url}/dags", "shows": ["table, main, #root", "dag_000"]},
        "cluster": {"url": f"{airflow.url}/plugin/optimus", "shows": ["#optimus", f"{_identity(DAGS - 1).title}"]},
        "job": {"url": f"{airflow.url}/plugin/optimus?job={job}", "shows": ["#optimus:has(svg path)", "loss"]},
    }
    asked = json.dumps({"token": token, "rounds": rounds, "pages": pages})
    chromium = shutil.which("chromium") or sys.exit("Chromium is missing: make browser")
    done = subprocess.run(
        ["node", str(PAINT), asked], env=os.environ | {"CHROMIUM": chromium}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"the browser failed: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


def sizes(airflow: RealAirflow, token: str, job: str) -> dict[str, int]:
    """Return the bytes of the largest answers that the page can ask for."""
    paths = ("jobs?limit=200", f"jobs/{job}?points=2000&events=1000", "clusters/local")
    bearer = {"Authorization": f"Bearer {token}"}
    found = {}
    for path in paths:
        answer = httpx.get(f"{airflow.url}/optimus/api/{path}", headers=bearer, timeout=120)
        found[path.split("?")[0].replace(job, "{name}")] = len(answer.raise_for_status().content)
    return found


def main() -> int:
    """Print the figures and the result."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=1000)
    arguments.add_argument("--points", type=int, default=1000)
    arguments.add_argument("--rounds", type=int, default=7)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="optimus-page-") as folder:
        airflow = RealAirflow(Path(folder))
        (airflow.dags / "many.py").write_text(DAG_FILE)
        print(f"filling a store with {given.jobs} jobs of {given.points} points", flush=True)
        airflow.run("db", "migrate")
        (Path(folder) / "optimus").mkdir(exist_ok=True)
        job = fill(Path(folder) / "optimus", given.jobs, given.points)
        airflow.run("dags", "reserialize")
        try:
            airflow.start_parts("api-server")
            token = httpx.get(f"{airflow.url}/auth/token", timeout=60).json()["access_token"]
            bytes_ = sizes(airflow, token, job)
            times = measure(airflow, token, job, given.rounds)
        finally:
            airflow.stop()
    warm = {name: statistics.median(all_[1:] or all_) for name, all_ in times.items()}
    for name, all_ in times.items():
        share = warm[name] / warm["dags"]
        print(f"{name}: {warm[name]:.0f} ms, {share:.2f} of the DAG list; {all_[0]} ms with an empty cache")
    for path, size in bytes_.items():
        print(f"{path}: {size:,} bytes (at most {MOST_BYTES:,})")
    value = max(warm["cluster"], warm["job"]) / warm["dags"]
    met = value < GOAL and max(bytes_.values()) <= MOST_BYTES
    print(json.dumps({"benchmark": "page", "value": round(value, 2), "goal": GOAL, "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
