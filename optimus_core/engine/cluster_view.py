"""What the page shows of a cluster: its nodes, the queue, sizes over time, rounds; and of all of them in one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from optimus_core.engine.context import Context
from optimus_core.engine.launch import demand_by_node
from optimus_core.engine.pool_views import pools_view
from optimus_core.engine.report import generation_dict, late_seconds
from optimus_core.errors import ClusterUnavailable, OptimusError, SpecificationError
from optimus_core.reasons import ReasonCode, render
from optimus_core.store import ACTIVE, GenerationRow, JobRow, RoundRow, Transaction
from optimus_core.store import views as stored

MOST_NODES = 500
MOST_JOBS = 40
"""Jobs of which the sizes are drawn."""
MOST_SIZES = 300
MOST_WAITING = 50
MOST_ROUNDS = 20
MOST_CHANGES = 200
MOST_DEADLINES = 1000
Seen = tuple[list[dict[str, Any]], str | None]
OTHERS = "jobs of other DAGs"
"""Who holds what a reader may not see by name."""
_SIZE = ("number", "state", "servers", "workers", "starting_at", "gone_at", "why", "ended_by")


def summary(ctx: Context, dags: Collection[str]) -> dict[str, Any]:
    """Return how many live jobs a reader of ``dags`` has, how many run, wait, and are or will be late; and clusters."""
    with ctx.store.transaction() as tx:
        states = stored.states_of(tx, dags)
        late = [row for row in stored.with_deadline(tx, dags, MOST_DEADLINES) if late_seconds(row, tx.now) is not None]
        clusters = stored.cluster_names(tx)
    return {
        "live": sum(states.values()),
        "running": states.get("running", 0),
        "waiting": states.get("queued", 0) + states.get("paused", 0),
        "late": len(late),
        "cluster": ctx.settings.cluster,
        "clusters": sorted({*clusters, ctx.settings.cluster}),
    }


def cluster_view(
    ctx: Context, name: str, dags: Collection[str], seen: Seen | None = None, *, hours: int = 6
) -> dict[str, Any]:
    """Return the nodes with who holds what; of the jobs that a reader of ``dags`` may see, queue and sizes over time.

    If the cluster can't be asked, ``error`` says why and there are no nodes; the rest is the store's.

    Args:
        ctx: the engine's context.
        name: the cluster.
        dags: whose jobs may be seen.
        seen: its nodes, as ``nodes_of`` has just returned them; without it they are asked for.
        hours: how far back sizes are told.
    """
    with ctx.store.transaction() as tx:
        holding = tx.holding(name)
        known = tx.peek_cluster(name)
        planned_at = known.planned_at if known is not None else None
        waiting = stored.waiting_by_pool(tx, name)
        found = {
            "cluster": name,
            "planned_at": planned_at.isoformat() if planned_at is not None else None,
            "queue": _queue(tx, name, dags, planned_at),
            "sizes": _sizes(tx, name, dags, tx.now - timedelta(hours=hours)),
            "rounds": [
                {"id": id_, "time": time.isoformat(), "changes": changes}
                for id_, time, changes in stored.rounds_page(tx, name, MOST_ROUNDS)
            ],
        }
    held = _held(holding, dags)
    nodes, error = seen or nodes_of(ctx, name)
    active = [(row, g) for row, g in holding if g.state in ACTIVE]
    shares = ((row, amounts) for row, g in active for amounts in _demands(row, g).values())
    pools = pools_view(ctx, name, nodes, shares, waiting)
    return found | {
        "error": error,
        "pools": pools,
        "nodes": [node | {"jobs": held.get(node["name"], {})} for node in nodes],
    }


def _queue(tx: Transaction, name: str, dags: Collection[str], planned_at: datetime | None) -> list[dict[str, Any]]:
    """Return who waits, in order; ``position`` counts jobs that the reader may not see, too."""
    waiting = []
    for job, title, state, priority, queued_at, reason in stored.waiting_jobs(tx, dags, name, MOST_WAITING):
        numbers = (reason or {}).get("numbers") or {}
        waiting.append(
            {
                "name": job,
                "title": title,
                "state": state,
                "priority": priority,
                "position": numbers.get("position"),
                "since": queued_at.isoformat(),
                "starts_at": _moment(planned_at, numbers.get("start_seconds")),
                "why": _sentence(reason),
            }
        )
    return sorted(waiting, key=lambda each: (each["position"] is None, each["position"]))


def _moment(planned_at: datetime | None, seconds: Any) -> str | None:
    if planned_at is None or not isinstance(seconds, int | float):
        return None
    return (planned_at + timedelta(seconds=seconds)).isoformat()


def _sentence(reason: Mapping[str, Any] | None) -> str:
    return render(reason["code"], reason.get("numbers")) if reason else ""


def _sizes(tx: Transaction, name: str, dags: Collection[str], since: datetime) -> list[dict[str, Any]]:
    jobs = {
        job_id: {"name": job, "job": title, "job_state": state}
        for job_id, job, title, state in stored.jobs_since(tx, dags, name, since, MOST_JOBS)
    }
    return [jobs[g.job_id] | _size(g) for g in stored.generations_since(tx, jobs, since, MOST_SIZES)]


def _size(row: GenerationRow) -> dict[str, Any]:
    whole = generation_dict(row)
    return {key: whole[key] for key in _SIZE}


def _held(
    holding: Iterable[tuple[JobRow, GenerationRow]], dags: Collection[str]
) -> dict[str, dict[str, dict[str, int]]]:
    """Return node -> whose -> amounts."""
    held: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for row, generation in holding:
        if generation.state not in ACTIVE:
            continue
        for node, amount in _demands(row, generation).items():
            who = row.title if row.dag_id in dags else OTHERS
            before = held[node].get(who, {})
            held[node][who] = {k: before.get(k, 0) + amount.get(k, 0) for k in {*before, *amount}}
    return held


def _demands(row: JobRow, generation: GenerationRow) -> dict[str, dict[str, int]]:
    try:
        return {node: dict(amount) for node, amount in demand_by_node(row, generation).items()}
    except (OptimusError, ArithmeticError, LookupError, TypeError, ValueError):
        return {}  # a job that can't be understood hides no other


def nodes_of(ctx: Context, name: str) -> Seen:
    """Return what each node of a cluster offers, and why they are not known if the cluster can't be asked.

    Raises:
        SpecificationError: no such cluster is declared.
    """
    try:
        found = ctx.cluster(name).nodes()[:MOST_NODES]
    except ClusterUnavailable as error:
        return [], str(error)
    return [
        {"name": n.name, "ready": n.ready, "allocatable": dict(n.allocatable), "others": dict(n.others)} for n in found
    ], None


def round_view(ctx: Context, name: str, round_id: int, dags: Collection[str]) -> dict[str, Any]:
    """Return what a round changed, and what it would have changed but for the cost, of jobs that may be seen.

    Raises:
        SpecificationError: the cluster had no such round, or it is no longer kept.
    """
    with ctx.store.transaction() as tx:
        row = tx.session.get(RoundRow, round_id)
        if row is None or row.cluster != name:
            raise SpecificationError(f'cluster "{name}" has no round {round_id}, or it is no longer kept')
        decisions = [each for each in row.plan.get("decisions", []) if each["changed"] or _is_not_worth_it(each)]
        titles = stored.titles_of(tx, dags, [each["job"] for each in decisions])
        told = [
            _decided(each, titles[each["job"]]) | {"changed": each["changed"]}
            for each in decisions
            if each["job"] in titles
        ]
        return {"id": row.id, "time": row.time.isoformat(), "decisions": told[:MOST_CHANGES]}


def _is_not_worth_it(decision: Mapping[str, Any]) -> bool:
    return bool(decision["reason"]["code"] == ReasonCode.KEPT_CHANGE_NOT_WORTH_COST.value)


def _decided(decision: Mapping[str, Any], title: str) -> dict[str, Any]:
    return {
        "name": decision["job"],
        "title": title,
        "before": decision["present"],
        "after": decision["size"],
        "why": _sentence(decision["waits_for"] or decision["reason"]),
    }
