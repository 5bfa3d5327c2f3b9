"""How long do jobs take on average with our rule, compared with the rule of the Optimus paper, on Pollux's workloads?

    python benchmarks/pollux_traces.py [--data DIR] [--policies optimus,paper] [--workloads 1,2,3]

Jobs arrive at 16 nodes of 4 GPUs; a policy decides on each arrival and end. Remaining work and the speed at each size
(on the fewest nodes) are known; jobs run at the speed of the placement that they get. A change of size costs a job
30 seconds. Batch sizes stay as they are given.

With --data, traces and speeds are those of the public simulator of Pollux (Qiao et al., OSDI 2021;
petuum/adaptdl, branch osdi21-artifact, Apache-2.0): DIR/traces/pollux/workload-N.csv with the columns time,
application, num_replicas, batch_size, and DIR/speeds/pollux-t4/APP/{placements,scalability,validation-BSZ}.csv.
Without, workloads are generated: as many jobs of similar kinds, with speeds of a formula.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from rich.progress import track

from optimus_core.scheduling.pausing import seconds_left
from optimus_core.scheduling.plan import apply_plan
from optimus_core.scheduling.policies import policy
from optimus_core.scheduling.types import NOTHING, JobView, Node, PlanSettings, Remaining, Snapshot

GOAL = 0.55
NODES, GPUS, MOST = 16, 4, 64
RESTART = 30.0
GPU = "nvidia.com/gpu"

StepTime = Callable[[tuple[int, ...]], float]
"""GPUs on each node, in any order -> seconds a step; infinite where the job can't run so."""


@dataclass(frozen=True)
class Job:
    """A job of a workload."""

    name: str
    arrived: float
    steps: float
    step_time: StepTime


