"""What replicas are to each other: their roles and where they listen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a replica does in its job."""

    WORKER = "worker"
    SERVER = "server"
    SCHEDULER = "scheduler"


@dataclass(frozen=True)
class Endpoint:
    """Where a replica listens; known before it starts."""

    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``, the host in brackets if it has colons of its own."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
