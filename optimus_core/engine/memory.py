"""Memory that grows after it ran out, and is remembered for the next run of the same task."""

from __future__ import annotations

from optimus_core.job import TrainingJob
from optimus_core.settings import Settings
from optimus_core.store import JobRow, Transaction, WorkloadRow

MEMORY = "memory"


def grow(settings: Settings, tx: Transaction, owner: JobRow) -> None:
    """Give a job's replicas more memory from its next generation on, up to the cap."""
    owner.memory_factor = min(owner.memory_factor * settings.memory_growth, settings.memory_cap_factor)
    tx.record(owner, "memory_grown", None, factor=owner.memory_factor)


def remember(tx: Transaction, owner: JobRow, job: TrainingJob) -> None:
    """Keep what the replicas have, once a generation has made a step with it: what no node has is never kept."""
    if owner.memory_factor > 1:
        tx.workload(owner.workload).memory = {
            role: round(asked * owner.memory_factor) for role, asked in _asked(job).items()
        }


def remembered_factor(known: WorkloadRow | None, job: TrainingJob) -> float:
    """Return how many times the memory asked for a job starts with; at least 1.

    Who asks for more than last time, for whichever role, gets that much less on top: a user who has corrected the
    guess is not given more than was needed.
    """
    if known is None or not known.memory:
        return 1.0
    return max(1.0, min((known.memory.get(role, 0) / asked for role, asked in _asked(job).items()), default=1.0))


def _asked(job: TrainingJob) -> dict[str, int]:
    roles = {"worker": job.workers, "server": job.servers}
    return {role: each.demand[MEMORY] for role, each in roles.items() if each is not None and each.demand.get(MEMORY)}
