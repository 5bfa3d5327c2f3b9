"""The cluster while a job waits beside one that runs: queue, what if, rounds, rebalance, a server that is gone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.page.seen import harmless, shot

pytestmark = [pytest.mark.e2e]
ROOT = Path(__file__).parents[2]
PAGE = "/plugin/optimus"


@pytest.fixture(scope="module", autouse=True)
def waiting(airflow: Any) -> None:
    """A job that waits for the whole machine, and the rebalance DAG."""
    shutil.copy(ROOT / "dags" / "optimus_rebalance.py", airflow.dags)
    airflow.await_task("crowded", airflow.trigger("crowded"), "train", "deferred", seconds=300)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_who_waits_stands_in_the_queue_with_its_reason(look, width, theme):
    picture = shot("cluster-queue") if (width, theme) == (1280, "light") else {}
    seen = look(PAGE, wait="Waits for room for 1 worker", width=width, theme=theme, scroll="Queue", **picture)
    assert "crowded.train" in seen["text"]
    assert "predicted start" in seen["text"].lower()
    assert harmless(seen)
    assert seen["wide"] <= 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_each_pool_tells_what_it_is_guaranteed_and_what_it_holds(look, width, theme):
    picture = shot("cluster-pools") if (width, theme) == (1280, "light") else {}
    seen = look(PAGE, wait="of it borrowed", width=width, theme=theme, scroll="Pools", **picture)
    lines = [line.split("\t") for line in seen["text"].splitlines()]
    (teaching,) = [line for line in lines if line[0] == "teaching"]
    assert teaching[1:3] == ["0.05 cores", "1 cores"]
    assert teaching[5:] == ["1", "0"]
    (default,) = [line for line in lines if line[0] == "default"]
    assert default[1:] == ["nothing", "no limit", "nothing", "nothing", "0", "1"]
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
    assert told in answer_of(seen)
    assert harmless(seen)
    again = look(PAGE + "?" + seen["address"].split("?")[1], wait="why, then", theme="dark", width=390)
    assert answer_of(again) == answer_of(seen)
    assert harmless(again)
    assert again["wide"] <= 0


@pytest.mark.parametrize(
    ("what", "field", "value"),
    [
        pytest.param("another priority of", "Priority", "7", id="priority"),
        pytest.param("another deadline of", "Deadline, in your zone", "2031-05-06T07:08", id="deadline"),
    ],
)
def test_what_if_asks_for_a_value_and_its_address_keeps_it(look, what, field, value):
    choice = [["select", "What would change", what], ["select", "Of which", "crowded.train"], ["fill", field, value]]
    seen = look(PAGE, wait="Waits for room", steps=[*choice, ["click", "Compare"]], after="why, then")
    assert "crowded.train" in answer_of(seen)
    assert harmless(seen)
    again = look(PAGE + "?" + seen["address"].split("?")[1], wait="why, then", theme="dark", width=390)
    assert answer_of(again) == answer_of(seen)
    assert harmless(again)
    assert again["wide"] <= 0


def test_an_answer_that_comes_late_is_not_shown_under_another_question(look):
    first = [["select", "What would change", "a job withdrawn"], ["select", "Of which", "paged.train"]]
    other = [["select", "Of which", "crowded.train"], ["answered", "**/what-if"]]
    slow = [["**/what-if", "late"]]
    seen = look(PAGE, wait="Waits for room", steps=[*first, ["click", "Compare"], *other], answers=slow)
    assert "why, then" not in seen["text"]
    back = look(PAGE, wait="Waits for room", steps=[*first, ["click", "Compare"]], answers=slow, after="why, then")
    assert "gone" in answer_of(back)


def answer_of(seen: dict[str, Any]) -> str:
    """Return what stands between the question and the rounds, without times to the end, which move."""
    told = seen["text"].split("What if")[1].split("Rounds")[0].split("why, then")[1]
    return re.sub(r"[\d.]+ (s|min|h|d)\b", "time", told)


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


def test_a_question_that_is_refused_gives_the_focus_back(look):
    steps = [["tab to", "Rebalance now"], ["press", "Enter"], ["see", "Really start"], ["press", "Escape"]]
    seen = look(PAGE, user="ursula", wait="Rebalance now", steps=steps)
    assert seen["focus"] == "Rebalance now"
    assert "Really start" not in seen["text"]


def test_parts_are_opened_by_keys_alone(look):
    hours = [["tab to", "last 24 h"], ["press", "Enter"]]
    a_round = [["tab to", "1 change"], ["press", "Enter"], ["see", "round of"]]
    address = look(PAGE, wait="Rounds", steps=[*hours, *a_round])["address"]
    assert "hours=24" in address
    assert "round=" in address


def test_a_page_whose_server_is_gone_says_how_old_it_is(look):
    seen = look(PAGE, wait="Waits for room", steps=[["offline"]], after="Last update")
    assert "The server can't be reached." in seen["text"]
    assert "crowded.train" in seen["text"]
    assert harmless(seen)
