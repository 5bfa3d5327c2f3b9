"""Memory that ran out: grown, remembered once a step was made with it, and never above what the user now asks for."""

import dataclasses

import pytest

from optimus_core.engine.memory import grow, remember, remembered_factor
from optimus_core.job import ParameterServer, Replicas
from optimus_core.store import WorkloadRow

MIB = 1 << 20


def asking(job, memory):
    """The same job with so much memory for each worker."""
    return dataclasses.replace(job, workers=dataclasses.replace(job.workers, memory=memory))


@pytest.mark.parametrize(
    ("memory", "asked", "factor"),
    [
        pytest.param(None, "64Mi", 1.0, id="nothing known"),
        pytest.param({"worker": 96 * MIB}, "64Mi", 1.5, id="the same is asked for"),
        pytest.param({"worker": 96 * MIB}, "80Mi", 1.2, id="a little more"),
        pytest.param({"worker": 96 * MIB}, "100Mi", 1.0, id="enough"),
        pytest.param({"worker": 96 * MIB}, "32Mi", 3.0, id="less"),
    ],
)
def test_the_next_run_gets_what_was_needed_and_no_factor_on_a_corrected_guess(make_job, memory, asked, factor):
    known = WorkloadRow(name="w", memory=memory)
    assert remembered_factor(known, asking(make_job(), asked)) == pytest.approx(factor)


def test_who_corrects_the_memory_of_one_role_is_not_given_more_for_the_other(make_job):
    known = WorkloadRow(name="w", memory={"worker": 96 * MIB, "server": 192 * MIB})
    job = make_job(
        strategy=ParameterServer(),
        servers=Replicas(cpu="1", memory="256Mi", min=1, max=2),
    )
    assert remembered_factor(known, job) == 1.0


def test_what_no_generation_made_a_step_with_is_not_remembered(driver, make_job):
    job = make_job(STEPS=100_000)
    made = driver.submit(job)
    with driver.ctx.store.transaction() as tx:
        row = tx.job(made.job_id)
        grow(driver.ctx.settings, tx, row)
        assert row.memory_factor == 1.5
        assert tx.peek_workload(row.workload) is None
        remember(tx, row, job)
        assert remembered_factor(tx.peek_workload(row.workload), job) == 1.5


def test_a_step_with_grown_memory_is_remembered_and_the_next_attempt_asks_anew(driver, make_job):
    made = driver.submit(make_job(STEPS=100_000))
    with driver.ctx.store.transaction() as tx:
        tx.job(made.job_id).memory_factor = 1.5
    driver.to_step(made.job_id, 2)
    driver.submit(asking(make_job(STEPS=100_000), "1Gi"), 2)
    with driver.ctx.store.transaction() as tx:
        assert tx.job(made.job_id).memory_factor == 1.0
    driver.submit(make_job(STEPS=100_000), 3)
    with driver.ctx.store.transaction() as tx:
        assert tx.job(made.job_id).memory_factor == pytest.approx(1.5)
