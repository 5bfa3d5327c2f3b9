"""How long does the refit of 1,000 jobs take, compared with a general curve fitter on the same points?

    python benchmarks/refit.py [--jobs 1000]

Each job has 1,000 losses and 20 speed samples. The baseline is scipy.optimize.curve_fit of the same curve to the same
losses, on a sample of the jobs, in the same run; it gives no interval of the floor and needs a first guess.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
from scipy.optimize import curve_fit

from optimus_core.models import ConvergenceModel, SpeedKind, SpeedModel

GOAL = 2.0
POINTS, SAMPLES, BASELINE_JOBS = 1000, 20, 50


def losses(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 1,000 noisy points of a random curve."""
    rng = np.random.default_rng(seed)
    steps = np.arange(1, POINTS + 1, dtype=float)
    b0, b1, b2 = rng.uniform(0.001, 0.05), rng.uniform(0.2, 1.0), rng.uniform(0.0, 0.5)
    return steps, (1 / (b0 * steps + b1) + b2) * (1 + 0.03 * rng.standard_normal(POINTS))


def speeds(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return 20 noisy speeds of a random synchronous job."""
    rng = np.random.default_rng(seed)
    servers, workers = rng.integers(1, 9, SAMPLES), rng.integers(1, 9, SAMPLES)
    seconds = 0.01 * 64 / workers + 0.05 + 0.02 * workers / servers + 0.002 * (workers + servers)
    return servers, workers, (1 + 0.05 * rng.standard_normal(SAMPLES)) / seconds


def time_ours(jobs: int) -> tuple[float, float]:
    """Return seconds for all convergence refits and for all speed refits."""
    curves, samples = [losses(seed) for seed in range(jobs)], [speeds(seed) for seed in range(jobs)]
    start = time.perf_counter()
    for steps, values in curves:
        ConvergenceModel().fit(steps, values)
    middle = time.perf_counter()
    for servers, workers, seen in samples:
        SpeedModel(SpeedKind.PS_SYNC, batch_size=64).fit(servers, workers, seen)
    return middle - start, time.perf_counter() - middle


def time_baseline(jobs: int) -> float:
    """Return seconds for ``jobs`` fits by curve_fit."""
    curves = [losses(seed) for seed in range(jobs)]
    start = time.perf_counter()
    for steps, values in curves:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            curve_fit(
                lambda k, b0, b1, b2: 1 / (b0 * k + b1) + b2,
                steps,
                values,
                p0=(0.01, 1 / values[0], values.min()),
                bounds=([1e-9, 1e-9, 0], np.inf),
            )
    return time.perf_counter() - start


def main() -> None:
    """Print the figures and the result."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=1000)
    jobs = arguments.parse_args().jobs
    curve, speed = time_ours(jobs)
    baseline = time_baseline(min(jobs, BASELINE_JOBS)) / min(jobs, BASELINE_JOBS)
    print(f"refit of {jobs} jobs: {curve:.2f} s for the curves and {speed:.2f} s for the speeds")
    print(f"a curve: {1e3 * curve / jobs:.2f} ms, scipy.optimize.curve_fit: {1e3 * baseline:.2f} ms")
    ratio = baseline / (curve / jobs)
    print(f"ratio: {ratio:.1f} (goal: {GOAL})")
    print(json.dumps({"benchmark": "refit", "value": round(ratio, 2), "goal": GOAL, "met": ratio >= GOAL}))


if __name__ == "__main__":
    main()
