"""How far from the best possible are allocations over several resources?

    python benchmarks/allocation.py [--problems 10] [--jobs 100]

Random problems of three resources; the baseline is the bound of a mixed-integer solver (scipy.optimize.milp, HiGHS, up
to 10 seconds each) on the same worths: no allocation is worth more.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from optimus_core.scheduling.allocate import Allocation, allocate
from optimus_core.scheduling.request import NOTHING, Request

GOAL = 0.01
CAPACITY = {"cpu": 2000.0, "memory": 5000.0, "gpu": 200.0}


def problem(seed: int, jobs: int) -> list[Request]:
    """Return jobs with 1 to 6 servers and 1 to 10 workers; together they want more than there is."""
    rng = np.random.default_rng(seed)
    return [_request(rng, number) for number in range(jobs)]


def _request(rng: np.random.Generator, number: int) -> Request:
    t = rng.uniform([0.1, 0.01, 0.01, 0.001], [5.0, 0.5, 0.2, 0.02])
    return Request.from_speed(
        f"j{number:04}",
        lambda p, w: 1 / (t[0] / w + t[1] + t[2] * w / p + t[3] * w),
        servers=(1, 6),
        workers=(1, 10),
        server_demand={"cpu": 2, "memory": float(rng.integers(4, 17))},
        worker_demand={"cpu": 4, "memory": float(rng.integers(4, 33)), "gpu": float(rng.integers(0, 2))},
        remaining=float(rng.lognormal(8, 2)),
    )


def solver_bound(requests: list[Request], found: Allocation) -> float:
    """Return the least upper bound that the solver proves on the sum of worths."""
    worth, job, demand = [], [], []
    for index, request in enumerate(requests):
        rows = {size: row for row, size in enumerate(request.sizes)}
        for size, value in found.worths[request.name].items():
            worth.append(value)
            job.append(index)
            demand.append(
                [0.0 if size == NOTHING else float(np.asarray(request.demand[r])[rows[size]]) if r in request.demand
                 else 0.0 for r in CAPACITY]
            )  # fmt: skip
    columns = np.arange(len(worth))
    solved = milp(
        -np.array(worth),
        integrality=np.ones(len(worth), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(csr_array((np.ones(len(worth)), (job, columns))), 1, 1),
            LinearConstraint(np.array(demand).T, -np.inf, list(CAPACITY.values())),
        ],
        options={"time_limit": 10.0, "mip_rel_gap": 1e-4},
    )
    return -float(solved.mip_dual_bound)


def main() -> None:
    """Print the figures and the result."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--problems", type=int, default=10)
    arguments.add_argument("--jobs", type=int, default=100)
    given = arguments.parse_args()
    gaps, seconds = [], 0.0
    for seed in range(given.problems):
        requests = problem(seed, given.jobs)
        begun = time.perf_counter()
        found = allocate(requests, CAPACITY, exact=0)
        seconds += time.perf_counter() - begun
        gaps.append(1 - found.worth / solver_bound(requests, found))
        print(f"problem {seed}: {100 * gaps[-1]:.3f} % below the solver's bound")
    value = float(np.mean(gaps))
    print(f"{given.problems} problems of {given.jobs} jobs: {1e3 * seconds / given.problems:.0f} ms each")
    print(f"mean distance to the bound: {100 * value:.3f} % (goal: at most {100 * GOAL:.0f} %)")
    print(json.dumps({"benchmark": "allocation", "value": round(value, 5), "goal": GOAL, "met": value <= GOAL}))
    sys.exit(value > GOAL)


if __name__ == "__main__":
    main()
