"""What is kept beside the sources is what they give."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]
UI = ROOT / "plugins" / "optimus_airflow" / "ui"


def test_the_openapi_document_is_that_of_the_routes():
    spec = importlib.util.spec_from_file_location("write_openapi", ROOT / "docs" / "write_openapi.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.PLACE.read_text() == writer.document(), "run: make openapi"


def test_the_bundle_is_made_of_the_sources():
    names = [f"src/{path.name}" for path in (UI / "src").iterdir() if ".test." not in path.name]
    sources = hashlib.sha256()
    for name in sorted([*names, "package-lock.json", "vite.config.ts"]):
        sources.update((UI / name).read_bytes())
    assert f"sources {sources.hexdigest()}" in (UI / "bundle" / "optimus.js").read_text(), "run: make page"
