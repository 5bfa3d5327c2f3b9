"""Replays arrivals through a planner: what average completion time and makespan would have come of it.

Jobs advance at the speed of their fitted model; a change of size costs a job its restart. Rounds happen on arrivals
and ends, as in the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from optimus_core.scheduling.plan import apply_plan, plan
from optimus_core.scheduling.speeds import Seconds, model_rate
from optimus_core.scheduling.types import NOTHING, JobView, Node, Plan, PlanSettings, Remaining, Snapshot

Decide = Callable[[Snapshot], Plan]
_MOST_EVENTS = 100_000
"""A replay that goes on for longer than this makes no progress."""


@dataclass(frozen=True)
class Arrival:
    """A job of a trace: its view as it arrives (at ``view.arrived``), and the work that it really takes."""

    view: JobView
    work: float


@dataclass(frozen=True)
class Outcome:
    """What a replay came to; times in seconds."""

    average_completion: float
    makespan: float
    completions: dict[str, float]
    """Job -> seconds from its arrival to its end."""


@dataclass
class _Clock:
    now: float
    waiting: list[Arrival]
    live: dict[str, JobView] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)
    resumes: dict[str, float] = field(default_factory=dict)
    """Job -> when its restart is over."""


def replay(
    nodes: Sequence[Node], arrivals: Sequence[Arrival], decide: Decide = plan, settings: PlanSettings | None = None
) -> Outcome:
    """Run ``arrivals`` on ``nodes`` as ``decide`` plans them.

    Raises:
        ValueError: there is no arrival, or a job never gets room or never advances.
    """
    if not arrivals:
        raise ValueError("a replay needs at least one arrival")
    settings = settings or PlanSettings()
    ordered = sorted(arrivals, key=lambda a: (a.view.arrived, a.view.name))
    clock = _Clock(ordered[0].view.arrived, ordered)
    ends: dict[str, float] = {}
    for _ in range(_MOST_EVENTS):
        _admit(clock)
        _decide(clock, nodes, decide, settings)
        if not clock.live and not clock.waiting:
            break
        _advance(clock, ends)
    begin = {a.view.name: a.view.arrived for a in arrivals}
    completions = {name: end - begin[name] for name, end in ends.items()}
    return Outcome(sum(completions.values()) / len(completions), max(ends.values()) - min(begin.values()), completions)


def _admit(clock: _Clock) -> None:
    while clock.waiting and clock.waiting[0].view.arrived <= clock.now:
        arrival = clock.waiting.pop(0)
        clock.live[arrival.view.name] = arrival.view
        clock.left[arrival.view.name] = arrival.work


def _decide(clock: _Clock, nodes: Sequence[Node], decide: Decide, settings: PlanSettings) -> None:
    jobs = [
        view.model_copy(update={"remaining": Remaining(value=clock.left[name], source="declared")})
        for name, view in clock.live.items()
    ]
    snapshot = Snapshot(time=clock.now, settings=settings, nodes=list(nodes), jobs=jobs)
    for after in apply_plan(snapshot, decide(snapshot)).jobs:
        before = clock.live[after.name]
        if after.size != before.size and before.size != NOTHING:
            cost = after.restart_cost if after.restart_cost is not None else settings.default_restart_cost
            clock.resumes[after.name] = clock.now + cost
        clock.live[after.name] = after


def _advance(clock: _Clock, ends: dict[str, float]) -> None:
    """Go to the next arrival or end, whichever is first."""
    finish = {name: _end_of(clock, view) for name, view in clock.live.items()}
    moments = [*finish.values(), *(a.view.arrived for a in clock.waiting[:1])]
    then = min(moments, default=math.inf)
    if not math.isfinite(then):
        raise ValueError(f"the jobs {', '.join(sorted(clock.live))} never end: no room, or no speed is known")
    for name, view in list(clock.live.items()):
        clock.left[name] -= _speed(view) * max(0.0, then - max(clock.now, clock.resumes.get(name, 0.0)))
        if finish[name] <= then:
            ends[name] = then
            del clock.live[name], clock.left[name]
    clock.now = then


def _end_of(clock: _Clock, view: JobView) -> float:
    speed = _speed(view)
    start = max(clock.now, clock.resumes.get(view.name, 0.0))
    return start + max(0.0, clock.left[view.name]) / speed if speed > 0 else math.inf


def _speed(view: JobView) -> float:
    rate = model_rate(view)
    if rate is None or view.size == NOTHING:
        return 0.0
    return Seconds(view, rate, 1.0).speed((view.size.servers, view.size.workers))
