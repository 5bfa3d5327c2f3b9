"""The cluster while a job waits beside one that runs: queue, what if, rounds, rebalance, a server that is gone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e]
ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
PAGE = "/plugin/optimus"


def harmless(seen: dict[str, Any]) -> bool:
    """Say whether no script ran, nothing broke, nobody else was asked, and axe finds nothing serious."""
    return (seen["alerts"], seen["errors"], seen["elsewhere"], seen["serious"]) == (0, [], [], [])


@pytest.fixture(scope="module", autouse=True)
def waiting(airflow: Any) -> None:
    """A job that waits for the whole machine, and the rebalance DAG."""
    shutil.copy(ROOT / "dags" / "optimus_rebalance.py", airflow.dags)
    airflow.await_task("crowded", airflow.trigger("crowded"), "train", "deferred", seconds=300)


@pytest.mark.parametrize("width", [1280, 390])
def test_who_waits_stands_in_the_queue_with_its_reason(look, width):
    picture = {"shot": str(IMAGES / "cluster-queue.png")} if width == 1280 and os.environ.get("SHOTS") else {}
    seen = look(PAGE, wait="Waits for room for 1 worker", width=width, scroll="Queue", **picture)
    assert "crowded.train" in seen["text"]
    assert "predicted start" in seen["text"].lower()
    assert harmless(seen)
    assert seen["wide"] <= 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param([("What would change", "a job withdrawn"), ("Of which", "paged.train")], "gone", id="withdrawn"),
        pytest.param([("What would change", "a node more, like")], "Starts", id="a node more"),
    ],
)
def test_what_if_in_the_browser_shows_the_other_plan(airflow, look, change, told):
    steps = [["select", *each] for each in change]
    if len(change) == 1:
        steps.append(["select", "Of which", node_of(airflow)])
    seen = look(PAGE, wait="Waits for room", steps=[*steps, ["click", "Compare"]], after="why, then")
    answer = seen["text"].split("WHAT IF" if "WHAT IF" in seen["text"] else "What if")[1]
    assert told in answer
    assert harmless(seen)


def node_of(airflow: Any) -> str:
    """Return the name of the only node."""
    import httpx

    headers = {"Authorization": f"Bearer {airflow.tokens['vera']}"}
    (node,) = httpx.get(f"{airflow.url}/optimus/api/clusters/local", headers=headers).json()["nodes"]
    return str(node["name"])


def test_a_round_can_be_opened_and_its_address_leads_back_to_it(look):
    opened = look(PAGE, wait="Waits for room", click=["1 change"], after="round of")
    assert "round=" in opened["address"]
    again = look(PAGE + "?" + opened["address"].split("?")[1], wait="round of")
    assert "Starts" in again["text"].split("round of")[1]


def test_only_an_editor_is_offered_a_rebalance_and_is_asked_once(airflow, look):
    assert "Rebalance now" not in look(PAGE, wait="Waits for room")["text"]
    airflow.call("PATCH", "/dags/optimus_rebalance", {"is_paused": False})
    seen = look(PAGE, user="ursula", wait="Rebalance now", click=["Rebalance now", "Yes, rebalance"], after="Under way")
    assert harmless(seen)
    runs = airflow.call("GET", "/dags/optimus_rebalance/dagRuns")["dag_runs"]
    assert any(run["dag_run_id"] in seen["text"] for run in runs)


def test_a_page_whose_server_is_gone_says_how_old_it_is(look):
    seen = look(PAGE, wait="Waits for room", steps=[["offline"]], after="Last update")
    assert "The server can't be reached." in seen["text"]
    assert "crowded.train" in seen["text"]
    assert harmless(seen)
