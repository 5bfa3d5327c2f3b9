"""What would be if: the plan of a changed cluster beside the present one."""

from datetime import timedelta

import pytest

from optimus_core.engine.what_if import Change, what_if
from optimus_core.job import Steps
from optimus_core.store import LIVE, SpeedRow

DAGS = ["first", "second"]


@pytest.fixture
def rivals(driver, make_job):
    """Two equal jobs of known speed and length that share a cluster of 8 processors: the names."""
    from optimus_core.engine.identity import Identity

    names = []
    for dag in DAGS:
        asked = make_job(workers=(1, 7), stop=Steps(100_000))
        made = driver.engine.submit(asked, Identity.of_task("default", dag, "run1", "train", -1))
        names.append(driver.report(made.job_id).name)
    with driver.ctx.store.transaction() as tx:
        for row in tx.jobs(states=LIVE):
            for workers in (1, 2, 4, 6):
                seen = {"workload": row.workload, "specification_hash": row.specification_hash, "generation": 1}
                size = {"servers": 0, "workers": workers, "steps": 1000 * workers, "seconds": 100.0}
                tx.add_speed(SpeedRow(job_id=row.id, time=tx.now, **seen, **size))
            row.step = 10
    driver.engine.round()
    return names


def workers(driver, change, when="then"):
    return {each["name"]: each[when]["workers"] for each in what_if(driver.ctx, "local", DAGS, change)}


def soon(driver):
    with driver.ctx.store.transaction() as tx:
        return tx.now + timedelta(seconds=2000)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda driver, name: Change(priority={name: 3}), id="a priority"),
        pytest.param(lambda driver, name: Change(deadline={name: soon(driver)}), id="a deadline"),
    ],
)
def test_who_would_matter_more_would_get_more(driver, rivals, change):
    less = min(rivals, key=workers(driver, Change(), "now").get)
    now, then = workers(driver, Change(), "now"), workers(driver, change(driver, less))
    assert then[less] > now[less]
    assert sum(then.values()) == sum(now.values())


def test_a_job_of_somebody_else_is_not_changed(driver, rivals):
    asked = Change(priority={rivals[1]: 3}, deadline={rivals[1]: soon(driver)}, without_job=rivals[1])
    (mine,) = what_if(driver.ctx, "local", DAGS[:1], asked)
    assert mine["name"] == rivals[0]
    assert mine["then"] == mine["now"]
