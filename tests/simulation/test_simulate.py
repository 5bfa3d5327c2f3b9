"""Policies on jobs in a simulated cluster: cases reckoned by hand, and what must always hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimus_core.errors import SpecificationError
from optimus_core.models import SpeedKind
from optimus_core.scheduling.policies import POLICIES, policy
from optimus_core.scheduling.types import JobView, Node, PlanSettings
from optimus_core.simulation import Estimating, Failure, Oracle, Simulation, TrueJob, World, mixed, poisson, uniform
from optimus_core.simulation.jobs import read_trace, speed_model

NODES = [Node(name=f"n{i}", allocatable={"cpu": 16_000, "memory": 80 * 2**30}) for i in range(13)]
MIX = mixed(uniform(9, 12_000, 0), 0)


def one(work: float, cost: float = 0.0) -> TrueJob:
    """A job of one step a second on its only worker."""
    speed = speed_model(SpeedKind.ALL_REDUCE, (1.0, 0.0, 0.0)).to_dict()
    view = JobView(
        name="a", state="queued", arrived=0, worker_demand={"cpu": 1000}, max_workers=1, speed=speed, restart_cost=cost
    )
    return TrueJob(view, work, (20 / work, 0.3, 0.2))


def test_a_job_alone_takes_its_work_over_its_speed() -> None:
    result = Simulation(World(NODES, [one(1000)]), policy("optimus")).run()
    assert (result.average, result.makespan, result.restarts) == (pytest.approx(1000), pytest.approx(1000), 0)


def test_a_lost_node_costs_what_came_after_the_last_checkpoint_and_a_restart() -> None:
    world = World(NODES[:1], [one(1000, cost=50)], checkpoint=300, failures=[Failure("n0", 400, 500)])
    # 300 of the 400 steps are saved; from 500 a restart of 50 seconds and the 700 that are left
    assert Simulation(world, policy("optimus")).run().makespan == pytest.approx(1250)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_ends_all_jobs_within_the_cluster(name: str) -> None:
    result = Simulation(World(NODES, MIX, noise=0.03), policy(name)).run()
    assert len(result.jobs) == len(MIX)
    assert 0 < result.utilisation <= 1
    assert 0 < result.fairness <= 1
    assert result.average <= result.makespan


@pytest.mark.parametrize("knowledge", [Oracle, Estimating])
def test_the_same_seed_gives_the_same_result(knowledge: type[Oracle] | type[Estimating]) -> None:
    runs = [
        Simulation(World(NODES, MIX, knowledge=knowledge(3), noise=0.05, seed=3), policy("paper")).run()
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_another_seed_gives_other_arrivals() -> None:
    assert poisson(9, 100, 0) != poisson(9, 100, 1)


def test_a_simulation_that_can_not_end_says_which_jobs_are_stuck() -> None:
    tiny = [Node(name="n", allocatable={"cpu": 1})]
    with pytest.raises(ValueError, match="the jobs a never end"):
        Simulation(World(tiny, [one(10)], settings=PlanSettings()), policy("fifo")).run()


def test_jobs_of_a_trace_take_their_duration_at_their_size(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("timestamp,duration,num_gpus\n2017-10-09 07:01:55,60.0,2\n2017-10-09 07:00:55,30.0,1\n")
    first, second = read_trace(file)
    assert (first.view.arrived, second.view.arrived) == (0, 60)
    speed = speed_model(SpeedKind.ALL_REDUCE, (1.0, 0.05, 0.005))
    assert second.work / float(speed.predict(0, 2)) == pytest.approx(60)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "timestamp,duration\n",
            "lacks the column num_gpus. Write timestamp,duration,num_gpus in its first line",
            id="no GPUs",
        ),
        pytest.param("timestamp,duration,num_gpus\nnow,1,1\n", "line 2", id="a time that is none"),
        pytest.param("timestamp,duration,num_gpus\n", "has no job", id="no job"),
    ],
)
def test_a_trace_that_can_not_be_read_says_where(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(SpecificationError, match=said):
        read_trace(file)
