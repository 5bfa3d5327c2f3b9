"""What it costs a job that its traffic leaves a node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.models import SpeedKind
from optimus_core.scheduling.policies import policy
from optimus_core.scheduling.types import JobView, Node, Size
from optimus_core.simulation import Simulation, TrueJob, World
from optimus_core.simulation.crossing import crossing_share
from optimus_core.simulation.jobs import speed_model

counts = st.tuples(st.integers(0, 8), st.integers(0, 8))
placements = st.dictionaries(st.sampled_from("abcde"), counts, min_size=1).map(
    lambda found: {node: Size(servers=p, workers=w) for node, (p, w) in found.items()}
)


@pytest.mark.parametrize(
    ("placement", "asynchronous", "synchronous"),
    [
        pytest.param({"a": (1, 1), "b": (1, 1)}, 0.5, 0.5, id="even: half of each gradient"),
        pytest.param({"a": (2, 1), "b": (0, 1)}, 0.5, 1.0, id="the worker without a server has all; others wait"),
        pytest.param({"a": (3, 2), "b": (1, 2)}, 0.5, 0.75, id="a quarter of the servers here"),
        pytest.param({"a": (2, 0), "b": (0, 2)}, 1.0, 1.0, id="servers apart"),
        pytest.param({"a": (0, 2), "b": (0, 1)}, 1.0, 1.0, id="a ring over two nodes"),
        pytest.param({"a": (0, 4)}, 0.0, 0.0, id="a ring on one node"),
        pytest.param({}, 0.0, 0.0, id="nothing"),
    ],
)
def test_the_share_that_leaves(placement: dict[str, tuple[int, int]], asynchronous: float, synchronous: float) -> None:
    sizes = {node: Size(servers=p, workers=w) for node, (p, w) in placement.items()}
    assert crossing_share(sizes, synchronous=False) == pytest.approx(asynchronous)
    assert crossing_share(sizes, synchronous=True) == pytest.approx(synchronous)


@given(counts, st.booleans())
def test_nothing_leaves_one_node(count: tuple[int, int], synchronous: bool) -> None:
    assert crossing_share({"a": Size(servers=count[0], workers=count[1])}, synchronous=synchronous) == 0


@given(placements)
def test_waiting_for_all_is_never_better_than_the_average(placement: dict[str, Size]) -> None:
    average, slowest = (crossing_share(placement, synchronous=synchronous) for synchronous in (False, True))
    assert 0 <= average <= slowest + 1e-9
    assert slowest <= 1


@given(placements, st.booleans())
def test_moving_a_server_away_from_the_workers_never_helps(placement: dict[str, Size], synchronous: bool) -> None:
    node = max(placement, key=lambda node: placement[node].servers)
    had = placement[node]
    if not had.servers:
        return
    moved = {**placement, node: Size(servers=had.servers - 1, workers=had.workers), "far": Size(servers=1)}
    assert crossing_share(moved, synchronous=synchronous) >= crossing_share(placement, synchronous=synchronous) - 1e-9


def job(work: float) -> TrueJob:
    """A job of one worker and one server that never fit on one node: a step a second while they cross no network."""
    speed = speed_model(SpeedKind.PS_SYNC, (1.0, 0.0, 0.0, 0.0, 0.0)).to_dict()
    demand = {"cpu": 1000}
    view = JobView(
        name="a", state="queued", arrived=0, strategy="ps_sync", worker_demand=demand, server_demand=demand,
        max_workers=1, min_servers=1, max_servers=1, speed=speed,
    )  # fmt: skip
    return TrueJob(view, work, (20 / work, 0.3, 0.2))


@pytest.mark.parametrize(
    ("cpu", "crossing", "seconds"),
    [
        pytest.param(1000, 0.0, 1000, id="free to cross"),
        pytest.param(1000, 0.5, 1500, id="apart: half as long again"),
        pytest.param(2000, 0.5, 1000, id="on one node: as fast as ever"),
    ],
)
def test_a_job_over_two_nodes_is_slower_by_what_crosses(cpu: int, crossing: float, seconds: float) -> None:
    nodes = [Node(name=f"n{place}", allocatable={"cpu": cpu}) for place in range(2)]
    result = Simulation(World(nodes, [job(1000)], crossing=crossing), policy("optimus")).run()
    assert result.makespan == pytest.approx(seconds)
