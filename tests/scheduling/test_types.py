"""Snapshots as JSON."""

from __future__ import annotations

import json

import jsonschema
import pytest

from optimus_core.errors import SpecificationError
from optimus_core.scheduling.plan import plan
from optimus_core.scheduling.types import Snapshot, snapshot_schema
from tests.scheduling.builders import make_job, make_node, make_snapshot

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
    ],
)  # fmt: skip
def test_what_is_no_snapshot_is_refused_clearly(text: str, want: str) -> None:
    with pytest.raises(SpecificationError) as error:
        Snapshot.from_json(text)
    assert want in str(error.value)
