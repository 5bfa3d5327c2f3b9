"""Snapshots as JSON."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from optimus_core.errors import SpecificationError
from optimus_core.scheduling.plan import plan
from optimus_core.scheduling.types import Node, Snapshot, snapshot_schema
from tests.scheduling.builders import make_job, make_node, make_snapshot, speed

SNAPSHOT = make_snapshot([make_node("n")], [make_job("a"), make_job("b", strategy="ps_async")])


def test_a_snapshot_follows_its_schema() -> None:
    jsonschema.validate(json.loads(SNAPSHOT.to_json()), snapshot_schema())


def test_a_plan_is_plain_data() -> None:
    assert json.loads(json.dumps(plan(SNAPSHOT).to_dict()))["decisions"][0]["job"] == "a"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("{", "can't be read", id="broken"),
        pytest.param("[]", "can't be read", id="a-list"),
        pytest.param('{"time": 1}', "version", id="no-version"),
        pytest.param('{"version": 99, "time": 1}', "version 99; this Optimus reads version 1", id="newer"),
        pytest.param('{"version": 1, "time": 1, "x": 2}', "x: Extra inputs", id="unknown-field"),
        pytest.param('{"version": 1}', "time: Field required", id="missing-field"),
        pytest.param('{"version": 1, "time": NaN}', "time", id="not-finite"),
        pytest.param('{"version": 1, "time": "soon"}', 'not "soon"', id="words-for-a-number"),
        pytest.param('{"version": 1, "time": 1, "cluster": "\\ud800"}', "hex escape", id="half-a-character"),
        pytest.param(b'{"version": 1, "time": 1, "cluster": "\xff"}', "unicode", id="no-text"),
    ],
)  # fmt: skip
def test_what_is_no_snapshot_is_refused_clearly(text: str | bytes, want: str) -> None:
    with pytest.raises(SpecificationError) as error:
        Snapshot.from_json(text)
    assert want in str(error.value)


def with_job(**changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(SNAPSHOT.to_json())
    data["jobs"][0] |= changes
    return data


def with_node(**changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(SNAPSHOT.to_json())
    data["nodes"][0] |= changes
    return data


def with_twice(kind: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(SNAPSHOT.to_json())
    data[kind] += data[kind][:1]
    return data


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(with_twice("jobs"), '2 jobs have the name "a"', id="a job twice"),
        pytest.param(with_twice("nodes"), '2 nodes have the name "n"', id="a node twice"),
        pytest.param(with_job(min_workers=9), 'job "a": min_workers is 9, more than max_workers', id="min over max"),
        pytest.param(with_job(min_servers=2), "min_servers is 2, more than max_servers", id="servers min over max"),
        pytest.param(with_job(size={"workers": 1}), "size has 1 workers, but placement 0", id="placed nowhere"),
        pytest.param(
            with_job(placement={"n": {"servers": 2}}), "size has 0 servers, but placement 2", id="placed without a size"
        ),
        pytest.param(with_job(speed={"a": 1}), "speed is no speed model (KeyError: ", id="another model"),
        pytest.param(with_job(speed=speed(1.0) | {"kind": "ring"}), "speed is no speed model", id="an unknown kind"),
        pytest.param(with_job(speed=speed(1.0) | {"kind": "allreduce"}), "speed is no", id="too few coefficients"),
        pytest.param(
            with_job(speed=speed(1.0, 0.1, "x") | {"kind": "allreduce"}),  # type: ignore[arg-type]
            "speed is no speed model",
            id="words for coefficients",
        ),
        pytest.param(with_job(max_workers=10**400), "max_workers: ", id="endless workers"),
        pytest.param(with_job(priority=10**400), "priority: ", id="an endless priority"),
        pytest.param(with_job(worker_demand={"cpu": 2**53 + 1}), "an amount is at most", id="an endless demand"),
        pytest.param(with_node(allocatable={"cpu": 10**400}), "an amount is at most", id="an endless node"),
    ],
)
def test_what_no_cluster_can_be_in_is_refused_with_its_place(data: dict[str, Any], want: str) -> None:
    with pytest.raises(SpecificationError, match=r"^The snapshot (does not follow|contradicts)") as error:
        Snapshot.from_json(json.dumps(data))
    assert want in str(error.value)
    assert len(str(error.value)) < 500


def test_a_cluster_that_says_it_has_more_than_can_be_counted_is_planned_all_the_same() -> None:
    node = Node(name="n", allocatable={"cpu": 2**63, "memory": 2**62})
    snapshot = make_snapshot([node, make_node("m")], [make_job("a")])
    assert plan(snapshot).decisions[0].size.workers > 0
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
