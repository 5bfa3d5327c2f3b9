"""A job whose name, log, metrics and last words try everything: no script runs, and the page stays usable."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.seen import harmless

pytestmark = [pytest.mark.e2e]


@pytest.fixture(scope="module")
def hostile(airflow: Any) -> str:
    """The run of the hostile DAG, after its job has failed."""
    run = str(airflow.trigger("hostile"))
    (task,) = airflow.call("GET", f"/dags/hostile/dagRuns/{run}/taskInstances")["task_instances"]
    airflow.await_task("hostile", run, task["task_id"], "failed", seconds=300)
    return run


@pytest.mark.parametrize("width", [1280, 390])
def test_a_hostile_job_is_shown_as_text(look, hostile, width):
    seen = look(f"/dags/hostile/runs/{hostile}/plugin/optimus-run", wait="History", width=width)
    assert "<img src=x onerror=alert(1)>" in seen["text"]
    assert "</pre></style><script>alert(1)</script>" in seen["text"]
    assert "NaN Infinity undefined" in seen["text"]
    assert harmless(seen)
    assert seen["wide"] <= 0


def test_the_cluster_is_usable_beside_a_hostile_job(look, hostile):
    seen = look("/plugin/optimus?all=1", wait="hostile", click=["Show live jobs only"], after="Show ended jobs too")
    assert "paged" in seen["text"]
    assert harmless(seen)
