"""The cluster and the worlds of the Optimus paper's experiments, as our simulator has them."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.paper._jobs import measured
from optimus_core.scheduling.policies import policy
from optimus_core.scheduling.types import Node, Plan, PlanSettings, Snapshot
from optimus_core.simulation import Estimating, Result, Simulation, TrueJob, World, uniform

GIB = 2**30
JOBS, SPAN, INTERVAL = 9, 12_000.0, 600.0
"""Nine jobs arrive within 12,000 seconds; the paper's scheduler decides every 10 minutes."""
CROSSING = 0.3
"""A step is this much longer when all of its traffic crosses the network. Assumed, not measured."""
RESTART = 30.0
"""Seconds that a restart costs. Assumed."""
SEEDS = range(10)
Decide = Callable[[Snapshot], Plan]
Draw = Callable[[Sequence[float], int], list[TrueJob]]
"""Arrivals and a seed -> jobs."""


def cluster() -> list[Node]:
    """Return the paper's testbed: 7 nodes of 16 cores and 80 GiB, 6 of 8 cores and 48 GiB.

    The two GPUs of each of the six are left out, since no job here asks for one: our placement would keep off them.
    """
    large, small = {"cpu": 16_000, "memory": 80 * GIB}, {"cpu": 8_000, "memory": 48 * GIB}
    return [Node(name=f"cpu{n}", allocatable=large) for n in range(7)] + [
        Node(name=f"gpu{n}", allocatable=small) for n in range(6)
    ]


def world(seed: int, arrivals: Sequence[float] | None = None, draw: Draw = measured, **more: Any) -> World:
    """Return nine jobs on thirteen nodes with the product's own estimates, or what ``more`` says instead."""
    jobs = draw(arrivals or uniform(JOBS, SPAN, seed), seed)
    known = {
        "settings": PlanSettings(default_restart_cost=RESTART),
        "knowledge": Estimating(seed),
        "interval": INTERVAL,
        "noise": 0.03,
        "crossing": CROSSING,
        "seed": seed,
    }
    return World(cluster(), jobs, **(known | more))


@dataclass
class Figures:
    """What an experiment gave, as it is printed and as it stands in the results.

    Attributes:
        name: of the benchmark.
        title: of its section.
        paper: what the paper says.
        columns: of ``rows``.
        rows: first what was tried, then numbers.
        bars: what to draw, and how long; ``axis`` is the label of the lengths.
        value: the one figure.
        goal: what it is held against, the paper's unless ``why`` says otherwise.
        at_least: whether ``value`` shall be at least ``goal``; else at most.
        why: why our figures differ from the paper's.
    """

    name: str
    title: str
    paper: str
    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    bars: Sequence[tuple[str, float]]
    axis: str
    value: float
    goal: float
    why: str
    at_least: bool = True

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def verdict(self) -> dict[str, Any]:
        """Return the last line of the benchmark."""
        return {"benchmark": self.name, "value": round(self.value, 4), "goal": self.goal, "met": self.met}


@dataclass
class Tried:
    """A policy's means over worlds: completion time and makespan in seconds, restarts a job."""

    average: float
    makespan: float
    restarts: float


def tried(decide: Decide, worlds: Sequence[World], what: str) -> Tried:
    """Return what a policy comes to in ``worlds``; ``what`` stands beside the progress bar."""
    results: list[Result] = []
    for each in track(worlds, what, transient=True, disable=not sys.stderr.isatty()):
        results.append(Simulation(each, decide).run())
    return Tried(
        float(np.mean([result.average for result in results])),
        float(np.mean([result.makespan for result in results])),
        float(np.mean([result.restarts / len(result.jobs) for result in results])),
    )


@functools.cache
def usual(name: str) -> Tried:
    """Return what the policy ``name`` comes to in the worlds that most experiments share."""
    return tried(policy(name), [world(seed) for seed in SEEDS], name)


def show(figures: Figures) -> None:
    """Print an experiment's figures, last its verdict, and end the process: 1 if the goal is missed."""
    print(f"{figures.title}\nThe paper: {figures.paper}")
    print("\t".join(figures.columns))
    for row in figures.rows:
        print("\t".join(shown(value) for value in row))
    print(f"Why they differ: {figures.why}")
    print(json.dumps(figures.verdict()))
    sys.exit(not figures.met)


def shown(value: Any) -> str:
    """Return a cell as text."""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
