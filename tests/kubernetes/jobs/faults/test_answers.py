"""Wrong answers of the API server while a job starts: it starts all the same, once, and nothing is left of it."""

from __future__ import annotations

import pytest

START = [
    pytest.param({"status": 429, "retry_after": 1, "times": 3}, id="429"),
    pytest.param({"status": 500, "times": 4}, id="500"),
    pytest.param({"cut": True, "times": 2}, id="cut"),
    pytest.param({"status": 500, "applied": True, "times": 2}, id="500 after it was done"),
    pytest.param({"cut": True, "applied": True, "times": 2}, id="cut after it was done"),
]


@pytest.mark.parametrize("fault", START)
def test_pods_that_are_answered_wrongly_are_made_once(driver, make_job, proxy, aftermath, fault):
    rule = proxy.fault("POST", r"/pods$", **fault)
    made = driver.submit(make_job(workers=(2, 2), STEPS=100_000, SAVE_EVERY=5))
    driver.to_step(made.job_id, 3)
    assert rule.hits == rule.times
    assert [g["number"] for g in driver.generations(made.job_id)] == [1]
    assert len(driver.alive()) == 2
    aftermath(made.job_id)
