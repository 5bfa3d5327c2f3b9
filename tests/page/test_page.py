"""The page in a real browser, on a real Airflow, with a real job of the local cluster."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.page.seen import harmless, shot

pytestmark = [pytest.mark.e2e]
TASK = "/dags/paged/runs/{run}/tasks/train"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.smoke), 390])
def test_the_cluster_shows_nodes_and_jobs(look, theme, width):
    seen = look("/plugin/optimus", theme=theme, width=width, wait="free:", **shot(f"cluster-{theme}-{width}"))
    assert theme in seen["theme"]
    for told in ("paged.train (running)", "cores", "GiB", "No job waits", "Heights are replicas"):
        assert told in seen["text"]
    assert harmless(seen)
    assert seen["wide"] <= 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("place", "width"),
    [
        pytest.param("/dags/paged/plugin/optimus-dag", 1280, id="dag"),
        pytest.param("/dags/paged/plugin/optimus-dag", 390, id="dag-narrow"),
        pytest.param("/dags/paged/runs/{run}/plugin/optimus-run", 1280, id="run"),
        pytest.param("/dags/paged/runs/{run}/plugin/optimus-run", 390, id="run-narrow"),
        pytest.param(f"{TASK}/plugin/optimus-task", 1280, id="task", marks=pytest.mark.smoke),
        pytest.param(f"{TASK}/plugin/optimus-task", 390, id="task-narrow"),
    ],
)
def test_a_job_is_a_tab(airflow, look, place, width, theme, request):
    picture = shot(f"job-{request.node.callspec.id}")
    seen = look(place.format(run=airflow.run_id), theme=theme, width=width, wait="History", **picture)
    assert "attempt 1" in seen["text"]
    assert harmless(seen)
    assert seen["wide"] <= 0


@pytest.mark.parametrize("width", [1280, 390])
def test_a_job_is_drawn_with_its_fit_its_speeds_and_its_cost(airflow, look, width):
    picture = shot("job-drawn") if width == 1280 else {}
    place = f"{TASK}/plugin/optimus-task".format(run=airflow.run_id)
    seen = look(place, wait="80 % band", width=width, scroll="Loss and its prediction", **picture)
    for told in ("fit (dashed)", "ends when the script does", "Workers 1 to 2 across", "replica-hours", "Attempts"):
        assert told in seen["text"]
    assert harmless(seen)
    assert seen["wide"] <= 0


def test_a_replica_is_told_with_node_speed_and_last_lines(airflow, look):
    place = f"{TASK}/plugin/optimus-task".format(run=airflow.run_id)
    seen = look(place, wait="on node", scroll="Replicas", **shot("job-replicas"))
    replicas = seen["text"].split("Replicas")[-1].split("History")[0]
    assert re.search(r"-worker-0-g1, generation 1 on node first, [\d.]+ steps per second\n", replicas)
    assert re.search(r"^step=\d+ loss=0\.\d+$", replicas, re.MULTILINE)
    assert harmless(seen)


def test_home_has_one_line(look):
    seen = look("/", wait="1 live job")
    assert seen["text"] == "Optimus: 1 live job: 1 running, 0 waiting, 0 late"
    assert harmless(seen)


def test_a_viewer_is_offered_no_action(look):
    assert "Actions" not in look("/dags/paged/plugin/optimus-dag", wait="History")["text"]


def test_what_if_compares_two_plans(airflow, look):
    answer = httpx.post(
        f"{airflow.url}/optimus/api/clusters/local/what-if",
        json={},
        headers={"Authorization": f"Bearer {airflow.tokens['vera']}"},
    )
    (only,) = answer.json()
    assert only["now"] == only["then"]


def test_an_editor_pins_and_resumes_and_is_asked_once_each_by_keys_alone(look):
    pin = [["tab to", "Workers to pin"], ["tab to", "Pin workers"], ["press", "Enter"], ["see", "Really hold"]]
    resume = [["tab to", "Resume automatic"], ["press", "Enter"], ["see", "Really let"]]
    where = {"path": "/dags/paged/plugin/optimus-dag", "user": "ursula", "wait": "Actions"}
    pinned = look(**where, steps=[*pin, ["press", "Enter"]], after="(pinned)")
    assert "Resume automatic" in pinned["text"]
    assert harmless(pinned)
    asked = look(**where, steps=resume, theme="dark")
    assert asked["focus"] == "Yes, unpin"
    assert asked["serious"] == []
    resumed = look(**where, steps=[*resume, ["press", "Enter"], ["gone", "(pinned)"]])
    assert "(pinned)" not in resumed["text"]
    assert harmless(resumed)


@pytest.mark.parametrize("path", ["jobs", "clusters/local"])
def test_nobody_gets_nothing(airflow, path):
    assert httpx.get(f"{airflow.url}/optimus/api/{path}").status_code == 401
