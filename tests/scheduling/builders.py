"""Snapshots for tests, built from small numbers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from optimus_core.scheduling.types import (
    JobView,
    Node,
    Placement,
    Plan,
    PlanSettings,
    Remaining,
    Size,
    Snapshot,
)

GIB = 2**30
GPU = "nvidia.com/gpu"


def speed(*coefficients: float, default: bool = False) -> dict[str, Any]:
    """The coefficients of a speed model, as many as the longest of the formulas has; make_job adds the kind."""
    return {
        "batch_per": "job",
        "batch_size": 1,
        "coefficients": list(coefficients),
        "sigma": 0.1,
        "is_default": default,
        "precision": [],
    }


_TERMS = {"ps_async": 4, "ps_sync": 5, "allreduce": 3}


def _of_kind(model: dict[str, Any], kind: str) -> dict[str, Any]:
    return model and {**model, "kind": kind, "coefficients": model["coefficients"][: _TERMS[kind]]}


def make_job(name: str, arrived: float = 0.0, steps: float | None = 1000.0, **more: Any) -> JobView:
    """A queued job; all-reduce of up to 8 workers with 1 cpu each, unless ``more`` says otherwise."""
    served = more.get("strategy", "allreduce") != "allreduce"
    usual: dict[str, Any] = {
        "state": "running" if more.get("size") else "queued",
        "worker_demand": {"cpu": 1000, "memory": GIB},
        "max_workers": 8,
        "remaining": Remaining(value=steps, source="declared"),
        "speed": speed(1.0, 0.1, 0.2, 0.01, 0.01) if served else speed(1.0, 0.1, 0.02),
    }
    if served:
        usual |= {"server_demand": {"cpu": 1000, "memory": GIB}, "max_servers": 4}
    fields = usual | more
    fields["speed"] = _of_kind(fields["speed"], fields.get("strategy", "allreduce"))
    return JobView(name=name, arrived=arrived, **fields)


def running(
    name: str, placement: dict[str, tuple[int, int]], arrived: float = 0.0, steps: float | None = 1000.0, **more: Any
) -> JobView:
    """A running job with (servers, workers) on each node."""
    seats: Placement = {node: Size(servers=s, workers=w) for node, (s, w) in placement.items()}
    size = Size(servers=sum(s.servers for s in seats.values()), workers=sum(s.workers for s in seats.values()))
    return make_job(name, arrived, steps, **{"size": size, "placement": seats, **more})


def make_node(name: str, cpu: int = 4, gpu: int = 0, **more: Any) -> Node:
    """A node of ``cpu`` cores with 4 GiB each, and devices."""
    return Node(name=name, allocatable={"cpu": cpu * 1000, "memory": cpu * 4 * GIB, GPU: gpu}, **more)


def make_snapshot(nodes: list[Node], jobs: list[JobView], **settings: Any) -> Snapshot:
    """A snapshot at time 1000."""
    return Snapshot(time=1000.0, nodes=nodes, jobs=jobs, settings=PlanSettings(**settings))


def sizes(plan: Plan) -> dict[str, tuple[int, int]]:
    """Job -> (servers, workers)."""
    return {decision.job: (decision.size.servers, decision.size.workers) for decision in plan.decisions}


def used(job: JobView, placement: Placement) -> dict[str, dict[str, int]]:
    """Node -> resource -> what a placement asks for."""
    asked: dict[str, dict[str, int]] = {}
    for node, size in placement.items():
        parts = [(job.worker_demand, size.workers), (job.server_demand, size.servers)]
        if node == min(placement):
            parts.append((job.scheduler_demand, 1))
        for demand, count in parts:
            for resource, amount in demand.items():
                there = asked.setdefault(node, {})
                there[resource] = there.get(resource, 0) + amount * count
    return asked


_TERM = st.sampled_from([0.0, 0.01, 0.1, 1.0])


@st.composite
def jobs(draw: st.DrawFn, name: str) -> JobView:
    """Any queued job that asks for little."""
    strategy = draw(st.sampled_from(["allreduce", "ps_sync", "ps_async"]))
    low = draw(st.integers(1, 2))
    demand = {"cpu": draw(st.sampled_from([500, 1000, 2000, 5000])), "memory": draw(st.integers(0, 3)) * GIB}
    demand |= {GPU: draw(st.integers(0, 1))}
    more: dict[str, Any] = {
        "strategy": strategy,
        "worker_demand": demand,
        "server_demand": {"cpu": draw(st.sampled_from([500, 1000]))} if strategy != "allreduce" else {},
        "scheduler_demand": {"cpu": draw(st.sampled_from([0, 100]))},
        "min_workers": low,
        "max_workers": low + draw(st.integers(0, 6)),
        "min_servers": 1,
        "max_servers": draw(st.integers(1, 4)),
        "priority": draw(st.sampled_from([0, 0, 5])),
        "speed": draw(st.one_of(st.just({}), st.tuples(*[_TERM] * 4).map(lambda t: speed(0.5, *t)))),
        "young": draw(st.booleans()),
        "restart_cost": draw(st.sampled_from([None, 0.0, 5.0, 200.0])),
        "resizable": draw(st.sampled_from([True, True, True, False])),
        "barred": draw(st.lists(st.builds(Size, servers=st.integers(0, 2), workers=st.integers(1, 4)), max_size=2)),
        "work_per_step": draw(st.sampled_from(["constant", "workers"])),
    }
    steps = draw(st.one_of(st.none(), st.sampled_from([0.0, 10.0, 500.0, 20000.0])))
    return make_job(name, draw(st.integers(0, 5)), steps, **more)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Any small node."""
    cpu = draw(st.integers(1, 8))
    others = {"cpu": draw(st.sampled_from([0, 0, 700, 9000]))}
    return make_node(name, cpu, draw(st.integers(0, 2)), others=others)


@st.composite
def snapshots(draw: st.DrawFn, most_jobs: int = 6) -> Snapshot:
    """Any small cluster whose jobs are all queued."""
    machines = [draw(nodes(f"n{number}")) for number in range(draw(st.integers(1, 4)))]
    wanting = [draw(jobs(f"j{number}")) for number in range(draw(st.integers(1, most_jobs)))]
    weight = draw(st.sampled_from([0.0, 0.0, 2.0]))
    return make_snapshot(machines, wanting, remaining_weight=weight)
