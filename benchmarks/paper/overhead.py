"""What resizing costs: the time that jobs spend in restarts (section 6.3 of the paper).

python -m benchmarks.paper.overhead
"""

from __future__ import annotations

from benchmarks.paper._lab import RESTART, Figures, show, usual


def figures() -> Figures:
    """Return restarts a job and the part of the makespan that an average job is in one, for ours and the paper's."""
    found = {"ours": usual("optimus"), "the paper's": usual("paper")}
    rows = [(name, one.restarts, 100 * one.restarts * RESTART / one.makespan) for name, one in found.items()]
    return Figures(
        name="paper/overhead",
        title="Resizing",
        paper="resizing takes 2.54 % of the makespan.",
        columns=("policy", "restarts a job", "part of the makespan (%)"),
        rows=rows,
        bars=[(row[0], row[2]) for row in rows],
        axis="part of the makespan (%)",
        value=rows[0][2],
        goal=2.54,
        at_least=False,
        why=f"each restart is taken to cost {RESTART:.0f} s; ours asks before each whether it pays.",
    )


if __name__ == "__main__":
    show(figures())
