"""A discrete-event simulation: a clock of its own around a policy of :mod:`optimus_core.scheduling.policies`.

Policies decide on each arrival, each end, each failure and return of a node, and every ``interval`` seconds, as the
engine does. Jobs advance at their true speed; the policy sees what its :class:`.Knowledge` tells. Everything follows
from the seed: the same input gives the same result to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from optimus_core.scheduling.plan import apply_plan
from optimus_core.scheduling.speeds import Rate, Seconds, model_rate
from optimus_core.scheduling.types import NOTHING, JobView, Node, Plan, PlanSettings, Snapshot
from optimus_core.simulation.crossing import crossing_share
from optimus_core.simulation.jobs import TrueJob
from optimus_core.simulation.knowledge import Knowledge, Oracle
from optimus_core.simulation.result import Ended, Result

Decide = Callable[[Snapshot], Plan]
_MOST_EVENTS = 1_000_000
_IDLE_ROUNDS = 1000
"""Rounds in a row without any job running after which the rest can never run."""


@dataclass(frozen=True)
class Failure:
    """A node that is away from ``begin`` to ``end``, in seconds; what runs on it goes back to its last checkpoint."""

    node: str
    begin: float
    end: float


@dataclass(frozen=True)
class World:
    """What is the same for every policy.

    Attributes:
        nodes: the cluster.
        jobs: what arrives.
        settings: of the plans; the restart cost of a job without one of its own.
        knowledge: what policies know of the jobs.
        interval: seconds between two rounds at most.
        checkpoint: seconds between two checkpoints; a failure costs what came after the last.
        noise: relative standard deviation of the true speed from one start of a job to the next.
        failures: of nodes.
        crossing: by what part a step is longer when all of its traffic leaves the node; no policy knows of it.
        seed: of the noise.
    """

    nodes: Sequence[Node]
    jobs: Sequence[TrueJob]
    settings: PlanSettings = field(default_factory=lambda: PlanSettings(default_restart_cost=30.0))
    knowledge: Knowledge = field(default_factory=Oracle)
    interval: float = 600.0
    checkpoint: float = 600.0
    noise: float = 0.0
    failures: Sequence[Failure] = ()
    crossing: float = 0.0
    seed: int = 0


@dataclass
class _Live:
    job: TrueJob
    view: JobView
    rate: Rate
    done: float = 0.0
    speed: float = 0.0
    resumes: float = 0.0
    """When its start or restart is over and it advances."""
    starts: int = 0
    queued: float = 0.0
    held: float = 0.0
    """Seconds that it has had its minimum since it was paused last."""


class Simulation:
    """One run of a policy in a world."""

    def __init__(self, world: World, decide: Decide) -> None:
        self._world, self._decide = world, decide
        self._waiting = sorted(world.jobs, key=lambda job: (job.view.arrived, job.view.name), reverse=True)
        self._now = self._waiting[-1].view.arrived if self._waiting else 0.0
        self._live: dict[str, _Live] = {}
        self._away: set[str] = set()
        self._ended: list[Ended] = []
        self._used = 0.0
        self._idle = 0

    def run(self, progress: Callable[[int], None] = lambda ended: None) -> Result:
        """Return what came of it; ``progress`` is told how many jobs have ended.

        Raises:
            ValueError: there is no job, or one never gets room or never advances.
        """
        if not self._waiting:
            raise ValueError("a simulation needs at least one job")
        for _ in range(_MOST_EVENTS):
            self._admit()
            self._fail()
            if not self._live and not self._waiting:
                return Result.of(self._ended, self._used)
            if self._live:
                self._round()
            self._advance()
            progress(len(self._ended))
        raise ValueError(f"the simulation had {_MOST_EVENTS} events and no end; {self._stuck()}")

    def _admit(self) -> None:
        while self._waiting and self._waiting[-1].view.arrived <= self._now:
            job = self._waiting.pop()
            self._live[job.view.name] = _Live(job, job.view, model_rate(job.view) or (lambda servers, workers: 0.0))

    def _fail(self) -> None:
        away = {each.node for each in self._world.failures if each.begin <= self._now < each.end}
        for live in self._live.values():
            if (away - self._away) & set(live.view.placement):
                self._lose(live)
        self._away = away

    def _lose(self, live: _Live) -> None:
        """Take a job off the cluster and back to its last checkpoint."""
        ran = max(0.0, self._now - live.resumes)
        live.done -= live.speed * (ran % self._world.checkpoint)
        live.speed = 0.0
        live.view = live.view.model_copy(update={"size": NOTHING, "placement": {}, "state": "queued"})

    def _round(self) -> None:
        views = [self._known(live) for live in self._live.values()]
        nodes = [node for node in self._world.nodes if node.name not in self._away]
        snapshot = Snapshot(time=self._now, settings=self._world.settings, nodes=nodes, jobs=views)
        for after in apply_plan(snapshot, self._decide(snapshot)).jobs:
            self._apply(self._live[after.name], after)

    def _known(self, live: _Live) -> JobView:
        runs = live.view.size != NOTHING
        view = self._world.knowledge.view(live.job, live.view, live.done)
        age = max(0.0, self._now - live.resumes) if runs else None
        # The engine saves on request before it pauses; who has not run since its start has nothing to save.
        saved = live.view.has_checkpoint or (age or 0.0) > 0
        return view.model_copy(update={"seconds_at_size": age, "has_checkpoint": saved})

    def _apply(self, live: _Live, after: JobView) -> None:
        moved = (after.size, after.placement) != (live.view.size, live.view.placement)
        live.view = after
        if not moved:
            return
        if after.size == NOTHING:
            live.speed = 0.0
            return
        cost = after.restart_cost if after.restart_cost is not None else self._world.settings.default_restart_cost
        live.resumes = self._now + (cost if live.starts else 0.0)
        live.starts += 1
        speed = Seconds(after, live.rate, 1.0).speed((after.size.servers, after.size.workers))
        live.speed = speed * self._luck(live) / self._slower(after)

    def _slower(self, view: JobView) -> float:
        """Return how many times as long a step takes, since traffic crosses between the job's nodes."""
        return 1 + self._world.crossing * crossing_share(view.placement, synchronous=view.strategy != "ps_async")

    def _luck(self, live: _Live) -> float:
        if not self._world.noise:
            return 1.0
        rng = np.random.default_rng([self._world.seed, 7, live.starts, *live.view.name.encode()])
        return math.exp(self._world.noise * float(rng.standard_normal()))

    def _advance(self) -> None:
        """Go to the next event, whichever is first."""
        ends = {name: self._end_of(live) for name, live in self._live.items()}
        then = min([*ends.values(), *self._moments()])
        if all(not math.isfinite(end) for end in ends.values()) and self._live and not self._waiting:
            self._idle += 1
        else:
            self._idle = 0
        if self._idle > _IDLE_ROUNDS or not math.isfinite(then):
            raise ValueError(self._stuck())
        span = then - self._now
        for name, live in list(self._live.items()):
            self._pass(live, span)
            if ends[name] <= then:
                self._ended.append(self._end(self._live.pop(name), then))
        self._now = then

    def _moments(self) -> list[float]:
        changes = [t for each in self._world.failures for t in (each.begin, each.end) if t > self._now]
        arrivals = [self._waiting[-1].view.arrived] if self._waiting else []
        return [*changes, *arrivals, *([self._now + self._world.interval] if self._live else [])]

    def _pass(self, live: _Live, span: float) -> None:
        if live.view.size == NOTHING:
            live.queued += span
            if live.view.state == "paused":
                live.view = live.view.model_copy(update={"paused_seconds": live.view.paused_seconds + span})
                live.held = 0.0
            return
        live.held += span
        if 0 < live.view.paused_seconds <= live.held:
            live.view = live.view.model_copy(update={"paused_seconds": 0.0})
        live.done += live.speed * max(0.0, self._now + span - max(self._now, live.resumes))
        self._used += span * _share(live.view, self._world.nodes)

    def _end_of(self, live: _Live) -> float:
        if live.speed <= 0:
            return math.inf
        return max(self._now, live.resumes) + max(0.0, live.job.work - live.done) / live.speed

    def _end(self, live: _Live, then: float) -> Ended:
        speed = Seconds(live.view, live.rate, 1.0).speed
        fastest = max(speed((p, w)) for p in _upto(live.view.max_servers) for w in _upto(live.view.max_workers))
        arrived = live.job.view.arrived
        return Ended(live.view.name, arrived, then, live.starts - 1, live.queued, live.job.work / fastest)

    def _stuck(self) -> str:
        names = ", ".join(sorted(self._live))
        return f"the jobs {names} never end: they get no room, or no speed is known of them"


def _upto(most: int) -> range:
    return range(most + 1)


def _share(view: JobView, nodes: Sequence[Node]) -> float:
    """Return the part of the cluster that a job holds, of the resource of which it holds most."""
    total: dict[str, int] = {}
    for node in nodes:
        for name, amount in node.allocatable.items():
            total[name] = total.get(name, 0) + amount
    held = {
        name: view.size.workers * view.worker_demand.get(name, 0) + view.size.servers * view.server_demand.get(name, 0)
        for name in {**view.worker_demand, **view.server_demand}
    }
    return max((amount / total[name] for name, amount in held.items() if total.get(name)), default=0.0)