def packed(gpus: int) -> tuple[int, ...]:
    """Return ``gpus`` on the fewest nodes."""
    return (*[GPUS] * (gpus // GPUS), *([gpus % GPUS] if gpus % GPUS else []))


class Speeds:
    """Measured seconds a step of one application, interpolated over the batch of each GPU."""

    def __init__(self, folder: Path) -> None:
        self._placed: dict[tuple[int, ...], list[tuple[float, float, float]]] = {}
        self._scaled: dict[tuple[int, int], list[tuple[float, float, float]]] = {}
        for row in _rows(folder / "placements.csv"):
            self._placed.setdefault(tuple(sorted(map(int, row["placement"]))), []).append(_sample(row))
        for row in _rows(folder / "scalability.csv"):
            self._scaled.setdefault((int(row["num_nodes"]), int(row["num_replicas"])), []).append(_sample(row))

    def step_time(self, batch: int, placement: tuple[int, ...]) -> float:
        """Return seconds a step of ``batch``; what does not fit in a GPU's memory is accumulated in several passes."""
        samples = self._samples(placement)
        each = batch / sum(placement)
        sizes, times, syncs = (np.array(column) for column in zip(*sorted(samples), strict=True))
        if each < sizes[0]:
            return math.inf
        passes = math.ceil(each / sizes[-1])
        step, sync = np.interp(each / passes, sizes, times), np.interp(each / passes, sizes, syncs)
        return float(passes * (step - sync) + sync)

    def _samples(self, placement: tuple[int, ...]) -> list[tuple[float, float, float]]:
        known = self._placed.get(tuple(sorted(placement)))
        if known is not None:
            return known
        nodes, gpus = len(placement), sum(placement)
        return self._scaled[min(self._scaled, key=lambda key: (abs(key[1] - gpus) + abs(key[0] - nodes), key))]


def _sample(row: dict[str, str]) -> tuple[float, float, float]:
    return float(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"])


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        yield from csv.DictReader(lines)


def measured(data: Path, number: int) -> list[Job]:
    """Return the jobs of a workload as Pollux's simulator has them; each runs through its whole validation record."""
    speeds: dict[str, Speeds] = {}
    jobs = []
    for row in _rows(data / "traces" / "pollux" / f"workload-{number}.csv"):
        folder, batch = data / "speeds" / "pollux-t4" / row["application"], int(row["batch_size"])
        known = speeds.setdefault(row["application"], Speeds(folder))
        steps = [float(each["iteration"]) for each in _rows(folder / f"validation-{batch}.csv")][-1]
        jobs.append(Job(row["name"], float(row["time"]), steps, _of_batch(known, batch)))
    return jobs


def _of_batch(speeds: Speeds, batch: int) -> StepTime:
    return cache(lambda placement: speeds.step_time(batch, placement))


KINDS = {  # share of the jobs, hours on one GPU, parts of a step: computing, constant, each further GPU, crossing nodes
    "image": (0.38, 1.2, 0.95, 0.03, 0.002, 0.02),
    "recommender": (0.40, 0.01, 0.50, 0.50, 0.020, 0.70),
    "speech": (0.09, 6.4, 0.96, 0.02, 0.001, 0.03),
    "text": (0.06, 3.9, 0.96, 0.03, 0.0005, 0.02),
    "detection": (0.05, 9.2, 0.95, 0.05, 0.004, 0.20),
    "large": (0.02, 190.0, 0.99, 0.006, 0.0002, 0.005),
}


def generated(seed: int) -> list[Job]:
    """Return 160 jobs that arrive within 8 hours, most of them small and a few very large."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(list(KINDS), size=160, p=[kind[0] for kind in KINDS.values()])
    arrivals = np.sort(rng.uniform(0, 8 * 3600, size=160))
    jobs = []
    for number, (kind, arrived) in enumerate(zip(kinds, arrivals, strict=True)):
        _, hours, *parts = KINDS[str(kind)]
        steps = 3600 * hours * float(rng.lognormal(0, 0.3)) / 0.5
        jobs.append(Job(f"{kind}-{number}", float(arrived), steps, _by_formula(*parts)))
    return jobs


def _by_formula(computing: float, constant: float, further: float, crossing: float) -> StepTime:
    def step_time(placement: tuple[int, ...]) -> float:
        gpus = sum(placement)
        return 0.5 * (computing / gpus + constant + further * (gpus - 1) + crossing * (len(placement) > 1))

    return step_time


@dataclass
class Result:
    """What a policy made of a workload; times in seconds."""

    completions: list[float] = field(default_factory=list)
    makespan: float = 0.0
    restarts: int = 0
    longest_pause: float = 0.0


def replay(jobs: list[Job], name: str, pausing: str, max_paused: float) -> Result:
    """Run the workload with the policy ``name``; jobs are paused for at most ``max_paused`` seconds each time."""
    decide, settings = policy(name), PlanSettings.model_validate({"pausing": pausing, "max_paused": max_paused})
    nodes = [Node(name=f"n{number:02}", allocatable={GPU: GPUS}) for number in range(NODES)]
    truth = {job.name: job for job in jobs}
    waiting = sorted(jobs, key=lambda job: (job.arrived, job.name))
    live: dict[str, JobView] = {}
    left, resumes = {job.name: job.steps for job in jobs}, dict.fromkeys(truth, 0.0)
    held = dict.fromkeys(truth, 0.0)
    result, now = Result(), 0.0
    while waiting or live:
        while waiting and waiting[0].arrived <= now:
            arrived = waiting.pop(0)
            live[arrived.name] = _view(arrived)
        if live:
            views = [view.model_copy(update={"remaining": _known(left[view.name])}) for view in live.values()]
            snapshot = Snapshot(time=now, settings=settings, nodes=nodes, jobs=views)
            after = apply_plan(snapshot, decide(snapshot, lambda view: _rate(truth[view.name])))
            for view in after.jobs:
                if view.placement != live[view.name].placement and view.size != NOTHING:
                    resumes[view.name] = now + RESTART
                    result.restarts += 1
                live[view.name] = view
        speeds = {name: _speed(truth[name], view) for name, view in live.items()}
        ends = {n: max(now, resumes[n]) + max(0.0, left[n]) / s if s > 0 else math.inf for n, s in speeds.items()}
        then = min([*ends.values(), *[job.arrived for job in waiting[:1]], *_due(live.values(), settings, now)])
        if math.isinf(then):
            raise RuntimeError(f"{name}: nothing of {sorted(live)} ever ends")
        result.longest_pause = max(result.longest_pause, *(_count(live, held, then - now)), 0.0)
        for each, speed in speeds.items():
            left[each] -= speed * max(0.0, then - max(now, resumes[each]))
            if ends[each] <= then:
                del live[each]
                result.completions.append(then - truth[each].arrived)
        now = then
    result.makespan = now - min(job.arrived for job in jobs)
    return result


def _due(live: Iterable[JobView], settings: PlanSettings, now: float) -> Iterator[float]:
    """Yield when a paused job must have its minimum again: the engine plans then, too."""
    for view in live:
        left = seconds_left(settings, view)
        if view.state == "paused" and left > 0:
            yield now + left + 1e-3


def _count(live: dict[str, JobView], held: dict[str, float], span: float) -> Iterator[float]:
    """Count ``span`` seconds as paused or held, as the engine does; yield the pauses."""
    for name, view in live.items():
        paused, held[name] = (
            (view.paused_seconds + span, 0.0)
            if view.state == "paused"
            else (view.paused_seconds, held[name] + span if view.size else 0.0)
        )
        if view.size and held[name] >= paused:
            paused = 0.0
        live[name] = view.model_copy(update={"paused_seconds": paused})
        yield paused


def _view(job: Job) -> JobView:
    able = [gpus for gpus in range(1, MOST + 1) if math.isfinite(job.step_time(packed(gpus)))]
    return JobView(
        name=job.name,
        state="queued",
        arrived=job.arrived,
        worker_demand={GPU: 1},
        min_workers=able[0],
        max_workers=able[-1],
        restart_cost=RESTART,
        has_checkpoint=True,
    )


def _known(steps: float) -> Remaining:
    return Remaining(value=max(1e-9, steps), source="declared")


def _rate(job: Job) -> Callable[[int, int], float]:
    return lambda _, workers: 1 / job.step_time(packed(workers)) if workers else 0.0


def _speed(job: Job, view: JobView) -> float:
    return 1 / job.step_time(tuple(sorted(s.workers for s in view.placement.values()))) if view.size else 0.0


def _average(results: list[Result]) -> float:
    """Return the mean over workloads of the average completion time, in hours."""
    return float(np.mean([np.mean(each.completions) for each in results])) / 3600


def main() -> None:
    """Print the figures and the result."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", type=Path, help="folder with traces/ and speeds/; default: generated workloads")
    arguments.add_argument("--policies", default="optimus,paper")
    arguments.add_argument("--workloads", default="1,2,3")
    arguments.add_argument("--pausing", default="auto", choices=("auto", "never"))
    arguments.add_argument("--max-paused", type=float, default=1e9, help="seconds; default: without a limit")
    given = arguments.parse_args()
    numbers = [int(number) for number in given.workloads.split(",")]
    workloads = [measured(given.data, number) if given.data else generated(number) for number in numbers]
    names = list(dict.fromkeys([*given.policies.split(","), "optimus", "paper"]))
    runs = [(name, jobs) for name in names for jobs in workloads]
    results: dict[str, list[Result]] = {}
    seconds: dict[str, float] = {}
    for name, jobs in track(runs, "replaying", disable=not sys.stdout.isatty()):
        begun = time.perf_counter()
        results.setdefault(name, []).append(replay(jobs, name, given.pausing, given.max_paused))
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - begun
    heads = (
        ("policy", -10),
        ("average", 9),
        ("p99", 7),
        ("makespan", 9),
        ("restarts a job", 15),
        ("longest pause", 14),
    )
    print(*(f"{text:{'<' if width < 0 else '>'}{abs(width)}}" for text, width in (*heads, ("run took", 9))))
    for name, made in results.items():
        p99 = np.mean([np.quantile(each.completions, 0.99) for each in made]) / 3600
        makespan = np.mean([each.makespan for each in made]) / 3600
        restarts = sum(each.restarts for each in made) / sum(len(each.completions) for each in made)
        pause = max(each.longest_pause for each in made) / 3600
        print(
            f"{name:10} {_average(made):7.3f} h {p99:5.1f} h {makespan:7.1f} h {restarts:15.1f} {pause:12.2f} h "
            f"{seconds[name]:7.0f} s"
        )
    value = _average(results["optimus"]) / _average(results["paper"])
    print(f"average completion time, ours to the paper's rule: {value:.3f} (goal: at most {GOAL})")
    print(json.dumps({"benchmark": "pollux_traces", "value": round(value, 3), "goal": GOAL, "met": value <= GOAL}))
    sys.exit(value > GOAL)


if __name__ == "__main__":
    main()
