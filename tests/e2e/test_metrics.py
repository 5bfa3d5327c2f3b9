"""What the processes of a real Airflow send to a StatsD server."""

from __future__ import annotations

import contextlib

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("airflow")]


def sent(server):
    """All that has come to a server since the last time."""
    found = []
    server.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(server.recv(2**16).decode())
    return found


def test_workers_and_triggerer_tell_of_a_job(airflow):
    sent(airflow.metrics)
    run_id = airflow.trigger("short")
    assert airflow.await_task("short", run_id, "train", "success", "failed")["state"] == "success"
    told = sent(airflow.metrics)  # the end of a job is told before its task is
    assert "airflow.optimus_jobs_ended_total,cluster=local,state=succeeded,reason=finished:1|c" in told
    assert any(line.startswith("airflow.optimus_scheduling_round_duration_seconds,cluster=local:") for line in told)
    assert all(line.startswith("airflow.optimus_") for line in told)
