"""How well are speeds predicted from few chosen samples, compared with the plain model fitted to all samples?

    python benchmarks/speed.py [--jobs 40] [--data DIR]

Parameter servers: synthetic jobs of eight kinds whose shares of a step vary as those of real models do, computation
and communication overlapping more or less; 100 sizes, 3 to 11 % of noise and misfit. Five sizes chosen by next_sizes
are sampled; the baseline is the paper's synchronous formula fitted to all 100 samples by non-negative least squares
weighted by 1/time. Errors are mean relative ones over all samples.

All-reduce (with --data): measured step times on up to 64 T4 by placement and batch size, the folder pollux-t4 of
petuum/adaptdl (branch osdi21-artifact, Apache-2.0): APP/placements.csv and APP/scalability.csv. Eight placements are
fitted for each application and batch size, chosen by how much they tell, and all others predicted.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from rich.progress import track
from scipy.optimize import nnls

from optimus_core.models import SpeedKind, SpeedModel, next_sizes

SIZES = [(p, w) for p in range(1, 11) for w in range(1, 11)]
GOAL, GOAL_T4 = 1.0, 0.06
SAMPLES, SAMPLES_T4, BATCH = 5, 8, 64
SHARES = {
    "resnet-50": (0.80, 0.06, 0.10, 0.010, 0.006),
    "vgg-16": (0.50, 0.08, 0.35, 0.020, 0.010),
    "resnext-110": (0.85, 0.08, 0.04, 0.010, 0.005),
    "inception-bn": (0.88, 0.05, 0.05, 0.008, 0.004),
    "seq2seq": (0.60, 0.15, 0.20, 0.020, 0.010),
    "cnn-text": (0.40, 0.40, 0.10, 0.020, 0.010),
    "dssm": (0.65, 0.20, 0.10, 0.015, 0.010),
    "wlm": (0.45, 0.20, 0.25, 0.030, 0.015),
}
"""Parts of a step's time at one worker and one server: computation, constant, w/p, w, p."""


