"""Pools from their declaration to a plan and to what the page shows."""

from __future__ import annotations

import dataclasses

import pytest

from optimus_core.choices import ParameterServer, Steps
from optimus_core.engine.cluster_view import cluster_view
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.engine.submit import Action
from optimus_core.errors import SpecificationError
from optimus_core.job import Replicas
from tests.conftest import Driver

DECLARED = """
local:
  kind: local
  pools:
    a: {guaranteed: 50%}
    b: {ceiling: {cpu: 6}}
    raised: {guaranteed: 50%, ceiling: {cpu: 1}}
    tenth: {ceiling: 10%}
"""
SERVED = {"strategy": ParameterServer(), "servers": Replicas(cpu="1", memory="64Mi"), "framework": "mxnet"}
"""Two servers and workers of one processor each, with a scheduler process of a tenth."""


@pytest.fixture
def settings(settings, tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text(DECLARED)
    return dataclasses.replace(settings, clusters_file=path)


def asking(make_job, name, pool, workers):
    return dataclasses.replace(make_job(name, workers=workers, stop=Steps(10_000)), pool=pool)


def test_a_pool_shapes_the_plan_and_is_shown_with_what_it_has(driver, make_job):
    one = driver.submit(asking(make_job, "one", "b", (4, 4))).job_id
    waits = driver.submit(asking(make_job, "two", "b", (4, 4))).job_id
    three = driver.submit(asking(make_job, "three", "a", (4, 4))).job_id
    report = driver.report(waits)
    assert (report.state, report.reason_code) == ("queued", "waits_for_pool")
    assert "pool b holds 4 cpu, may have at most 6 cpu" in report.reason
    _, plan = driver.engine.peek()
    assert {pool.name: pool.held["cpu"] for pool in plan.pools if pool.held} == {"a": 4000, "b": 4000}
    driver.drive(one, three, to=lambda: len(driver.alive()) == 8)
    a, b, *_ = cluster_view(driver.ctx, "local", [])["pools"]
    assert (a["name"], a["guaranteed"]["cpu"], a["held"]["cpu"], a["borrowed"]) == ("a", 4000, 4000, {})
    assert (b["ceiling"], b["held"]["cpu"], b["jobs"], b["waiting"]) == ({"cpu": 6000}, 4000, 1, 1)


def test_a_job_that_names_an_unknown_pool_is_refused_before_anything_is_stored(driver, make_job):
    with pytest.raises(SpecificationError, match="which is not declared"):
        driver.submit(asking(make_job, "one", "c", (1, 1)))
    assert driver.engine.jobs() == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param(
            {"pool": "b", "workers": (7, 8)}, r"minimum \(7 workers\) asks for 7 cpu; its pool, \"b\",", id="cpu"
        ),
        pytest.param({"pool": "tenth"}, 'asks for 1 cpu; its pool, "tenth", may have 800m cpu at most', id="percent"),
        pytest.param(
            {"pool": "b", "workers": (5, 5)} | SERVED, r"\(1 server, 5 workers\) asks for 6100m cpu", id="a-scheduler"
        ),
    ],
)
def test_a_job_whose_minimum_is_above_its_pools_ceiling_is_refused(driver, make_job, asked, said):
    with pytest.raises(SpecificationError, match=said):
        driver.submit(make_job(**asked))
    assert driver.engine.jobs() == []


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"pool": "b", "workers": (6, 8)}, id="all-that-it-may-have"),
        pytest.param({"pool": "raised", "workers": (4, 4)}, id="a-ceiling-that-the-guarantee-raises"),
        pytest.param({"pool": "default", "workers": (8, 8)}, id="a-pool-that-nobody-declared"),
    ],
)
def test_a_job_whose_minimum_its_pool_may_have_is_taken(driver, make_job, asked):
    (generation,) = driver.generations(driver.submit(make_job(**asked)).job_id)
    assert generation["workers"] >= asked["workers"][0]


@pytest.fixture
def strict(driver, settings, cluster, tmp_path):
    """The same store and nodes, after pools were taken away and ceilings lowered."""
    path = tmp_path / "strict.yaml"
    path.write_text("local: {kind: local, pools: {b: {ceiling: {cpu: 2}}}}")
    engine = Engine(dataclasses.replace(settings, clusters_file=path), clusters_from({"local": cluster}))
    return Driver(engine, cluster)


@pytest.mark.parametrize("pool", [pytest.param("b", id="a-lower-ceiling"), pytest.param("a", id="no-such-pool")])
def test_what_becomes_of_pools_harms_no_job_that_is_attached_to(driver, strict, make_job, pool):
    job = asking(make_job, "one", pool, (4, 4))
    first = driver.submit(job)
    driver.to_size(first.job_id, 4)
    again = strict.submit(dataclasses.replace(job, priority=3))
    assert (again.action, again.job_id) == (Action.REATTACHED, first.job_id)
    report = strict.report(first.job_id)
    assert (report.attempt, report.workers) == (1, 4)
    with strict.ctx.store.transaction() as tx:
        assert tx.peek_job(first.job_id).priority == 3
    with pytest.raises(SpecificationError, match="its pool"):
        strict.submit(job, 2)
    assert strict.report(first.job_id).attempt == 1
    assert len(strict.generations(first.job_id)) == 1


def test_a_minimum_that_is_raised_above_the_ceiling_leaves_the_job_as_it_is(driver, make_job):
    first = driver.submit(asking(make_job, "one", "b", (4, 8)))
    with pytest.raises(SpecificationError, match="asks for 7 cpu"):
        driver.submit(asking(make_job, "one", "b", (7, 8)))
    with driver.ctx.store.transaction() as tx:
        assert tx.peek_job(first.job_id).specification["workers"]["min"] == 4
