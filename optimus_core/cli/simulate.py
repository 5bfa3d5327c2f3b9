"""The commands simulate (policies on a trace, in a clock of their own) and what-if (another plan for this cluster)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from optimus_core import checks
from optimus_core.cli.shared import ClusterName, Json, engine, err, errors_shown, out, show, table
from optimus_core.cli.show import read_snapshot
from optimus_core.errors import SpecificationError
from optimus_core.reasons import duration
from optimus_core.scheduling.policies import policy as policy_named
from optimus_core.scheduling.types import Node, PlanSettings, Snapshot
from optimus_core.simulation import Estimating, Failure, Knowledge, Oracle, Result, Simulation, TrueJob, World
from optimus_core.simulation.jobs import mixed, poisson, read_trace, uniform
from optimus_core.simulation.variant import compare, varied

_GENERATED = {"uniform": uniform, "poisson": poisson}
_NODE = {"cpu": 16_000, "memory": 80 * 2**30, "nvidia.com/gpu": 4}


def simulate(
    policy: Annotated[str, typer.Option(help="Policies to compare, with commas between.")] = "optimus,drf,tetris",
    trace: Annotated[str, typer.Option(help="uniform, poisson, or a CSV: timestamp, duration, num_gpus.")] = "uniform",
    jobs: Annotated[int, typer.Option(help="Jobs to generate, or to read of a CSV at most.")] = 9,
    span: Annotated[float, typer.Option(help="Seconds in which generated jobs arrive.")] = 12_000.0,
    nodes: Annotated[int, typer.Option(help="Nodes of 16 cores, 80 GiB and 4 GPUs.")] = 13,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    estimate: Annotated[bool, typer.Option("--estimate", help="Policies see estimates instead of the truth.")] = False,
    error: Annotated[float, typer.Option(help="Relative error of the remaining work and speeds they see.")] = 0.0,
    crossing: Annotated[float, typer.Option(help="Part that a step is longer when all its traffic leaves a node.")] = 0,
    restart_cost: Annotated[float, typer.Option(help="Seconds that a change of size or place costs a job.")] = 30.0,
    failures: Annotated[list[str] | None, typer.Option(help="NODE=BEGIN-END in seconds; may be given again.")] = None,
    noise: Annotated[float, typer.Option(help="Relative noise of speeds and losses.")] = 0.03,
    plot: Annotated[bool, typer.Option("--plot", help="Draw the average completion times in the terminal.")] = False,
    folder: Annotated[Path | None, typer.Option("--out", help="Write results.json and a CSV of jobs for each.")] = None,
    as_json: Json = False,
) -> None:
    """Run policies on jobs in a simulated cluster: completion times, makespan, restarts, utilisation, fairness."""
    with errors_shown():
        checks.whole(nodes, "--nodes", 1, most=100_000)
        checks.whole(jobs, "--jobs", 1, most=1_000_000)
        checks.whole(seed, "--seed", 0)
        checks.number(noise, "--noise", least=0.0, most=1.0, example=0.03)
        checks.number(crossing, "--crossing", least=0.0, most=100.0, example=0.3)
        checks.number(restart_cost, "--restart-cost", least=0.0, example=30)
        known = _known(estimate, error, noise, seed)
        names = [name.strip() for name in policy.split(",")]
        for name in names:
            policy_named(name)
        cluster = [Node(name=f"node{place:05}", allocatable=_NODE) for place in range(nodes)]
        world = World(
            cluster,
            _jobs(trace, jobs, span, seed),
            PlanSettings(default_restart_cost=restart_cost),
            knowledge=known,
            noise=noise,
            failures=[_failure(each, cluster) for each in failures or []],
            crossing=crossing,
            seed=seed,
        )
        results = {name: _run(world, name) for name in names}
        if folder is not None:
            _write(folder, results)
    figures = {name: result.to_dict() for name, result in results.items()}
    show(as_json, figures, lambda: _print(results))
    if plot and not as_json:
        _plot(results)


def _known(estimate: bool, error: float, noise: float, seed: int) -> Knowledge:
    checks.number(error, "--error", least=0.0, most=0.9, example=0.3)
    if estimate and error:
        raise SpecificationError("--error makes the truth wrong, which --estimate does not show. Give one of both.")
    return Estimating(seed, noise) if estimate else Oracle(seed, curve_error=error, speed_error=error)


def _failure(given: str, nodes: list[Node]) -> Failure:
    node, _, times = given.partition("=")
    try:
        begin, end = (float(each) for each in times.split("-"))
    except ValueError as error:
        raise SpecificationError(
            f"--failures is {checks.shown(given)}. Write NODE=BEGIN-END in seconds, such as node00000=600-1800."
        ) from error
    checks.one_of(node, [each.name for each in nodes], "the node of --failures")
    checks.number(begin, "the begin of --failures", least=0.0, example=600)
    checks.number(end, "the end of --failures", above=begin, example=begin + 1200)
    return Failure(node, begin, end)


def _jobs(trace: str, jobs: int, span: float, seed: int) -> list[TrueJob]:
    if trace in _GENERATED:
        checks.number(span, "--span", least=1.0, most=checks.MOST_SECONDS, example=12_000)
        return mixed(_GENERATED[trace](jobs, span, seed), seed)
    return read_trace(Path(trace), jobs)


def _run(world: World, name: str) -> Result:
    with Progress(console=err, disable=not err.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=len(world.jobs))
        try:
            return Simulation(world, policy_named(name)).run(lambda ended: bar.update(task, completed=ended))
        except ValueError as error:
            raise SpecificationError(f"policy {name}: {error}. Give more --nodes, or smaller jobs.") from error


_COLUMNS = ("policy", "average", "p50", "p99", "makespan", "queued", "restarts", "utilisation", "fairness")


def _print(results: dict[str, Result]) -> None:
    rows = []
    for name, r in results.items():
        times = [duration(seconds) for seconds in (r.average, r.p50, r.p99, r.makespan, r.queued)]
        rows.append((name, *times, r.restarts, f"{r.utilisation:.0%}", f"{r.fairness:.2f}"))
    out.print(table(_COLUMNS, rows))


def _plot(results: dict[str, Result]) -> None:
    longest = max(result.average for result in results.values())
    for name, result in results.items():
        out.print(f"{name:>10} {'#' * max(1, round(50 * result.average / longest))} {duration(result.average)}")


def _write(folder: Path, results: dict[str, Result]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        figures = {name: result.to_dict() for name, result in results.items()}
        (folder / "results.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        for name, result in results.items():
            lines = ["job,arrived,ended,restarts,queued"]
            lines += [f"{j.name},{j.arrived:.6f},{j.ended:.6f},{j.restarts},{j.queued:.6f}" for j in result.jobs]
            (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise SpecificationError(f"--out {folder} can't be written: {error.strerror}. Give another folder.") from error


def what_if(
    nodes: Annotated[int, typer.Option("--more-nodes", help="Further nodes like the largest one.")] = 0,
    priority: Annotated[list[str] | None, typer.Option(help="JOB=NUMBER; may be given several times.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="A job that is withdrawn; may be given again.")] = None,
    snapshot: Annotated[Path | None, typer.Option(help="A saved snapshot instead of the cluster.")] = None,
    cluster: ClusterName = "",
    as_json: Json = False,
) -> None:
    """Show what another cluster, priority or queue would change in the next plan; changes nothing."""
    with errors_shown():
        priorities = dict(_priority(each) for each in priority or [])
        seen, called = _seen(snapshot, cluster)
        priorities = {called(job): value for job, value in priorities.items()}
        other = varied(seen, more_nodes=nodes, priorities=priorities, without=[called(job) for job in without or []])
        changes = compare(seen, other)
    show(as_json, changes, lambda: _print_changes(changes))


def _seen(path: Path | None, cluster: str) -> tuple[Snapshot, Callable[[str], str]]:
    """Return the snapshot, and what gives the name in it of a job that people call by title, name or id."""
    if path is not None:
        return read_snapshot(path), lambda job: job
    eng = engine()
    return eng.peek(cluster)[0], lambda job: eng.job(job).name


def _priority(given: str) -> tuple[str, int]:
    job, _, number = given.rpartition("=")
    try:
        value = int(number)
    except ValueError as error:
        raise SpecificationError(f"--priority is {checks.shown(given)}. Write JOB=NUMBER, such as train=5.") from error
    return job, checks.whole(value, f"the number of --priority {checks.shown(given)}", example=5)


def _print_changes(changes: list[dict[str, Any]]) -> None:
    rows = [
        (c["job"], *(f"{s['servers']}+{s['workers']}" if s else None for s in (c["size"], c["size_then"])),
         *(None if t is None else duration(t) for t in (c["seconds"], c["seconds_then"])))
        for c in changes
    ]  # fmt: skip
    out.print(table(("job", "planned", "then", "done in", "then done in"), rows) if rows else "no jobs to plan")
