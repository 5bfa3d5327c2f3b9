"""Every route against its own OpenAPI document: whatever is asked, no answer is a fault, and each is as it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

pytestmark = pytest.mark.xdist_group("api")
DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())


@pytest.fixture(scope="session")
def written(server: dict[str, Any]) -> Any:
    """The document, and the application that has to keep to it."""
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    schema.app = server["user"].app
    schema.config.update(base_url="http://testserver/optimus")
    return schema


SCHEMA = schemathesis.pytest.from_fixture("written")


@SCHEMA.parametrize()
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_its_document_says(case, server, jobs):
    headers = {"Authorization": server["user"].headers["authorization"]}
    case.call_and_validate(headers=headers)  # a name that nobody has, nearly always; then one that is there
    real = {"name": jobs["digits"], "cluster": "local", "round_id": 1}
    case.path_parameters = {name: real[name] for name in case.path_parameters or {}}
    case.call_and_validate(headers=headers)
