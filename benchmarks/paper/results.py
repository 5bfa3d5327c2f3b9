"""Write docs/results.md and docs/images/results-*.svg: each experiment of the paper, run anew.

python -m benchmarks.paper.results
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.paper import ablation, arrivals, nine_jobs, overhead, prediction_error
from benchmarks.paper._lab import CROSSING, JOBS, RESTART, SEEDS, SPAN, Figures, shown

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "results"  # the same figures are the same bytes
matplotlib.rcParams["svg.fonttype"] = "none"  # texts stay texts
import matplotlib.pyplot as plt  # noqa: E402

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXPERIMENTS = (nine_jobs, prediction_error, ablation, arrivals, overhead)
OTHERS = {
    "benchmarks/assignment.py": (
        "Load balance of parameter servers",
        "PAA's servers differ by 0.10 million parameters on ResNet-50 and ten servers, with 157 requests.",
    ),
}
"""Benchmarks that stand alone, what they are about, and what the paper says: what they print is shown as it is."""
HEAD = f"""# Results

The experiments of the Optimus paper (Peng et al., EuroSys 2018) in [our simulator](simulator.md), with the product's
own planner and its own estimates. `make results` runs them and writes this page; no figure is typed by hand.

{JOBS} jobs arrive within {SPAN / 3600:.1f} hours on a cluster like the paper's, 7 nodes of 16 cores and 6 of 8; each
worker and server takes 5 cores. All figures are means over {len(SEEDS)} draws. The jobs are as fast as the first author
of the paper measured (`config_speed.txt` of github.com/pengyanghua/DL2; `benchmarks/paper/_jobs.py` says what was made
of it and what had to be assumed), half of them asynchronous; how long they are is ours. A step whose traffic all
crosses the network lasts {1 + CROSSING:.1f} times as long, and a restart takes {RESTART:.0f} seconds: both are
assumed. How long a plan for 4,000 jobs takes is measured by `benchmarks/scale.py`, which runs for minutes, alone.
"""


def main() -> None:
    """Run all, write the page, and say which goals are missed; that is no error."""
    sections, verdicts = [], []
    for experiment in EXPERIMENTS:
        print(f"{experiment.__name__} ...", file=sys.stderr)
        figures = experiment.figures()
        sections.append(_section(figures))
        verdicts.append(figures.verdict())
    for path, (title, paper) in OTHERS.items():
        print(f"{path} ...", file=sys.stderr)
        lines, verdict = _run(path)
        sections.append(f"## {title}\n\nThe paper: {paper}\n\n```text\n{lines}\n```\n\n{_verdict(verdict)}\n")
        verdicts.append(verdict)
    (DOCS / "results.md").write_text("\n".join([HEAD, *sections]), encoding="utf-8")
    for verdict in verdicts:
        print(_verdict(verdict))


def _section(figures: Figures) -> str:
    image = f"images/results-{figures.name.removeprefix('paper/').replace('_', '-')}.svg"
    _draw(figures, DOCS / image)
    lines = [f"## {figures.title}", "", f"The paper: {figures.paper}", ""]
    lines += ["| " + " | ".join(figures.columns) + " |", "|---" * len(figures.columns) + "|"]
    lines += ["| " + " | ".join(shown(value) for value in row) + " |" for row in figures.rows]
    lines += ["", f"![{figures.title}: {figures.axis}]({image})", "", _verdict(figures.verdict())]
    lines += ["", _wrapped(f"Why they differ: {figures.why}"), ""]
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _verdict(verdict: dict[str, Any]) -> str:
    word = "met" if verdict["met"] else "**missed**"
    return f"`{verdict['benchmark']}`: {verdict['value']}, goal {verdict['goal']}: {word}."


def _draw(figures: Figures, file: Path) -> None:
    names, values = zip(*figures.bars, strict=True)
    drawn, axes = plt.subplots(figsize=(7, 0.5 * len(names) + 1.2), layout="constrained")
    axes.bar_label(axes.barh(names, values), fmt="%.2f", padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlabel(figures.axis)
    drawn.savefig(file, metadata={"Date": None})
    plt.close(drawn)


def _run(path: str) -> tuple[str, dict[str, Any]]:
    """Return what a benchmark prints and its verdict; a missed goal makes it exit with 1, and is none of our errors."""
    done = subprocess.run([sys.executable, path], cwd=ROOT, capture_output=True, text=True, check=False)
    *lines, last = done.stdout.strip().splitlines() or [""]
    if not last.startswith("{"):
        raise RuntimeError(f"{path} has ended without a verdict:\n{done.stderr[-2000:]}")
    return "\n".join(lines), json.loads(last)


if __name__ == "__main__":
    main()
