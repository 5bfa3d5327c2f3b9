"""What tests of the page ask of all that a person would meet there, and where its pictures go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PICTURES = (
    "cluster-light-1280", "cluster-dark-390", "cluster-queue", "cluster-pools", "job-task-dark", "job-dag-light",
    "job-drawn", "job-replicas", "job-servers",
)  # fmt: skip


def harmless(seen: dict[str, Any]) -> bool:
    """Say whether no script ran, nothing broke, nobody else was asked, and axe finds nothing serious."""
    return (seen["alerts"], seen["errors"], seen["elsewhere"], seen["serious"]) == (0, [], [], [])


def shot(name: str) -> dict[str, str]:
    """Where a picture goes, if it is one of the docs' and ``SHOTS=1`` asks for them."""
    return {"shot": str(IMAGES / f"{name}.png")} if name in PICTURES and os.environ.get("SHOTS") else {}
