"""What the page says when there is nothing to show, or nothing that may be shown, or not yet."""

from __future__ import annotations

import pytest

from tests.page.seen import harmless

pytestmark = [pytest.mark.e2e]
PAGE = "/plugin/optimus"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        pytest.param(f"{PAGE}?cluster=spare", "No round has changed anything yet.", id="a cluster without jobs"),
        pytest.param(f"{PAGE}?cluster=gone", 'cluster "gone" is not declared', id="a cluster that is not declared"),
        pytest.param(f"{PAGE}?job=gone", "There is no such job, or you may not", id="a job not to be read"),
        pytest.param("/dags/unused/plugin/optimus-dag", "No training job of Optimus here", id="a DAG without jobs"),
    ],
)
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_what_is_not_there_is_told_in_words(look, path, told, theme, width):
    seen = look(path, wait=told, theme=theme, width=width)
    assert harmless(seen)
    assert seen["wide"] <= 0


def test_an_empty_cluster_says_so_in_each_part(look):
    text = look(f"{PAGE}?cluster=spare", wait="No round has changed")["text"]
    for told in ("No job here.", "No job waits.", "No job has held a size in the last 6 hours.", "free:"):
        assert told in text


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        pytest.param("never", None, "Loading…", id="loading"),
        pytest.param(401, {"detail": "Not authenticated"}, "You are not signed in.", id="signed out"),
        pytest.param(502, None, "The server answered 502.", id="a proxy's error"),
        pytest.param(503, {"detail": "Run: optimus doctor"}, "Run: optimus doctor", id="told by the server"),
    ],
)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_answer_that_does_not_come_is_told_in_words(look, status, body, told, theme):
    seen = look(PAGE, wait=told, theme=theme, answers=[["**/optimus/api/**", status, body]])
    assert harmless(seen)
    assert seen["wide"] <= 0


def test_who_is_signed_out_meanwhile_keeps_what_he_saw_and_is_told_its_age(look):
    seen = look(f"{PAGE}?cluster=spare", wait="No round has changed", steps=[["sign out"]], after="Last update")
    assert "No job waits." in seen["text"]
    assert harmless(seen)
    assert seen["wide"] <= 0


def test_home_says_nothing_where_no_job_lives(look):
    none = {"live": 0, "running": 0, "waiting": 0, "late": 0, "cluster": "local", "clusters": ["local"]}
    seen = look("/", wait="Home", root="body", answers=[["**/optimus/api/summary", 200, none]])
    assert "Optimus:" not in seen["text"]
    assert seen["errors"] == []