def job(shares: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """Return measured seconds a step at ``SIZES`` of a job with about these shares."""
    p, w = np.array(SIZES, dtype=float).T
    part = np.array(shares) * np.exp(0.3 * rng.standard_normal(5))
    overlap, noise = rng.uniform(1.0, 2.0), rng.uniform(0.03, 0.08)
    compute, wire = part[0] / w + part[1], part[2] * w / p + part[3] * w + part[4] * p
    seconds = (compute**overlap + wire**overlap) ** (1 / overlap)
    return np.asarray(seconds * np.exp(noise * rng.standard_normal(len(SIZES))))


def plain_error(seconds: np.ndarray) -> float:
    """Return the error of the paper's formula fitted to all samples."""
    p, w = np.array(SIZES, dtype=float).T
    rows = np.stack([1 / w, np.ones_like(w), w / p, w, p], axis=1)
    solved, _ = nnls(rows / seconds[:, None], np.ones(len(seconds)))
    return float(np.mean(np.abs(rows @ solved / seconds - 1)))


def our_error(seconds: np.ndarray) -> float:
    """Return our error from a few samples, the later ones chosen with what the earlier ones told."""
    model = SpeedModel.default(SpeedKind.PS_SYNC, batch_size=BATCH)
    chosen: list[tuple[int, int]] = []
    while len(chosen) < SAMPLES:
        chosen += next_sizes(model, SIZES, 3 if not chosen else 1, chosen)
        at = [SIZES.index(size) for size in chosen]
        model = SpeedModel(SpeedKind.PS_SYNC, batch_size=BATCH).fit(*np.array(chosen).T, 1 / seconds[at])
    return float(np.mean(np.abs(1 / model.predict(*np.array(SIZES).T) / seconds - 1)))


def synthetic(jobs: int) -> float:
    """Print the errors by kind of job and return the ratio of the means."""
    ours, plain = {}, {}
    for number, (name, shares) in enumerate(track(SHARES.items())):
        seen = [job(shares, np.random.default_rng([number, seed])) for seed in range(jobs)]
        ours[name] = float(np.mean([our_error(seconds) for seconds in seen]))
        plain[name] = float(np.mean([plain_error(seconds) for seconds in seen]))
    for name in SHARES:
        print(f"{name:14}{SAMPLES} samples {100 * ours[name]:5.1f} %   plain, all samples {100 * plain[name]:5.1f} %")
    return float(np.mean(list(ours.values())) / np.mean(list(plain.values())))


def load(folder: Path, application: str) -> dict[int, np.ndarray]:
    """Return rows (nodes, replicas, seconds) by batch size."""
    found = defaultdict(list)
    with (folder / application / "placements.csv").open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            place = row["placement"]
            found[int(row["local_bsz"])].append((len(place), sum(map(int, place)), float(row["step_time"])))
    with (folder / application / "scalability.csv").open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            found[int(row["local_bsz"])].append(
                (int(row["num_nodes"]), int(row["num_replicas"]), float(row["step_time"]))
            )
    return {batch: np.array(points) for batch, points in found.items()}


def telling(points: np.ndarray, count: int) -> list[int]:
    """Return the rows to sample: alone, one node full, then across nodes by even steps of the logarithm of replicas."""
    nodes, replicas = points[:, 0], points[:, 1]
    single = np.flatnonzero(nodes == 1)
    many = np.flatnonzero(nodes > 1)
    chosen = [int(single[np.argmin(replicas[single])]), int(single[np.argmax(replicas[single])])] if single.size else []
    wanted = np.geomspace(replicas[many].min(), replicas[many].max(), count - len(chosen))
    for size in wanted:
        rest = np.setdiff1d(many, chosen)
        away = np.abs(np.log(replicas[rest] / size))
        nearest = rest[away < away.min() + 1e-9]
        chosen.append(int(nearest[nearest.size // 2]))
    return chosen


def t4_error(points: np.ndarray) -> float:
    """Return the error over all placements that were not sampled."""
    chosen = telling(points, SAMPLES_T4)
    nodes, replicas, seconds = points.T
    none = np.zeros_like(replicas)
    model = SpeedModel(SpeedKind.ALL_REDUCE, batch_per="worker")
    model.fit(none[chosen], replicas[chosen], 1 / seconds[chosen], nodes=nodes[chosen])
    rest = np.setdiff1d(np.arange(len(points)), chosen)
    return float(np.mean(np.abs(1 / model.predict(none[rest], replicas[rest], nodes[rest]) / seconds[rest] - 1)))


def measured(folder: Path) -> float:
    """Print the errors by application and return their mean."""
    errors = {}
    for application in sorted(path.name for path in folder.iterdir() if path.is_dir()):
        by_batch = [t4_error(points) for points in load(folder, application).values() if len(points) > 2 * SAMPLES_T4]
        errors[application] = float(np.mean(by_batch))
        print(f"{application:14}{SAMPLES_T4} samples {100 * errors[application]:5.1f} % ({len(by_batch)} batch sizes)")
    return float(np.mean(list(errors.values())))


def main() -> int:
    """Print the figures and the result."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=40)
    arguments.add_argument("--data", type=Path, help="the folder pollux-t4")
    given = arguments.parse_args()
    ratio = synthetic(given.jobs)
    print(f"error of {SAMPLES} samples over that of the plain model with all: {ratio:.2f} (goal: {GOAL})")
    result = {"benchmark": "speed", "value": round(ratio, 3), "goal": GOAL}
    met = ratio <= GOAL
    if given.data is not None:
        error = measured(given.data)
        print(f"mean error on T4: {100 * error:.1f} % (goal: under {100 * GOAL_T4:.0f} %)")
        result |= {"t4_error": round(error, 4), "t4_goal": GOAL_T4}
        met = met and error < GOAL_T4
    print(json.dumps({**result, "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
