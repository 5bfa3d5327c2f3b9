"""A row that can't be understood is left out of plans with a reason, and stops nothing else."""

import dataclasses

import pytest

from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.store import migrate
from optimus_core.store.database import open_database
from tests.conftest import Driver


def spoil_specification(**wrong):
    def spoil(tx, row):
        row.specification = row.specification | wrong

    return spoil


def spoil_column(**wrong):
    def spoil(_, row):
        for name, value in wrong.items():
            setattr(row, name, value)

    return spoil


def spoil_series(tx, row):
    tx.series(row.id, "loss").state = {"limit": 1}


@pytest.fixture(params=["sqlite", "postgres"])
def driven(request, cluster, settings):
    """A driver on each kind of database."""
    if request.param == "postgres":
        settings = dataclasses.replace(settings, database_url=request.getfixturevalue("postgres_url"))
        migrate.upgrade(open_database(settings.database_url))
    made = Driver(Engine(settings, clusters_from({"local": cluster})), cluster)
    yield made
    for report in made.engine.jobs(live=True):
        made.engine.request_stop(report.id, by="the test's end")


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(spoil_specification(stop={"steps": 10**400}), id="endless steps"),
        pytest.param(spoil_specification(stop={"loss": 10**400}), id="an endless loss"),
        pytest.param(spoil_specification(workers={"cpu": "a lot"}), id="no quantity"),
        pytest.param(spoil_specification(strategy={"of a newer release": {}}), id="an unknown strategy"),
        pytest.param(spoil_specification(batch_per="moon"), id="an unknown word"),
        pytest.param(spoil_column(memory_factor=float("inf")), id="endless memory"),
        pytest.param(spoil_column(pin={"workers": -1, "servers": 0}), id="a negative pin"),
        pytest.param(spoil_series, id="a curve that is none"),
    ],
)
def test_a_row_that_cant_be_understood_leaves_the_others_planned_and_can_be_stopped(driven, make_job, spoil):
    bad = driven.submit(make_job(name="bad", cpu="3", STEPS=100_000))
    driven.to_step(bad.job_id, 1)
    with driven.ctx.store.transaction() as tx:
        spoil(tx, tx.job(bad.job_id))
    good = driven.submit(make_job(name="good", cpu="3", STEPS=3))
    wide = driven.submit(make_job(name="wide", cpu="3", STEPS=3))
    assert driven.report(bad.job_id).reason.startswith("Left out of the plan, since ")
    (node,) = {replica.node for replica in driven.alive()}
    plan = driven.engine.peek()[1]
    assert {name for each in plan.decisions for name in each.placement} == {"a", "b"} - {node}
    assert driven.to_end(good.job_id).state == "succeeded"
    assert driven.to_end(wide.job_id).state == "succeeded"
    assert len(driven.alive()) == 1
    driven.engine.stop("bad", "ann")
    assert driven.to_end(bad.job_id).state == "stopped"


def test_a_row_that_is_mended_is_planned_again(driver, make_job):
    made = driver.submit(make_job(STEPS=100_000))
    driver.to_step(made.job_id, 1)
    for spec in (10**400, 50_000):
        with driver.ctx.store.transaction() as tx:
            row = tx.job(made.job_id)
            row.specification = row.specification | {"stop": {"steps": spec}}
        driver.engine.round()
    assert driver.report(made.job_id).reason_code not in (None, "can_not_be_planned")
    assert driver.engine.peek()[1].decisions
