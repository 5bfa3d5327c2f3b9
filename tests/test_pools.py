"""Pools as they are declared, and which of them a job counts for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from optimus_core.errors import SpecificationError
from optimus_core.pools import pool_of, read_pools
from optimus_core.settings import load_clusters

POOLS = """
team-a: {guaranteed: 40%, ceiling: {nvidia.com/gpu: 4}, namespaces: [team-a]}
team-b: {guaranteed: {cpu: "8", memory: 64Gi}, labels: {team: b}}
batch: {ceiling: 25.5%}
"""


def test_declared_pools_are_read(tmp_path: Path) -> None:
    path = tmp_path / "clusters.yaml"
    path.write_text(yaml.safe_dump({"k": {"kind": "kubernetes", "in_cluster": True, "pools": yaml.safe_load(POOLS)}}))
    batch, a, b = read_pools(load_clusters(path)["k"]["pools"])  # yaml sorts them
    assert (a.guaranteed.share, a.ceiling.of, a.namespaces, a.is_open) == (
        0.4,
        {"nvidia.com/gpu": 4},
        ("team-a",),
        False,
    )
    assert (b.guaranteed.of, b.labels) == ({"cpu": 8000, "memory": 64 * 2**30}, {"team": "b"})
    assert (batch.ceiling.share, batch.is_open) == (0.255, True)


@pytest.mark.parametrize(
    ("named", "namespace", "labels", "want"),
    [
        pytest.param("default", "team-a", {}, "team-a", id="by-its-namespace"),
        pytest.param("default", "other", {"team": "b"}, "team-b", id="by-its-labels"),
        pytest.param("default", "", None, "default", id="by-nothing"),
        pytest.param("batch", "team-a", {}, "batch", id="one-that-is-open-to-all"),
        pytest.param("team-a", "team-a", {}, "team-a", id="its-own-by-name"),
    ],
)
def test_a_job_counts_for(named: str, namespace: str, labels: dict[str, str] | None, want: str) -> None:
    assert pool_of(read_pools(yaml.safe_load(POOLS)), "j", named, namespace, labels) == want


def test_where_no_pools_are_declared_any_name_is_taken() -> None:
    assert pool_of((), "j", "team-a", "", {}) == "team-a"


@pytest.mark.parametrize(
    ("named", "want"),
    [
        pytest.param("team-a", 'its pool is "team-a", which belongs to other namespaces or labels', id="of-others"),
        pytest.param(
            "bach", 'is not declared. Leave it out (then it is "default"), or write one that is open', id="new"
        ),
        pytest.param("bach", "open to all: batch.", id="what-it-may"),
    ],
)
def test_a_job_may_not_name(named: str, want: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        pool_of(read_pools(yaml.safe_load(POOLS)), "j", named, "other", {})
    assert want in str(caught.value)


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param([], "pools is []", id="a-list"),
        pytest.param({1: {"guaranteed": "40%"}}, "pools has the key 1, of type int", id="a-number-as-a-name"),
        pytest.param({"a": {"guaranteed": {"gpu": 1}}}, 'pools.a.guaranteed names "gpu"; a device is', id="no-device"),
        pytest.param({"a": {"guarantee": "40%"}}, 'Did you mean "guaranteed"?', id="a-misspelt-key"),
        pytest.param({"a": {"guaranteed": "140%"}}, 'pools.a.guaranteed is "140%"', id="more-than-all"),
        pytest.param({"a": {"guaranteed": 0.4}}, "Write such as 40% or {cpu", id="a-plain-number"),
        pytest.param({"a": {"ceiling": {"cpu": "-1"}}}, "pools.a.ceiling.cpu is negative", id="less-than-nothing"),
        pytest.param({"a": {"guaranteed": "60%"}, "b": {"guaranteed": "50%"}}, "110% together", id="too-much-in-all"),
        pytest.param(
            {"a": {"guaranteed": {"cpu": 4}, "ceiling": {"cpu": 2}}}, "more than its ceiling of cpu", id="a-low-ceiling"
        ),
        pytest.param({"a": {"guaranteed": "50%", "ceiling": "20%"}}, "more than its ceiling", id="a-low-share"),
        pytest.param({"a": {"namespaces": "x"}}, "it is a list. Write such as [team-a]", id="a-namespace-as-text"),
        pytest.param(
            {"a": {"namespaces": ["x"]}, "b": {"namespaces": ["x"]}}, "as those of a", id="a-namespace-of-two"
        ),
        pytest.param({"a": {"labels": {"team": 3}}}, "pools.a.labels", id="a-label-that-is-a-number"),
    ],
)
def test_a_bad_pool_is_named_with_what_to_write(data: Any, want: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        read_pools(data)
    assert want in str(caught.value)
