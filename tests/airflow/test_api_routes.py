"""What every route of the page's API answers: to nobody, about a job that is gone or hidden, and without its store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.page_routes import routes

pytestmark = pytest.mark.xdist_group("api")


def ask(server, role, route, **named):
    return server[role].request(route.method, route.at(**named), json=route.body)


@pytest.mark.parametrize("route", routes())
def test_nobody_is_told_anything(server, jobs, route):
    assert ask(server, "anonymous", route, name=jobs["digits"]).status_code == 401


@pytest.mark.parametrize("route", routes(of="{name}"))
def test_a_job_that_is_gone_is_absent(server, jobs, route):
    answers = [ask(server, role, route, name="gone") for role in ("viewer", "user")]
    assert [answer.status_code for answer in answers] == [404, 404]


@pytest.mark.parametrize("route", routes(of="{name}"))
def test_a_job_whose_dag_is_gone_goes_on_to_obey_whom_airflow_lets_edit_any_dag(server, jobs, route):
    answers = tuple(ask(server, role, route, name=jobs["unknown_dag"]).status_code for role in ("viewer", "user"))
    assert answers == ((200, 200) if route.method == "GET" else (403, 200))


@pytest.mark.parametrize("route", routes(of="{cluster}"))
def test_a_cluster_that_nobody_declared_is_told_in_words(server, jobs, route):
    answer = ask(server, "user", route, cluster="gone")
    assert answer.status_code in (200, 404, 409)
    assert "gone" in answer.text


@pytest.fixture(scope="module")
def lost(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Optimus with a store that can't be opened."""
    from optimus_airflow import settings

    home = tmp_path_factory.mktemp("lost")
    (home / "file").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPTIMUS_HOME", str(home))
        patch.setenv("AIRFLOW__OPTIMUS__DATABASE_URL", f"sqlite:///{home}/file/optimus.db")
        settings.forget_engine()
        yield server
    settings.forget_engine()


@pytest.mark.parametrize("route", routes())
def test_without_a_store_each_says_what_to_run(lost, route):
    answer = ask(lost, "user", route, name="some")
    assert answer.status_code == 503
    assert "optimus" in answer.json()["detail"]
