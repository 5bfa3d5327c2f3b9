"""The store: tables, migrations and queries. The only place that knows SQL."""

from optimus_core.store.news import News, news
from optimus_core.store.store import CONFLICTS, Store, is_of_the_store, is_unreachable
from optimus_core.store.tables import (
    ActionRow,
    ClusterRow,
    EventRow,
    GenerationRow,
    JobRow,
    OutputRow,
    RoundRow,
    SeriesRow,
    SpeedRow,
    WorkloadRow,
)
from optimus_core.store.transaction import ACTIVE, FINAL, LIVE, Transaction

__all__ = [
    "ACTIVE",
    "CONFLICTS",
    "FINAL",
    "LIVE",
    "ActionRow",
    "ClusterRow",
    "EventRow",
    "GenerationRow",
    "JobRow",
    "News",
    "OutputRow",
    "RoundRow",
    "SeriesRow",
    "SpeedRow",
    "Store",
    "Transaction",
    "WorkloadRow",
    "is_of_the_store",
    "is_unreachable",
    "news",
]
