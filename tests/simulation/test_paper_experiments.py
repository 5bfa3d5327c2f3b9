"""What the paper's experiments stand on: speeds as they were measured, and Kubernetes' placement."""

from __future__ import annotations

import pytest

from benchmarks.paper._jobs import MEASURED, measured
from benchmarks.paper._lab import cluster, world
from benchmarks.paper._spread import spread
from optimus_core.models import SpeedKind
from optimus_core.scheduling.plan import apply_plan
from optimus_core.scheduling.policies import policy
from optimus_core.scheduling.types import JobView, Size, Snapshot
from optimus_core.simulation.jobs import speed_model
from tests.scheduling.builders import make_job, make_node, make_snapshot, running, used

BATCH = {"resnext-110": 128, "resnet-50": 32, "inception-bn": 128, "ndsb": 32, "cnn-rand": 50, "seq2seq": 64}


@pytest.mark.parametrize(
    ("name", "servers", "workers", "samples"),
    [
        pytest.param("resnext-110", 5, 1, 507.4, id="ResNeXt-110, one worker"),
        pytest.param("resnext-110", 5, 5, 388.5, id="ResNeXt-110, slower with five"),
        pytest.param("resnet-50", 2, 4, 20.6, id="ResNet-50, two servers and four workers"),
        pytest.param("resnet-50", 4, 4, 32.4, id="ResNet-50, four of each"),
        pytest.param("inception-bn", 5, 3, 304.8, id="Inception-BN"),
        pytest.param("ndsb", 4, 4, 14.6, id="VGG-16 in place of NDSB's network"),
        pytest.param("cnn-rand", 3, 5, 97.9, id="CNN-rand"),
        pytest.param("seq2seq", 5, 5, 466.1, id="Seq2Seq"),
    ],
)
def test_jobs_are_about_as_fast_as_they_were_measured(name: str, servers: int, workers: int, samples: float) -> None:
    kind = next(kind for kind in MEASURED if kind.name == name)
    steps = float(speed_model(SpeedKind.PS_SYNC, kind.seconds).predict(servers, workers))
    assert steps * BATCH[name] == pytest.approx(samples, rel=0.25)


def test_the_part_of_asynchronous_jobs_is_as_asked() -> None:
    parts = [
        sum(job.view.strategy == "ps_async" for seed in range(20) for job in measured([0.0] * 9, seed, part)) / 180
        for part in (0.0, 0.5, 1.0)
    ]
    assert (parts[0], parts[2]) == (0.0, 1.0)
    assert parts[1] == pytest.approx(0.5, abs=0.1)


def two() -> JobView:
    return make_job("a", strategy="ps_sync", min_servers=1, max_servers=1, max_workers=1)


def test_spreading_takes_the_emptiest_node_for_each_replica() -> None:
    made = spread(policy("optimus"))(make_snapshot([make_node("n1", 4), make_node("n2", 4)], [two()]))
    assert made.decisions[0].placement == {"n1": Size(servers=1), "n2": Size(workers=1)}


def test_spreading_leaves_who_keeps_its_size_where_it_is() -> None:
    job = running("a", {"n2": (1, 1)}, strategy="ps_sync", min_servers=1, max_servers=1, max_workers=1)
    (decision,) = spread(policy("optimus"))(make_snapshot([make_node("n1", 8), make_node("n2", 4)], [job])).decisions
    assert (decision.placement, decision.changed) == (job.placement, False)


@pytest.mark.parametrize("name", ["optimus", "drf"])
def test_spreading_keeps_sizes_and_stays_within_the_nodes(name: str) -> None:
    jobs = [job.view for job in world(0).jobs]
    snapshot = Snapshot(time=0.0, nodes=cluster(), jobs=jobs[:5])
    for _ in range(2):
        plain, made = policy(name)(snapshot), spread(policy(name))(snapshot)
        assert [each.size for each in made.decisions] == [each.size for each in plain.decisions]
        snapshot = apply_plan(snapshot, made)
        for node in snapshot.nodes:
            asked = sum(used(job, job.placement).get(node.name, {}).get("cpu", 0) for job in snapshot.jobs)
            assert asked <= node.allocatable["cpu"]
        snapshot = snapshot.model_copy(update={"jobs": [*snapshot.jobs, *jobs[5:]]})
