"""What the run came to: sizes over time, resizes with their reasons, and the same arrivals at fixed sizes."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

from rich.console import Console

from optimus_core.cluster.base import NodeInfo
from optimus_core.counted import counted
from optimus_core.engine.engine import Engine
from optimus_core.engine.report import JobReport
from optimus_core.engine.snapshot import ended_view, node_view, plan_settings
from optimus_core.reasons import duration
from optimus_core.scheduling.baselines import equal_sizes
from optimus_core.scheduling.types import Plan, Size, Snapshot
from optimus_core.simulation import Arrival, Outcome, replay


def print_job(console: Console, report: JobReport, history: dict[str, Any]) -> None:
    """Print a job's sizes over time and each change with its reason."""
    began = datetime.fromisoformat(report.created_at)
    result = report.result or {}
    wall, loss = result.get("wall_seconds"), result.get("final_loss")
    console.print(
        f"\n{report.title}: {report.state}, {result.get('steps')} steps"
        + (f", loss {loss:.3g}" if loss is not None else "")
        + (f", {duration(wall)} of training" if wall is not None else "")
        + f", resized {counted(result.get('resizes', 0), 'time')}",
        markup=False,
    )
    for generation in history["generations"]:
        if generation["starting_at"] is None:
            continue
        at = (datetime.fromisoformat(generation["starting_at"]) - began).total_seconds()
        console.print(f"  {at:6.0f} s  {generation['why']}", markup=False)


def measured(reports: list[JobReport]) -> tuple[float, float]:
    """Return average completion time and makespan in seconds."""
    spans = [(datetime.fromisoformat(r.created_at), datetime.fromisoformat(r.ended_at)) for r in reports if r.ended_at]
    average = sum((end - begin).total_seconds() for begin, end in spans) / len(spans)
    return average, (max(end for _, end in spans) - min(begin for begin, _ in spans)).total_seconds()


def arrivals(engine: Engine) -> list[Arrival]:
    """Return the jobs as they arrived, with the work and the speeds that were seen."""
    found = []
    with engine.store.transaction() as tx:
        for row in tx.jobs(states=("succeeded",)):
            view = ended_view(engine.ctx, tx, row)
            found.append(Arrival(view.model_copy(update={"young": False}), float(row.step or 1)))
    return found


def simulated(engine: Engine, nodes: list[NodeInfo]) -> tuple[Outcome, dict[int, Outcome]]:
    """Return what the same arrivals come to in simulation: with Optimus, and at fixed equal sizes, by workers."""
    trace, cluster = arrivals(engine), [node_view(node) for node in nodes]
    settings = plan_settings(engine.ctx)

    def at(size: Size) -> Outcome:
        def decide(snapshot: Snapshot) -> Plan:
            return equal_sizes(snapshot, size)

        return replay(cluster, trace, decide, settings)

    most = max(arrival.view.max_workers for arrival in trace)
    fixed = {workers: at(Size(servers=1, workers=workers)) for workers in range(1, most + 1)}
    return replay(cluster, trace, settings=settings), fixed


def resizes(history: dict[str, Any]) -> tuple[int, int]:
    """Return how often a job has grown and how often it has shrunk while it ran."""
    grown = shrunk = 0
    ran = [g for g in history["generations"] if g["starting_at"] is not None]
    for before, after in pairwise(ran):
        change = (after["servers"] + after["workers"]) - (before["servers"] + before["workers"])
        grown, shrunk = grown + (change > 0), shrunk + (change < 0)
    return grown, shrunk
