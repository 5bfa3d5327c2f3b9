"""A slow worker on a real cluster: it really is replaced, and the job goes on faster elsewhere."""

from __future__ import annotations

import dataclasses

import pytest

SLOW_AT_FIRST = """
import os, time
import optimus_train

slow = os.environ["OPTIMUS_GENERATION"] == "1" and optimus_train.rank() == 2
optimus_train.stop_requested()
latest = optimus_train.latest_checkpoint()
step = optimus_train.checkpoint_step(latest) if latest else 0
leads = optimus_train.rank() == 0

def save():
    if leads:
        with optimus_train.checkpoint(step) as folder:
            (folder / "model").write_text(str(step))

while not optimus_train.stop_requested():
    time.sleep(0.2 if os.environ["OPTIMUS_GENERATION"] == "1" else 0.05)  # all wait for the slowest
    step += 1
    optimus_train.report(step, 1 / step, batch_seconds=0.18 if slow else 0.04)
    if step % 10 == 0:
        save()
save()
"""
"""A training whose worker 2 takes four times as long for its batch in the first generation."""


@pytest.fixture
def settings(settings):
    """Slow workers are replaced, and soon seen."""
    return dataclasses.replace(settings, stragglers="replace", speed_window_seconds=0.5)


def test_a_slow_worker_is_replaced_on_another_node_and_its_job_goes_on_faster(driver, make_job, pods):
    made = driver.submit(make_job(workers=(3, 3), command=["python3", "-u", "-c", SLOW_AT_FIRST]))
    driver.to_size(made.job_id, 3)
    first = {pod.metadata.uid for pod in pods()}
    (told,) = driver.drive(made.job_id, to=lambda: driver.events(made.job_id, "straggler_replaced"), seconds=120)

    found = driver.events(made.job_id, "straggler")[-1]["cause"]
    assert found["replica"].endswith("-worker-2-g1")
    assert found["action"] == "replace"
    assert found["node"] not in {pod.spec.node_name for pod in pods()}
    assert not first & {pod.metadata.uid for pod in pods()}
    assert told["cause"]["times"] > 2
    before, after = driver.generations(made.job_id)[0], driver.generations(made.job_id)[-1]
    assert after["first_step"] > before["first_step"]
    driver.engine.request_stop(made.job_id, by="ann")
    driver.to_end(made.job_id)
    driver.drive(to=lambda: pods() == [])
