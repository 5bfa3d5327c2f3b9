"""A job that an editor stops, and what the page draws of a job whose server's answer holds what takes hours to make."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.page.seen import harmless, shot

pytestmark = [pytest.mark.e2e]


@pytest.fixture(scope="module")
def told(airflow: Any) -> dict[str, Any]:
    """What the server tells of the job of ``paged``."""
    client = {"headers": {"Authorization": f"Bearer {airflow.tokens['vera']}"}, "timeout": 60}
    (job,) = httpx.get(f"{airflow.url}/optimus/api/jobs?dag_id=paged", **client).json()["jobs"]
    answer = httpx.get(f"{airflow.url}/optimus/api/jobs/{job['name']}", **client)
    return dict(answer.raise_for_status().json())


def seen_as(look: Any, told: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Open the page of the job as if the server told that."""
    name = told["job"]["name"]
    return dict(look(f"/plugin/optimus?job={name}", answers=[[f"**/optimus/api/jobs/{name}", 200, told]], **more))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_job_that_nobody_looks_after_says_for_how_long(look, told, theme):
    since = datetime.now(UTC) - timedelta(minutes=10)
    forsaken = told | {"job": told["job"] | {"stepped_at": since.isoformat()}}
    seen = seen_as(look, forsaken, theme=theme, wait="Nobody has looked after this job for 10 min")
    assert "does Airflow's triggerer run?" in seen["text"]
    assert harmless(seen)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_speeds_by_servers_and_workers_and_earlier_runs_are_drawn(look, told, width, theme):
    drawn = told | {
        "charts": told["charts"] | CHARTS,
        "speeds": SPEEDS,
        "job": told["job"] | {"servers": 2, "workers": 4},
    }
    picture = shot("job-servers") if (width, theme) == (1280, "light") else {}
    seen = seen_as(look, drawn, width=width, theme=theme, wait="2 earlier runs (dotted)", **picture)
    assert "Workers 1 to 8 across, servers 1 to 4 down" in seen["text"]
    assert "Fastest: 4 servers, 8 workers, 5.33 steps per second" in seen["text"]
    assert "predicted to end at step 300 (250 to 380)" in seen["text"]
    assert harmless(seen)
    assert seen["wide"] <= 0


def loss(step: int) -> float:
    """Return a loss as it is usually seen."""
    return 2.0 / step**0.5 + 0.1


CURVE = {
    "rows": [[step, loss(step), 0.9 * loss(step), 1.1 * loss(step)] for step in range(1, 400, 10)],
    "end": [300, 250, 380],
    "never": False,
    "threshold": 0.2,
    "criterion": "ends at a loss of 0.2",
    "prior_share": 0.0,
}
CHARTS = {
    "loss": "loss",
    "curve": CURVE,
    "earlier": [[[step, factor * loss(step)] for step in range(1, 300, 10)] for factor in (0.95, 1.1)],
    "speed": {
        "servers": [1, 2, 3, 4],
        "workers": list(range(1, 9)),
        "rows": [[p, w, p * w / (p + 2)] for p in range(1, 5) for w in range(1, 9)],
        "guessed": False,
    },
}
"""What an hour of training with servers, after two earlier runs, would have the server tell."""
SPEEDS = [{"servers": p, "workers": w, "steps_per_second": p * w / (p + 2), "samples": 9} for p, w in ((1, 2), (2, 4))]


def test_an_editor_stops_a_job_and_the_history_says_who_did(airflow, look):
    run = airflow.trigger("stopped")
    airflow.await_task("stopped", run, "train", "deferred", seconds=300)
    where = "/dags/stopped/plugin/optimus-dag"
    seen = look(where, user="ursula", wait="Actions", click=["Stop", "Yes, stop"], after="ursula")
    assert harmless(seen)
    airflow.await_task("stopped", run, "train", "failed", seconds=120)
    ended = look(where, user="ursula", wait="History")
    assert "Actions" not in ended["text"]
