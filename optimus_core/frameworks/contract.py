"""What the replicas of one generation are told about each other, before any framework's words for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from optimus_core.roles import Endpoint, Role


@dataclass(frozen=True)
class Member:
    """One replica of a group; ``index`` counts within its role, from 0."""

    role: Role
    index: int
    endpoint: Endpoint


@dataclass(frozen=True)
class Group:
    """All replicas of one generation of a job, and what they share."""

    job: str
    generation: int
    attempt: int
    members: tuple[Member, ...]
    batch_size: int | None = None
    """None: the script knows."""
    batch_per: str = "job"
    """Whose batch that is: of the whole ``job`` or of each ``worker``."""
    checkpoints: str = ""
    """The folder that holds one folder per generation."""
    confirmed_step: int | None = None
    """The step of the newest checkpoint in it that is known to be complete."""
    grace_seconds: float = 30.0

    @cached_property
    def workers(self) -> tuple[Member, ...]:
        """The workers by rank."""
        return self._of(Role.WORKER)

    @cached_property
    def servers(self) -> tuple[Member, ...]:
        """The parameter servers by rank; none with all-reduce."""
        return self._of(Role.SERVER)

    @cached_property
    def scheduler(self) -> Member | None:
        """The third process that MXNet needs."""
        return next(iter(self._of(Role.SCHEDULER)), None)

    def _of(self, role: Role) -> tuple[Member, ...]:
        return tuple(sorted((m for m in self.members if m.role is role), key=lambda member: member.index))
