"""What allocation and placement are worth, each taken away alone (section 6.5 of the paper).

python -m benchmarks.paper.ablation
"""

from __future__ import annotations

from benchmarks.paper._lab import CROSSING, SEEDS, Figures, show, tried, usual, world
from benchmarks.paper._spread import spread
from optimus_core.scheduling.policies import policy


def figures() -> Figures:
    """Return the completion times with both, without our allocation, without our placement, and without either."""
    worlds = [world(seed) for seed in SEEDS]
    found = {
        "both": usual("optimus").average,
        "DRF's shares instead of our allocation": usual("drf").average,
        "Kubernetes' placement instead of ours": tried(spread(policy("optimus")), worlds, "ours, spread").average,
        "neither": tried(spread(policy("drf")), worlds, "drf, spread").average,
    }
    ours = found["both"]
    return Figures(
        name="paper/ablation",
        title="Allocation and placement",
        paper="allocation contributes most, placement less.",
        columns=("with", "average (min)", "times ours"),
        rows=[(name, seconds / 60, seconds / ours) for name, seconds in found.items()],
        bars=[(name, seconds / 60) for name, seconds in found.items()],
        axis="average completion time (min)",
        value=found["neither"] / ours,
        goal=1.0,
        why=f"""\
the goal is ours: both together must help. What placement is worth follows from how much slower a step is whose traffic
crosses the network, which is assumed ({CROSSING:.0%}) and not measured.""",
    )


if __name__ == "__main__":
    show(figures())
