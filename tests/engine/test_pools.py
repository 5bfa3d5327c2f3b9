"""Pools from their declaration to a plan and to what the page shows."""

from __future__ import annotations

import dataclasses

import pytest

from optimus_core.choices import Steps
from optimus_core.engine.cluster_view import cluster_view
from optimus_core.errors import SpecificationError

DECLARED = """
local:
  kind: local
  pools:
    a: {guaranteed: 50%}
    b: {ceiling: {cpu: 6}}
"""


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
    assert "pool b holds 4 cpu, 6 cpu at most" in report.reason
    _, plan = driver.engine.peek()
    assert {pool.name: pool.held["cpu"] for pool in plan.pools} == {"a": 4000, "b": 4000}
    driver.drive(one, three, to=lambda: len(driver.alive()) == 8)
    a, b = cluster_view(driver.ctx, "local", [])["pools"]
    assert (a["name"], a["guaranteed"]["cpu"], a["held"]["cpu"], a["borrowed"]) == ("a", 4000, 4000, {})
    assert (b["ceiling"], b["held"]["cpu"], b["jobs"], b["waiting"]) == ({"cpu": 6000}, 4000, 1, 1)


def test_a_job_that_names_an_unknown_pool_is_refused_before_anything_is_stored(driver, make_job):
    with pytest.raises(SpecificationError, match="which is not declared"):
        driver.submit(asking(make_job, "one", "c", (1, 1)))
    assert driver.engine.jobs() == []
