"""The commands simulate and what-if."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optimus_core.cli.main import app
from tests.scheduling.builders import make_job, make_node, make_snapshot


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_same_seed_prints_the_same_bytes_and_all_figures() -> None:
    printed = [run("simulate", "--policy", "optimus,drf", "--jobs", "4", "--seed", "7", "--json") for _ in range(2)]
    assert printed[0] == printed[1]
    figures = json.loads(printed[0])
    assert list(figures) == ["optimus", "drf"]
    assert {"average", "p50", "p99", "makespan", "restarts", "utilisation", "fairness", "queued"} == set(figures["drf"])


def test_results_are_written_into_a_folder(tmp_path: Path) -> None:
    run("simulate", "--policy", "fifo", "--jobs", "3", "--out", str(tmp_path / "new"), "--plot")
    assert set(json.loads((tmp_path / "new/results.json").read_text())) == {"fifo"}
    assert len((tmp_path / "new/fifo.csv").read_text().splitlines()) == 4


def test_an_unknown_policy_is_refused_with_those_that_there_are() -> None:
    result = CliRunner().invoke(app, ["simulate", "--policy", "optimsu"])
    assert result.exit_code == 1
    assert "optimus" in result.output


def snapshot(tmp_path: Path) -> str:
    file = tmp_path / "snapshot.json"
    file.write_text(make_snapshot([make_node("n1", cpu=4)], [make_job("a"), make_job("b", 1.0)]).to_json())
    return str(file)


def test_a_node_more_gives_jobs_more(tmp_path: Path) -> None:
    rows = json.loads(run("what-if", "--snapshot", snapshot(tmp_path), "--more-nodes", "1", "--json"))
    now, then = (sum(row[key]["workers"] for row in rows) for key in ("size", "size_then"))
    assert (now, then) == (4, 8)


def test_a_job_withdrawn_leaves_its_room_to_the_other(tmp_path: Path) -> None:
    rows = json.loads(run("what-if", "--snapshot", snapshot(tmp_path), "--without", "a", "--json"))
    assert [row["size_then"] and row["size_then"]["workers"] for row in rows] == [None, 4]


def test_a_job_that_is_not_there_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["what-if", "--snapshot", snapshot(tmp_path), "--priority", "c=3"])
    assert result.exit_code == 1
    assert "the job" in result.output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(
            "a=9999999999", 'the number of --priority "a=9999999999" is 9999999999; it is at most', id="too much"
        ),
        pytest.param("a", "Write JOB=NUMBER, such as train=5.", id="no number"),
    ],
)
def test_a_priority_that_none_can_have_is_refused(tmp_path: Path, given: str, said: str) -> None:
    result = CliRunner().invoke(app, ["what-if", "--snapshot", snapshot(tmp_path), "--priority", given])
    assert result.exit_code == 1
    assert said in " ".join(result.output.split())


def average(*arguments: str) -> float:
    printed = run("simulate", "--policy", "optimus", "--jobs", "3", "--nodes", "3", "--json", *arguments)
    return float(json.loads(printed)["optimus"]["average"])


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--crossing", "0.5"), id="slower over the network"),
        pytest.param(("--restart-cost", "900"), id="dear restarts"),
        pytest.param(("--failures", "node00000=600-9000", "--failures", "node00001=900-9000"), id="nodes away"),
    ],
)
def test_a_worse_world_takes_longer(arguments: tuple[str, ...]) -> None:
    assert average(*arguments) > average()


def test_wrong_predictions_change_the_result() -> None:
    roomy = ("--jobs", "9", "--nodes", "13")
    assert average(*roomy, "--error", "0.5") != average(*roomy)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--crossing", "-1"), "--crossing is -1.0", id="negative crossing"),
        pytest.param(("--restart-cost", "-5"), "--restart-cost is -5.0", id="negative cost"),
        pytest.param(("--error", "1"), "at most 0.9", id="an error of all"),
        pytest.param(("--error", "0.1", "--estimate"), "Give one of both", id="an error of estimates"),
        pytest.param(("--failures", "node00000"), "NODE=BEGIN-END", id="no times"),
        pytest.param(("--failures", "n0=1-2"), "the node of --failures", id="no such node"),
        pytest.param(("--failures", "node00000=9-3"), "the end of --failures", id="ends before it begins"),
        pytest.param(("--failures", "node00000=nan-3"), "the begin of --failures", id="no number"),
    ],
)
def test_a_world_that_can_not_be_is_refused(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    assert result.exit_code == 1
    assert said in " ".join(result.output.split())
