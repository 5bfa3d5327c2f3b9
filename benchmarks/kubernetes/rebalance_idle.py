"""A round with no new points, with 1,000 running jobs on 300 nodes that KWOK plays, beside one list of the same pods.

The jobs have loss points and speed samples; none is new in the rounds that are timed, so they change nothing. What is
compared with is the plain JSON of all pods, read page by page and decoded, with nothing made of it.

    PYTHONPATH=. .venv/bin/python benchmarks/kubernetes/rebalance_idle.py [--jobs 1000] [--nodes 300] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from _bed import cluster, engine, finish, until

from optimus_core.cluster.base import NodeInfo, ReplicaSpec
from optimus_core.cluster.kubernetes import KubernetesCluster, manifests
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.engine import submit
from optimus_core.engine.context import Context, clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.engine.identity import Identity
from optimus_core.engine.launch import replica_specs
from optimus_core.job import AllReduce, Loss, Replicas, TrainingJob
from optimus_core.pod_rules import Checkpoints
from optimus_core.store import GenerationRow, JobRow, SeriesRow, SpeedRow, Transaction
from optimus_core.telemetry import BoundedSeries, Point
from tests.cluster.testbed import PYTHON_IMAGE
from tests.cluster.testbed.fakes import TAINT

GOAL = 5.0
REPEATS = 5
POINTS, SAMPLES = 300, 20


class Unchecked(KubernetesCluster):
    """Takes jobs without trying their pods: that is no part of what is measured."""

    def nodes(self) -> list[NodeInfo]:
        """Return no nodes, which refuses no job."""
        return []

    def check(self, replicas: Sequence[ReplicaSpec]) -> None:
        """Refuse nothing."""


def submit_all(made: Engine, api: Api, namespace: str, jobs: int) -> None:
    """Store the jobs, and let one round give each a size."""
    taken = Unchecked("kube", api, [namespace], Checkpoints(url="none://"))
    ctx = Context(made.ctx.store, made.ctx.settings, clusters_from({"kube": taken}))
    size = Replicas(cpu="7", memory="16Gi", min=1, max=4, node_selector={"type": "kwok"})
    tolerations = [{"key": TAINT["key"], "operator": "Exists"}]
    for number in range(jobs):
        job = TrainingJob(
            name=f"idle-{number:04d}", command=["train"], image=PYTHON_IMAGE, strategy=AllReduce(), workers=size,
            stop=Loss(below=0.2 + 0.0001 * number), pod={"spec": {"tolerations": tolerations}},
        )  # fmt: skip
        submit.submit(ctx, job, Identity.of_name("bench", job.name), 1)
    made.round()


def start_all(made: Engine, api: Api, namespace: str) -> int:
    """Make the pods that the round wants, wait until KWOK says that all run, and write what their drivers would."""
    with made.store.transaction() as tx:
        wanted = [(row, generation) for row, generation in tx.holding("kube")]
        target = made.ctx.cluster("kube")
        specs = [spec for row, generation in wanted for spec in replica_specs(made.ctx, row, generation, target)]
    path = f"/api/v1/namespaces/{namespace}/pods"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda spec: api.create(path, manifests.pod(spec, spec.job, None)), specs))
    until(lambda: sum(r.phase == "running" for r in target.list()) == len(specs), 240, 2)
    with made.store.transaction() as tx:
        for row, generation in tx.holding("kube"):
            _run(tx, row, generation)
    return len(specs)


def _run(tx: Transaction, row: JobRow, generation: GenerationRow) -> None:
    """Write a start, loss points and speed samples: pods of KWOK say nothing themselves."""
    began = tx.now - timedelta(hours=1)
    generation.state, generation.starting_at, generation.running_at = "running", began, began
    generation.first_step, generation.first_step_at, generation.last_step = 1, began, POINTS
    row.started_at, row.step, row.step_at, row.stepped_at = began, POINTS, tx.now, tx.now
    rng = np.random.default_rng(row.id)
    losses = 1 / (0.05 * np.arange(1, POINTS + 1) + 1) + 0.1 + rng.normal(0, 0.005, POINTS)
    series = BoundedSeries(500)
    series.extend(
        Point(line, "loss", float(loss), line, None, began.timestamp() + line) for line, loss in enumerate(losses, 1)
    )
    tx.session.add(SeriesRow(job_id=row.id, name="loss", state=series.state(), points=POINTS))
    for sample in range(SAMPLES):
        tx.add_speed(
            SpeedRow(
                job_id=row.id, workload=row.workload, specification_hash=row.specification_hash,
                generation=generation.number, servers=0, workers=generation.workers, steps=100,
                seconds=float(100 / generation.workers ** 0.9 * rng.uniform(0.95, 1.05)),
                time=began + timedelta(minutes=sample),
            )
        )  # fmt: skip


def settle(made: Engine) -> None:
    """Plan with the new points, then drop what that wants: nothing is to change in what is timed."""
    timed("the round that fits all models anew", made.round)
    for _ in range(5):
        report = made.round()
        if report is not None and not report.changes:
            return
    raise RuntimeError("the plan does not come to rest")


def timed(what: str, call: Callable[[], Any]) -> float:
    """Return the seconds that a call takes, and print them."""
    began = time.perf_counter()
    call()
    seconds = time.perf_counter() - began
    print(f"{what}: {seconds:.2f} s", flush=True)
    return seconds


def idle_round(made: Engine) -> None:
    """Plan once; refuse to count a round that had something to do."""
    report = made.round()
    if report is None or report.changes or report.plans != 1:
        raise RuntimeError(f"the round was not idle: {report}")


def profiled(made: Engine) -> None:
    """Print where an idle round's time goes."""
    profile = cProfile.Profile()
    profile.runcall(idle_round, made)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(70)
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def main() -> int:
    """Run it; return 0 if the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--profile", action="store_true", help="also tell where the time of a round goes")
    args = parser.parse_args()
    with (
        cluster(fake_nodes=args.nodes) as (_, client, namespace),
        engine(client, namespace, pausing="never") as made,
    ):
        api = Api("kube", client)
        made.ctx.cluster("kube").checkpoints = Checkpoints(url="none://")  # type: ignore[attr-defined]
        timed(f"{args.jobs} jobs stored and planned", lambda: submit_all(made, api, namespace, args.jobs))
        print(f"{start_all(made, api, namespace)} pods run", flush=True)
        settle(made)
        lists, rounds = [], []
        for _ in range(REPEATS):
            lists.append(timed("one list of the pods", lambda: list(api.items(f"/api/v1/namespaces/{namespace}/pods"))))
            rounds.append(timed("a round with no new points", lambda: idle_round(made)))
        if args.profile:
            profiled(made)
        value = statistics.median(rounds) / statistics.median(lists)
        print(f"median: list {statistics.median(lists):.2f} s, round {statistics.median(rounds):.2f} s")
    return finish("rebalance_idle", value, GOAL)


if __name__ == "__main__":
    sys.exit(main())
