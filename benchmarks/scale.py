"""How long does a plan take for 4,000 jobs, 100,000 tasks and 16,000 nodes, and for ten times as much?

    python benchmarks/scale.py [--jobs 4000] [--largest 10]

A plan is sizes, nodes and reasons for all jobs, all of them new. Two baselines run on the same input in the same run:
the paper's greedy done plainly (a priority queue, one task at a time, sizes only), and the way of the paper's public
prototype, which tries the nodes one by one for each task; that one runs for a part of the tasks, and its time is
extrapolated to all.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
import time

import numpy as np

from optimus_core.scheduling.policies import policy
from optimus_core.scheduling.types import JobView, Node, Plan, Remaining, Snapshot

GOALS = {"plain_queue": 1.0, "prototype": 50.0, "ten_times": 12.0}
TASKS_A_JOB = 25
PROTOTYPE_TASKS = 300
GIB = 2**30


def snapshot(jobs: int) -> Snapshot:
    """Return a cluster with four nodes a job and jobs that together want more than it has."""
    rng = np.random.default_rng(0)
    nodes = [
        Node(name=f"n{number:06}", allocatable={"cpu": 25_000, "memory": 50 * GIB, "nvidia.com/gpu": number % 2 * 4})
        for number in range(4 * jobs)
    ]
    return Snapshot(time=0.0, nodes=nodes, jobs=[_job(rng, number) for number in range(jobs)])


def _job(rng: np.random.Generator, number: int) -> JobView:
    terms = [*rng.uniform([0.1, 0.01, 0.01, 0.001], [5.0, 0.5, 0.2, 0.02]), 0.001]
    return JobView(
        name=f"j{number:06}",
        state="queued",
        arrived=float(number),
        strategy="ps_sync",
        worker_demand={"cpu": 4000, "memory": 8 * GIB, "nvidia.com/gpu": int(rng.integers(0, 2))},
        server_demand={"cpu": 2000, "memory": 4 * GIB},
        max_workers=16,
        min_servers=1,
        max_servers=9,
        remaining=Remaining(value=float(rng.lognormal(8, 2)), source="declared"),
        speed={
            "kind": "ps_sync",
            "batch_per": "job",
            "batch_size": 1,
            "coefficients": terms,
            "sigma": 0.05,
            "is_default": False,
            "precision": [],
        },
    )


def timed_plan(given: Snapshot) -> tuple[float, Plan]:
    """Return how long a plan takes, and it."""
    begun = time.perf_counter()
    made = policy("optimus")(given)
    return time.perf_counter() - begun, made


def plain_queue(given: Snapshot, tasks: int) -> float:
    """Return seconds of the paper's greedy for ``tasks`` tasks: one task a turn, speeds asked one at a time."""
    begun = time.perf_counter()
    sizes = {job.name: (1, 1) for job in given.jobs}
    terms = {job.name: job.speed["coefficients"] for job in given.jobs}
    work = {job.name: job.remaining.value or 0.0 for job in given.jobs}
    capacity: dict[str, int] = {}
    for node in given.nodes:
        for resource, amount in node.allocatable.items():
            capacity[resource] = capacity.get(resource, 0) + amount

    def seconds(name: str, servers: int, workers: int) -> float:
        t = terms[name]
        return work[name] * (t[0] / workers + t[1] + t[2] * workers / servers + t[3] * workers + t[4] * servers)

    def best(job: JobView) -> tuple[float, str, tuple[int, int]]:
        servers, workers = sizes[job.name]
        now, found = seconds(job.name, servers, workers), []
        for more, demand in (((servers, workers + 1), job.worker_demand), ((servers + 1, workers), job.server_demand)):
            share = max(amount / capacity[resource] for resource, amount in demand.items())
            found.append((-(now - seconds(job.name, *more)) / share, job.name, more))
        return min(found)

    jobs = {job.name: job for job in given.jobs}
    heap = [best(job) for job in given.jobs]
    heapq.heapify(heap)
    for _ in range(tasks - 2 * len(jobs)):
        gain, name, size = heapq.heappop(heap)
        if gain >= 0:
            break
        sizes[name] = size
        heapq.heappush(heap, best(jobs[name]))
    return time.perf_counter() - begun


def prototype(given: Snapshot, tasks: int) -> float:
    """Return seconds for ``tasks`` tasks of trying one node after another for each, extrapolated from a part."""
    free = [dict(node.allocatable) for node in given.nodes]
    for room in free[: len(free) // 2]:
        room["cpu"] = 0  # half-way through the placement, half of the nodes are full
    part = min(PROTOTYPE_TASKS, tasks)
    begun = time.perf_counter()
    for number in range(part):
        demand = given.jobs[number % len(given.jobs)].worker_demand
        for room in free:
            if all(room[resource] >= amount for resource, amount in demand.items()):
                for resource, amount in demand.items():
                    room[resource] -= amount
                break
    return (time.perf_counter() - begun) * tasks / part


def main() -> None:
    """Print the figures and the result."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--jobs", type=int, default=4000)
    arguments.add_argument("--largest", type=int, default=10, help="how many times as much the second plan is")
    given = arguments.parse_args()
    small = snapshot(given.jobs)
    ours, made = timed_plan(small)
    tasks = sum(decision.size.servers + decision.size.workers for decision in made.decisions)
    print(f"{given.jobs:,} jobs, {tasks:,} tasks, {len(small.nodes):,} nodes: {ours:.2f} s, reasons included")
    queue, tried = plain_queue(small, tasks), prototype(small, tasks)
    print(f"the paper's greedy, one task at a time (sizes only): {queue:.2f} s")
    print(f"nodes tried one by one: {tried:.1f} s, extrapolated from {PROTOTYPE_TASKS} tasks")
    large, _ = timed_plan(snapshot(given.jobs * given.largest))
    print(f"{given.largest} times as much: {large:.2f} s")
    values = {"plain_queue": ours / queue, "prototype": tried / ours, "ten_times": large / ours}
    print(f"ours to the plain queue: {values['plain_queue']:.2f} (goal: at most 1)")
    print(f"nodes one by one to ours: {values['prototype']:.1f} (goal: at least 50)")
    print(f"{given.largest} times the work: {values['ten_times']:.1f} times the time (goal: at most 12)")
    met = values["plain_queue"] <= 1 and values["prototype"] >= 50 and values["ten_times"] <= 12
    rounded = {name: round(value, 2) for name, value in values.items()}
    print(json.dumps({"benchmark": "scale", "value": rounded, "goal": GOALS, "met": met}))
    sys.exit(not met)


if __name__ == "__main__":
    main()
