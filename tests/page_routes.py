"""Every route of the page's API, read from its document: a new one can't be left out of what is tested of all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

DOCUMENT = json.loads((Path(__file__).parents[1] / "docs" / "openapi.json").read_text())


class Route(NamedTuple):
    """A route, and a body that it takes; ``path`` has the document's names in braces."""

    method: str
    path: str
    body: dict[str, Any] | None

    def at(self, **named: str) -> str:
        """Return the path under Airflow's address; what is not named stands for something that is there."""
        return "/optimus" + self.path.format(**{"cluster": "local", "round_id": "1", **named})


def routes(of: str = "") -> list[Any]:
    """Return all routes, or those whose path holds ``of``, as pytest's parameters."""
    found = [
        Route(method.upper(), path, _body(operation))
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
        if of in path
    ]
    return [pytest.param(route, id=f"{route.method} {route.path}") for route in found]


def _body(operation: dict[str, Any]) -> dict[str, Any] | None:
    if "requestBody" not in operation:
        return None
    name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
    schema = DOCUMENT["components"]["schemas"][name]
    return {field: _least(schema["properties"][field]) for field in schema.get("required", [])}


def _least(schema: dict[str, Any]) -> int | str:
    return int(schema.get("minimum", 0)) if schema["type"] == "integer" else "x"
