"""Kubernetes' own placement in place of ours."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.paper._lab import Decide
from optimus_core.scheduling.types import Amounts, Decision, JobView, Placement, Plan, Size, Snapshot

Free = dict[str, dict[str, int]]
_SERVER, _WORKER = Size(servers=1), Size(workers=1)


def spread(decide: Decide) -> Decide:
    """Return the policy with the same sizes whose replicas go one by one to the emptiest node.

    Source: Kubernetes' default scheduler prefers the node of which the smallest part is requested (LeastAllocated).
    Who keeps its size keeps its nodes. All replicas of a cluster have to be of one size, so that those that fit in
    one arrangement fit in each.
    """

    def decided(snapshot: Snapshot) -> Plan:
        plan, jobs = decide(snapshot), {job.name: job for job in snapshot.jobs}
        free: Free = {node.name: dict(node.allocatable) for node in snapshot.nodes}
        whole = {node.name: node.allocatable for node in snapshot.nodes}
        made: dict[str, Decision] = {}
        for decision in sorted(plan.decisions, key=lambda decision: decision.size != decision.present):
            job = jobs[decision.job]
            stays = decision.size == decision.present
            placement = job.placement if stays else _spread(free, whole, job, decision.size)
            for node, size in placement.items():
                _take(free[node], _demand(job, size))
            made[job.name] = decision.model_copy(update={"placement": placement, "changed": not stays})
        return plan.model_copy(update={"decisions": [made[decision.job] for decision in plan.decisions]})

    return decided


def _spread(free: Free, whole: Mapping[str, Amounts], job: JobView, size: Size) -> Placement:
    left = {node: dict(amounts) for node, amounts in free.items()}
    placement: Placement = {}
    for one in [_SERVER] * size.servers + [_WORKER] * size.workers:
        node = _emptiest(left, whole, _demand(job, one))
        _take(left[node], _demand(job, one))
        had = placement.get(node, Size())
        placement[node] = Size(servers=had.servers + one.servers, workers=had.workers + one.workers)
    return placement


def _emptiest(left: Free, whole: Mapping[str, Amounts], asked: Amounts) -> str:
    able = [node for node in left if all(left[node].get(name, 0) >= amount for name, amount in asked.items())]
    return max(able, key=lambda node: min(left[node][name] / whole[node][name] for name in asked))


def _take(room: dict[str, int], asked: Amounts) -> None:
    for name, amount in asked.items():
        room[name] -= amount


def _demand(job: JobView, size: Size) -> Amounts:
    wanted = {
        name: size.workers * job.worker_demand.get(name, 0) + size.servers * job.server_demand.get(name, 0)
        for name in {**job.worker_demand, **job.server_demand}
    }
    return {name: amount for name, amount in wanted.items() if amount}
