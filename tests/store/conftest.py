"""Rows for the tests of the store."""

import pytest

from optimus_core.store import GenerationRow, JobRow


@pytest.fixture
def add_job():
    """Adds a job with little in it."""

    def add(tx, name, **more):
        values = {
            "key": name, "name": name, "title": name, "cluster": "local", "deployment": "default", "workload": name,
            "state": "queued", "token": "t", "specification": {}, "specification_hash": "h",
            "retries": {}, "created_at": tx.now, "queued_at": tx.now,
        }  # fmt: skip
        row = JobRow(**(values | more))
        tx.add(row)
        return row

    return add


@pytest.fixture
def add_generation():
    """Adds a generation of one worker."""

    def add(tx, job, number, **more):
        values = {"servers": 0, "workers": 1, "placement": {}, "state": "gone", "reason": {}, "wanted_at": tx.now}
        row = GenerationRow(job_id=job.id, number=number, attempt=job.attempt, **(values | more))
        tx.add(row)
        return row

    return add
