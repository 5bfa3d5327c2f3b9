"""Pools: guarantees, ceilings, and who borrows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimus_core.scheduling.allocate import Allocation, allocate
from optimus_core.scheduling.plan import apply_plan
from optimus_core.scheduling.priced import priced
from optimus_core.scheduling.request import NOTHING, Quota, Request
from optimus_core.scheduling.types import JobView, Pool, Snapshot
from tests.scheduling.builders import make_job, make_node, make_snapshot, running, sizes, speed
from tests.scheduling.test_allocate import requests
from tests.scheduling.test_properties import eventful, free_of

QUICK = settings(max_examples=30, deadline=None, derandomize=True)
FEW = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
LINEAR = speed(10.0, 0.0, 0.0)
NAMES = ("a", "b", "default")


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Request], dict[str, int], dict[str, Quota]]:
    """Jobs that may wait, of pools that together are guaranteed no more than there is."""
    capacity = draw(st.integers(2, 24))
    made = []
    for request in draw(requests(1)):
        pool = draw(st.sampled_from(NAMES))
        given = {"pool": pool, "may_pause": True, "remaining": request.remaining}
        made.append(
            Request(request.name, request.sizes, request.demand, request.seconds, present=request.present, **given)
        )
    own = draw(st.integers(0, capacity))
    guaranteed = {"a": own, "b": draw(st.integers(0, capacity - own))}
    quotas = {
        name: Quota({"r0": amount}, draw(st.sampled_from([{}, {"r0": draw(st.integers(amount, capacity))}])))
        for name, amount in guaranteed.items()
    }
    return made, {"r0": capacity}, quotas


def use_of(made: list[Request], found: dict[str, tuple[int, int]]) -> dict[str, float]:
    """Pool -> what its jobs have of the one resource."""
    use = dict.fromkeys(NAMES, 0.0)
    for request in made:
        use[request.pool] += amount(request, found[request.name])
    return use


def amount(request: Request, size: tuple[int, int]) -> float:
    return 0.0 if size == NOTHING else float(np.asarray(request.demand["r0"])[list(request.sizes).index(size)])


def chosen(found: Allocation) -> dict[str, tuple[int, int]]:
    return {name: choice.size for name, choice in found.choices.items()}


@QUICK
@given(cases())
def test_no_pool_has_more_than_its_ceiling_and_all_no_more_than_there_is(
    case: tuple[list[Request], dict[str, int], dict[str, Quota]],
) -> None:
    made, capacity, quotas = case
    use = use_of(made, chosen(allocate(made, capacity, pools=quotas)))
    assert sum(use.values()) <= capacity["r0"] + 1e-6
    assert all(use[name] <= quota.ceiling.get("r0", math.inf) + 1e-6 for name, quota in quotas.items())


@QUICK
@given(cases(), st.sampled_from([0, 120]))
def test_a_pool_lacks_nothing_of_its_guarantee_that_would_be_worth_something(
    case: tuple[list[Request], dict[str, int], dict[str, Quota]], exact: int
) -> None:
    made, capacity, quotas = case
    found = allocate(made, capacity, pools=quotas, exact=exact)
    use = use_of(made, chosen(found))
    for request in made:
        own = quotas[request.pool].guaranteed["r0"] if request.pool in quotas else 0.0
        now = found.choices[request.name].size
        for size, worth in found.worths[request.name].items():
            more = amount(request, size) - amount(request, now)
            if more > 0 and use[request.pool] + more <= own and amount(request, size) <= _useful(request, found):
                assert worth <= found.worths[request.name][now] * (1 + 1e-6), (request.name, now, size)


def _useful(request: Request, found: Allocation) -> float:
    worths = found.worths[request.name]
    return amount(request, max(worths, key=lambda size: (worths[size], -amount(request, size))))


@QUICK
@given(cases())
def test_small_problems_with_pools_are_solved_as_well_as_by_trying_everything(
    case: tuple[list[Request], dict[str, int], dict[str, Quota]],
) -> None:
    made, capacity, quotas = case
    found = allocate(made, capacity, pools=quotas)
    useful = dict.fromkeys(NAMES, 0.0)
    for request in made:
        useful[request.pool] += _useful(request, found)
    kept = {n: min(useful[n], quotas[n].guaranteed["r0"] if n in quotas else 0.0) for n in NAMES}
    best = 0.0
    for combination in itertools.product(*[found.worths[request.name] for request in made]):
        sizes_ = dict(zip([request.name for request in made], combination, strict=True))
        use = use_of(made, sizes_)
        within = all(use[n] <= quota.ceiling.get("r0", math.inf) for n, quota in quotas.items())
        if within and sum(max(use[n], kept[n]) for n in NAMES) <= capacity["r0"]:
            best = max(best, sum(found.worths[name][size] for name, size in sizes_.items()))
    assert found.worth >= best * (1 - 1e-6)


@QUICK
@given(cases())
def test_pools_without_limits_change_nothing(case: tuple[list[Request], dict[str, int], dict[str, Quota]]) -> None:
    made, capacity, _ = case
    assert chosen(allocate(made, capacity, pools={"a": Quota()})) == chosen(allocate(made, capacity))


@st.composite
def pooled(draw: st.DrawFn) -> Snapshot:
    """Any cluster with running and queued jobs of three pools, the last not declared, some with deadlines."""
    snapshot = draw(eventful())
    jobs = [
        job.model_copy(
            update={
                "pool": draw(st.sampled_from(NAMES)),
                "has_checkpoint": draw(st.booleans()),
                "deadline": draw(st.sampled_from([None, 900.0, 1100.0, 9000.0])),
            }
        )
        for job in snapshot.jobs
    ]
    shares = draw(st.sampled_from([(0.5, 0.5), (0.3, 0.2), (0.9, 0.0)]))
    pools = [
        Pool(name=name, guaranteed_share=share, ceiling_share=draw(st.sampled_from([None, None, 0.6])))
        for name, share in zip(NAMES[:2], shares, strict=True)
    ]
    told = snapshot.settings.model_copy(update={"pausing": draw(st.sampled_from(["auto", "never"]))})
    return snapshot.model_copy(update={"jobs": jobs, "pools": pools, "settings": told})


@FEW
@given(pooled())
def test_no_node_is_asked_for_more_than_it_has_with_pools(snapshot: Snapshot) -> None:
    left = free_of(snapshot, priced(snapshot))
    assert all(value >= 0 for node in left.values() for value in node.values()), left


@FEW
@given(pooled())
def test_constant_load_of_pools_comes_to_rest(snapshot: Snapshot) -> None:
    settled = apply_plan(snapshot, priced(snapshot))
    assert [(d.job, d.present, d.size, d.reason) for d in priced(settled).decisions if d.changed] == []


@FEW
@given(pooled())
def test_no_pool_grows_beyond_its_ceiling(snapshot: Snapshot) -> None:
    made = priced(snapshot)
    views = {job.name: job for job in snapshot.jobs}
    for pool in made.pools:
        before: dict[str, int] = {}
        for job in views.values():
            if job.pool == pool.name:
                for name, value in _asked(job, job.size.servers, job.size.workers).items():
                    before[name] = before.get(name, 0) + value
        for name, most in pool.ceiling.items():
            assert pool.held.get(name, 0) <= max(most, before.get(name, 0))


def _asked(job: JobView, servers: int, workers: int) -> dict[str, int]:
    asked: dict[str, int] = {}
    extra = 1 if (servers, workers) != NOTHING else 0
    for demand, count in ((job.server_demand, servers), (job.worker_demand, workers), (job.scheduler_demand, extra)):
        for name, value in demand.items():
            asked[name] = asked.get(name, 0) + value * count
    return asked


HALF = [Pool(name="a", guaranteed={"cpu": 4000})]
LONG, SHORT = {"steps": 1e5, "speed": LINEAR}, {"steps": 500.0, "speed": LINEAR}


def cluster(jobs: list[JobView], pools: list[Pool] = HALF, pausing: str = "never") -> Snapshot:
    """One node of 8 cores, all of whose jobs ask for one core a worker."""
    made = make_snapshot([make_node("n", 8)], jobs, pausing=pausing)  # type: ignore[arg-type]
    return made.model_copy(update={"pools": pools})


def of(pool: str, name: str, workers: int = 0, **more: object) -> JobView:
    given = {"pool": pool, "max_workers": 8, **more}
    return running(name, {"n": (0, workers)}, **given) if workers else make_job(name, 1.0, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("jobs", "pools", "want"),
    [
        pytest.param(
            [of("b", "b", 8, **SHORT), of("a", "a", **LONG)], HALF, {"a": 4, "b": 4}, id="who-borrows-gives-back"
        ),
        pytest.param([of("b", "b", 4, **SHORT)], HALF, {"b": 8}, id="what-nobody-uses-is-lent"),
        pytest.param(
            [of("b", "b", 8, **SHORT), of("a", "a", max_workers=2, **LONG)],
            HALF,
            {"a": 2, "b": 6},
            id="what-the-owner-can-not-use-is-lent",
        ),
        pytest.param(
            [of("b", "b", 2, **SHORT)], [Pool(name="b", ceiling={"cpu": 3000})], {"b": 3}, id="a-ceiling-holds"
        ),
        pytest.param(
            [of("b", "b", 6, **SHORT)], [Pool(name="b", ceiling_share=0.5)], {"b": 4}, id="a-lower-ceiling-shrinks"
        ),
        pytest.param(
            [of("a", "a", 4, **LONG), of("b", "b", 4, **SHORT), of("c", "c", **LONG)],
            [Pool(name="a", guaranteed={"cpu": 4000}), Pool(name="c", guaranteed={"cpu": 2000})],
            {"a": 4, "b": 2, "c": 2},
            id="who-borrows-is-shrunk-first",
        ),
        pytest.param(
            [of("a", "a", 4, **LONG), *(of("b", f"b{n}", **SHORT) for n in range(6))],
            HALF,
            {"a": 4, **{f"b{n}": 1 for n in range(4)}, "b4": 0, "b5": 0},
            id="minimums-of-others-do-not-eat-a-guarantee",
        ),
        pytest.param(
            [of("b", f"b{n}", 1, **SHORT) for n in range(8)] + [of("a", "a", **LONG)],
            HALF,
            {"a": 0, **{f"b{n}": 1 for n in range(8)}},
            id="no-running-minimum-is-taken-without-pausing",
        ),
        pytest.param(
            [of("b", f"b{n}", 1, max_workers=1, **SHORT) for n in range(2)] + [of("b", "new", **SHORT)],
            [Pool(name="b", ceiling={"cpu": 2000})],
            {"b0": 1, "b1": 1, "new": 0},
            id="a-minimum-above-the-ceiling-waits",
        ),
        pytest.param(
            [of("a", "a", 8, **LONG), of("a", "new", **LONG)],
            [Pool(name="a", ceiling={"cpu": 8000}, guaranteed={"cpu": 4000})],
            {"a": 7, "new": 1},
            id="a-pool-makes-room-among-its-own",
        ),
    ],
)
def test_pools_get_what_they_are_promised(jobs: list[JobView], pools: list[Pool], want: dict[str, int]) -> None:
    made = priced(cluster(jobs, pools))
    assert {name: size[1] for name, size in sizes(made).items()} == want


def test_with_pausing_a_short_job_that_borrows_makes_room_for_a_long_one_within_its_guarantee() -> None:
    jobs = [of("b", f"b{n}", 1, has_checkpoint=True, **SHORT) for n in range(8)] + [of("a", "a", **LONG)]
    assert sizes(priced(cluster(jobs, pausing="auto")))["a"] == (0, 4)


@pytest.mark.parametrize(
    ("jobs", "pools", "job", "want"),
    [
        pytest.param(
            [of("b", "b", 8, **SHORT), of("a", "a", **LONG)],
            [*HALF, Pool(name="b", guaranteed={"cpu": 2000})],
            "b",
            "pool b held 8 cpu and holds 4 cpu, is guaranteed 2 cpu",
            id="shrunk",
        ),
        pytest.param(
            [of("a", "a", 4, **LONG), *(of("b", f"b{n}", **SHORT) for n in range(5))],
            [*HALF, Pool(name="b", ceiling={"cpu": 6000})],
            "b4",
            "; pool b holds 4 cpu, may have at most 6 cpu; number 1 of 1 in the queue",
            id="waits-for-room",
        ),
        pytest.param(
            [of("b", "b", 2, min_workers=2, **SHORT), of("b", "new", **SHORT)],
            [Pool(name="b", ceiling={"cpu": 2000})],
            "new",
            "Waits for its pool, which has all that it may have",
            id="waits-for-its-pool",
        ),
        pytest.param(
            [of("b", "b", 2, **SHORT)],
            [Pool(name="b", ceiling={"cpu": 2000})],
            "b",
            "its pool has all that it may have; one more worker would save",
            id="kept-at-the-ceiling",
        ),
        pytest.param(
            [of("b", f"b{n}", 1, **SHORT) for n in range(8)] + [of("a", "a", **LONG)],
            HALF,
            "a",
            "pool a holds nothing, is guaranteed 4 cpu",
            id="waits-for-its-guarantee",
        ),
        pytest.param(
            [of("b", f"b{n}", 1, **SHORT) for n in range(8)] + [of("a", "a", **LONG), of("b", "new", **SHORT)],
            HALF,
            "new",
            "; 4 cpu are kept for pool a; number 2 of 2 in the queue",
            id="waits-behind-a-guarantee",
        ),
    ],
)
def test_a_reason_says_what_the_pool_has(jobs: list[JobView], pools: list[Pool], job: str, want: str) -> None:
    made = priced(cluster(jobs, pools))
    assert want in str(next(decision.reason for decision in made.decisions if decision.job == job))


def test_a_plan_says_what_each_pool_has_borrows_and_lacks() -> None:
    jobs = [of("b", f"b{n}", 1, **SHORT) for n in range(8)] + [of("a", "a", **LONG)]
    a, b = (pool.model_dump() for pool in priced(cluster(jobs)).pools)
    assert a | {"guaranteed": {"cpu": 4000}, "held": {}, "lacking": {"cpu": 4000}, "jobs": 0, "waiting": 1} == a
    assert (b["held"]["cpu"], b["borrowed"]["cpu"], b["jobs"], b["waiting"]) == (8000, 8000, 8, 0)
