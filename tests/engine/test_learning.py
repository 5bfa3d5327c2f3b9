"""What a run leaves to the next one of its workload."""

import pytest

from optimus_core.engine.estimate import estimate
from optimus_core.engine.snapshot import ended_view, node_view, plan_settings
from optimus_core.simulation import Arrival, replay
from optimus_core.workload import prior_of


def test_the_curve_of_a_run_that_succeeded_is_the_prior_of_the_next(driver, make_job):
    made = driver.submit(make_job(STEPS=30))
    assert driver.to_end(made.job_id).state == "succeeded"
    ctx = driver.engine.ctx
    with ctx.store.transaction() as tx:
        row = tx.peek_job(made.job_id)
        prior = prior_of(tx.peek_workload(row.workload).curve)
        fit = estimate(ctx, tx, row)
    assert prior.ends == [pytest.approx(30, abs=2)]
    assert fit.curve.prior_share_ > 0.5
    assert fit.curve.predict([20])[0] == pytest.approx(1 / 20, rel=0.25)


def test_a_run_that_has_ended_can_be_replayed_with_what_it_taught(driver, make_job):
    made = driver.submit(make_job(STEPS=30, workers=(1, 2)))
    assert driver.to_end(made.job_id).state == "succeeded"
    ctx = driver.engine.ctx
    with ctx.store.transaction() as tx:
        view = ended_view(ctx, tx, tx.peek_job(made.job_id))
    assert (view.state, view.size.workers) == ("queued", 0)
    nodes = [node_view(node) for node in driver.cluster.nodes()]
    outcome = replay(nodes, [Arrival(view, 30.0)], settings=plan_settings(ctx))
    assert outcome.makespan > 0
