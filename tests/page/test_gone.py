"""Optimus' database is gone: Airflow works as ever, and the page says what is wrong and what to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.page_routes import Route, routes

pytestmark = [pytest.mark.e2e]
NOBODY_LISTENS = "postgresql://optimus@127.0.0.1:1/optimus"


@pytest.fixture(scope="module")
def broken(make_airflow: Callable[[], Any], real_airflow: Any) -> Iterator[Any]:
    """An Airflow that was set up, and whose plugin then lost its database."""
    found = make_airflow()
    found.run("db", "migrate")
    found.environ["AIRFLOW__OPTIMUS__DATABASE_URL"] = NOBODY_LISTENS
    try:
        found.start_parts("api-server", "scheduler", "dag-processor", "triggerer")
        found.token = real_airflow.token(found.url, "vera", "look")
        found.bearer = {"Authorization": f"Bearer {found.token}"}
        found.editor = {"Authorization": f"Bearer {real_airflow.token(found.url, 'ursula', 'edit')}"}
        real_airflow.wait_for(lambda: listed(found) >= {"paged", "hostile"}, 120, "the DAGs are parsed")
        yield found
    finally:
        found.stop()


def listed(airflow: Any) -> set[str]:
    """Return the DAGs that Airflow's own API lists."""
    answer = httpx.get(f"{airflow.url}/api/v2/dags", headers=airflow.bearer, timeout=60)
    return {dag["dag_id"] for dag in answer.raise_for_status().json()["dags"]}


@pytest.mark.parametrize("route", [*routes(), pytest.param(Route("GET", "/jobs/{name}", None), id="the plain page")])
def test_each_route_says_what_to_run(broken, route):
    where = broken.url + route.at(name="some")
    answer = httpx.request(route.method, where, headers=broken.editor, json=route.body, timeout=60)
    assert answer.status_code == 503
    assert "optimus doctor" in answer.json()["detail"]


def test_airflow_shows_its_dags_all_the_same(broken, browse):
    assert browse(url=f"{broken.url}/dags", token=broken.token, root="body", wait="paged")["errors"] == []


def test_the_page_shows_what_is_wrong(broken, browse):
    seen = browse(url=f"{broken.url}/plugin/optimus", token=broken.token, wait="optimus doctor")
    assert (seen["alerts"], seen["errors"], seen["serious"]) == (0, [], [])


@pytest.mark.parametrize(("path", "wait"), [("/", "Home"), ("/dags/paged", "paged")])
def test_the_rest_of_airflow_is_no_worse_for_it(broken, browse, path, wait):
    assert browse(url=broken.url + path, token=broken.token, root="body", wait=wait)["errors"] == []
