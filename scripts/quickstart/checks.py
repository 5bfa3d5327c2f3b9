"""What must have held while the jobs ran, read from the store's history."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from optimus_core.cluster.base import NodeInfo
from optimus_core.engine.engine import Engine
from optimus_core.engine.launch import demand_by_node
from optimus_core.resources import Resources


def most_asked_for(engine: Engine, nodes: list[NodeInfo]) -> tuple[list[str], dict[str, Resources]]:
    """Return what was asked for beyond what there is (nothing, if all is right), and each node's highest use."""
    changes: list[tuple[datetime, int, str, Resources]] = []
    with engine.store.transaction() as tx:
        for job in tx.jobs():
            for generation in tx.generations(job.id):
                if generation.starting_at is None:
                    continue
                for node, asked in demand_by_node(job, generation).items():
                    changes.append((generation.starting_at, 1, node, asked))
                    changes.append((generation.gone_at or tx.now, 0, node, asked))
    room = {node.name: node.allocatable for node in nodes}
    held: dict[str, Resources] = {node: Resources() for node in room}
    highest, violations = dict(held), []
    for moment, begins, node, asked in sorted(changes, key=lambda change: (change[0], change[1])):
        held[node] = held[node] + asked if begins else held[node] - asked
        highest[node] = Resources({k: max(held[node][k], highest[node][k]) for k in {*held[node], *highest[node]}})
        if not held[node].fits_in(room[node]):
            violations.append(
                f"{moment:%H:%M:%S}: {node} has {room[node].describe()}, {held[node].describe()} asked for"
            )
    return violations, highest


def steps_lost(history: dict[str, Any]) -> list[str]:
    """Return where a generation began before the newest checkpoint that was confirmed before it started."""
    wrong, confirmed = [], 0
    starts = {g["number"]: g for g in history["generations"] if g["first_step"] is not None}
    for event in history["events"]:
        if event["kind"] == "checkpoint":
            confirmed = int(event["cause"]["step"])
        elif event["kind"] == "starting" and event["generation"] in starts:
            first = starts[event["generation"]]["first_step"]
            if first < confirmed:
                wrong.append(
                    f"generation {event['generation']} began at step {first}, checkpoint {confirmed} was there"
                )
    return wrong
