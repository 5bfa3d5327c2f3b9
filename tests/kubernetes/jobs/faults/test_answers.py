"""Wrong answers of the API server in each part of a job's life: it goes on all the same, and nothing is left of it."""

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


LACKS = 'pods is forbidden: User "system:serviceaccount:jobs:optimus" cannot patch resource "pods" in API group ""'
ANSWERS = [
    pytest.param({"status": 403, "message": f'{LACKS} in the namespace "jobs"', "times": 3}, id="403"),
    pytest.param({"status": 409, "times": 3}, id="409"),
    pytest.param({"status": 410, "times": 7}, id="410"),
    pytest.param({"status": 429, "retry_after": 1, "times": 4}, id="429"),
    pytest.param({"status": 500, "times": 7}, id="500"),
    pytest.param({"status": 503, "times": 7}, id="503"),
]


@pytest.mark.parametrize("fault", ANSWERS)
def test_a_job_that_is_answered_wrongly_while_it_runs_is_resized_and_stops_loses_nothing(
    driver, make_job, proxy, aftermath, fault
):
    made = driver.submit(make_job(workers=(1, 2), STEPS=100_000, SAVE_EVERY=5))
    job_id = made.job_id
    driver.engine.pin(str(job_id), "ann", workers=1)
    driver.to_step(job_id, 8)

    rule = proxy.fault("GET", r"/pods", **fault)
    driver.drive(job_id, to=lambda: rule.hits == rule.times)
    assert driver.report(job_id).state == "running", "what can't be seen is not judged"
    step = driver.to_step(job_id, driver.report(job_id).step + 3).step
    assert sum(g["starting_at"] is not None for g in driver.generations(job_id)) == 1

    driver.engine.pin(str(job_id), "ann", workers=2)
    writes = [proxy.fault(method, ".", **fault) for method in ("POST", "PATCH")]
    driver.to_size(job_id, 2)
    assert driver.drive(job_id, to=lambda: driver.generations(job_id)[-1]["first_step"]) > step
    assert [each.hits for each in writes] == [each.times for each in writes]
    assert driver.events(job_id, "failed") == []

    driver.engine.request_stop(job_id, by="ann")
    rule = proxy.fault("*", r"/pods", **fault)
    report = driver.to_end(job_id)
    assert rule.hits == rule.times
    assert report.result["checkpoint_step"] >= report.step
    aftermath(job_id)
