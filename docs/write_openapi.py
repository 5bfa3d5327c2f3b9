"""Writes docs/openapi.json, the API behind the page: ``PYTHONPATH=plugins .venv/bin/python docs/write_openapi.py``."""

from __future__ import annotations

import json
from pathlib import Path

PLACE = Path(__file__).with_name("openapi.json")


def document() -> str:
    """Return the OpenAPI document of our own routes."""
    from optimus_airflow.web.app import make_app

    return json.dumps(make_app().openapi(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    PLACE.write_text(document())
