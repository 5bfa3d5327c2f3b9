"""Nine jobs on thirteen nodes: ours, the paper's rule, DRF and Tetris (section 6.2 of the paper).

python -m benchmarks.paper.nine_jobs
"""

from __future__ import annotations

from benchmarks.paper._jobs import measured
from benchmarks.paper._lab import SEEDS, Decide, Figures, Tried, show, tried, usual, world
from benchmarks.paper._spread import spread
from optimus_core.scheduling.policies import policy
from optimus_core.scheduling.types import Plan, Snapshot
from optimus_core.simulation import mixed

PAIRS = (1, 2, 4)
"""Numbers of workers, and of servers, that users might ask for where sizes are fixed."""
DRAWS = {
    "all synchronous": lambda arrivals, seed: measured(arrivals, seed, 0.0),
    "all asynchronous": lambda arrivals, seed: measured(arrivals, seed, 1.0),
    "jobs that scale": mixed,
}
"""Other jobs, to see what the difference comes from."""


def figures() -> Figures:
    """Return what ten draws of nine jobs give with each policy, and ours beside DRF with other jobs."""
    worlds = [world(seed) for seed in SEEDS]
    drf, ours = usual("drf"), usual("optimus")
    rows = [
        _row("ours", ours, drf),
        _row("the paper's rule", usual("paper"), drf),
        _row("DRF", drf, drf),
        _row("DRF, spread over nodes as by Kubernetes", tried(spread(policy("drf")), worlds, "spread"), drf),
        _fixed([(pairs, tried(asking(policy("tetris"), pairs), worlds, "tetris")) for pairs in PAIRS], drf),
    ]
    bars = [(row[0], row[1]) for row in rows]
    for name, draw in DRAWS.items():
        other = [world(seed, draw=draw) for seed in SEEDS]
        fair = tried(policy("drf"), other, f"drf, {name}")
        rows.append(_row(f"ours, {name}", tried(policy("optimus"), other, f"ours, {name}"), fair))
    return Figures(
        name="paper/nine_jobs",
        title="Nine jobs on thirteen nodes",
        paper="against DRF, completion times 2.39 times better on average and a makespan 1.63 times better.",
        columns=("policy", "average (min)", "makespan (min)", "DRF's average over it", "DRF's makespan over it"),
        rows=rows,
        bars=bars,
        axis="average completion time (min)",
        value=drf.average / ours.average,
        goal=2.39,
        why=WHY,
    )


WHY = """\
the speeds are those that the paper's first author published, which on the whole hardly grow with workers, and the jobs'
lengths are ours. What there is to win depends on them: most where DRF's pairs of a worker and a server make a step
longer, little where every pair helps (*jobs that scale*: the mix of `optimus simulate`). DRF here deals all room, in
pairs, as in the paper. Not simulated is what else DRF bore in the paper's testbed: uneven parameter servers, which the
paper's assignment of parameters mends, and stragglers, which it replaces. Ours minimises the average completion time,
not the makespan."""


def asking(decide: Decide, pairs: int) -> Decide:
    """Return the policy of fixed sizes for users who all ask for ``pairs`` workers and as many servers."""

    def decided(snapshot: Snapshot) -> Plan:
        most = {"max_workers": 2 * pairs - 1, "max_servers": 2 * pairs - 1}  # the fixed size is half-way from 1 to it
        return decide(snapshot.model_copy(update={"jobs": [job.model_copy(update=most) for job in snapshot.jobs]}))

    return decided


def _row(name: str, one: Tried, drf: Tried) -> tuple[str, float, float, float, float]:
    return name, one.average / 60, one.makespan / 60, drf.average / one.average, drf.makespan / one.makespan


def _fixed(found: list[tuple[int, Tried]], drf: Tried) -> tuple[str, float, float, float, float]:
    pairs, best = min(found, key=lambda each: each[1].average)
    return _row(f"Tetris, best of {len(found)} fixed sizes ({pairs} + {pairs})", best, drf)


if __name__ == "__main__":
    show(figures())
