"""Two teams under the FAB auth manager, each with rights to its own DAG only: what the API and the page tell them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from optimus_core.engine.engine import Engine
from optimus_core.engine.identity import Identity
from optimus_core.job import AllReduce, Replicas, TrainingJob
from optimus_core.settings import Settings
from optimus_core.store import migrate
from optimus_core.store.database import open_database
from tests.page.seen import harmless

HERE = Path(__file__).parent
pytestmark = [pytest.mark.e2e, pytest.mark.smoke]
ROLES = {"ada": "team-a", "rita": "reads-a", "bob": "team-b"}
"""User, whose password is his name -> role; teams.py gives rights to the roles."""
ENROL = """
import json, sys
from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder
with get_application_builder() as builder:
    for user, role in json.loads(sys.argv[1]).items():
        made = builder.sm.add_role(role)
        for resource in ("Website", "Plugins"):  # who lacks the last is shown no plugin by Airflow
            builder.sm.add_permission_to_role(made, builder.sm.create_permission("can_read", resource))
        assert builder.sm.add_user(user, user, user, user + "@example.org", made, password=user)
    builder.sm.create_dag_specific_permissions()
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Optimus with the home that the Airflow below has."""
    home = tmp_path_factory.mktemp("teams") / "optimus"
    home.mkdir()
    made = Settings(home=home, database_url=f"sqlite:///{home / 'optimus.db'}")
    migrate.upgrade(open_database(made.database_url))
    return Engine(made)


@pytest.fixture(scope="module")
def jobs(engine: Engine) -> dict[str, str]:
    """The name of a job of each team; that of team a has waited for the other's room, and its history says so."""
    names = {}
    for dag_id in ("team_b", "team_a"):
        asked = TrainingJob(
            name="train", command=["true"], strategy=AllReduce(), workers=Replicas(cpu="100m", memory="64Mi", max=2)
        )
        submission = engine.submit(asked, Identity.of_task("default", dag_id, "run1", "train"))
        names[dag_id] = engine.job_by_id(submission.job_id).name
    with engine.store.transaction() as tx:
        row = tx.job(engine.job(names["team_a"]).id)
        row.reason = {"code": "refused_for_now", "numbers": {"message": f"{names['team_b']} of team_b.train holds it"}}
        tx.record(row, "waits", **row.reason)
    return names


@pytest.fixture(scope="module")
def served(engine: Engine, jobs: dict[str, str], real_airflow: Any) -> Iterator[Any]:
    """A real API server under the FAB auth manager, with a token of each user."""
    manager = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
    found = real_airflow.RealAirflow(engine.settings.home.parent, extra={"AIRFLOW__CORE__AUTH_MANAGER": manager})
    shutil.copy(HERE / "teams.py", found.dags)
    try:
        found.run("db", "migrate")
        found.run("dags", "reserialize")
        found.python(ENROL, ROLES)
        found.start_parts("api-server")
        found.tokens = {user: real_airflow.token(found.url, user, user) for user in ROLES}
        yield found
    finally:
        found.stop()


@pytest.fixture
def ask(served: Any) -> Callable[..., httpx.Response]:
    """Asks the API as a user, or as nobody."""

    def ask(user: str, method: str, path: str, body: object = None) -> httpx.Response:
        bearer = {"Authorization": f"Bearer {served.tokens[user]}"} if user in ROLES else {}
        return httpx.request(method, f"{served.url}/optimus/{path}", json=body, headers=bearer, timeout=60)

    return ask


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        pytest.param("GET", "api/jobs/{team_a}", (401, 200, 200, 404), id="a job"),
        pytest.param("GET", "api/jobs/{team_b}", (401, 404, 404, 200), id="the other team's job"),
        pytest.param("GET", "jobs/{team_a}", (401, 200, 200, 404), id="its plain page"),
        pytest.param("POST", "api/jobs/{team_a}/pin", (401, 200, 403, 404), id="pin"),
        pytest.param("POST", "api/jobs/{team_a}/unpin", (401, 200, 403, 404), id="unpin"),
        pytest.param("POST", "api/jobs/{team_b}/stop", (401, 404, 404, 200), id="stop"),
        pytest.param("GET", "api/jobs", (401, 200, 200, 200), id="the list"),
        pytest.param("GET", "api/clusters/local", (401, 200, 200, 200), id="the cluster"),
        pytest.param("POST", "api/clusters/local/what-if", (401, 200, 200, 200), id="what if"),
    ],
)
def test_each_user_gets_what_his_team_may(ask, jobs, method, path, want):
    body = None if method == "GET" else ({"workers": 1} if path.endswith("/pin") else {})
    got = tuple(ask(user, method, path.format(**jobs), body).status_code for user in ("nobody", *ROLES))
    assert got == want


@pytest.mark.parametrize(("user", "own"), [("ada", "team_a"), ("rita", "team_a"), ("bob", "team_b")])
def test_nothing_that_a_user_is_told_names_the_other_teams_job(ask, jobs, user, own):
    (other,) = {"team_a", "team_b"} - {own}
    paths = ("api/jobs", "api/clusters/local", f"api/jobs/{jobs[own]}", f"jobs/{jobs[own]}")
    told = [ask(user, "GET", path).text for path in paths] + [ask(user, "POST", "api/clusters/local/what-if", {}).text]
    assert jobs[own] in told[0]
    assert [text for text in told if other in text or jobs[other] in text] == []


def test_only_who_may_edit_is_offered_actions(ask, jobs):
    offered = [ask(user, "GET", f"api/jobs/{jobs['team_a']}").json()["editable"] for user in ("ada", "rita")]
    assert offered == [True, False]


@pytest.mark.parametrize(
    ("user", "told", "hidden"),
    [
        pytest.param("ada", "Pin workers", "no such job", id="who may edit is offered actions"),
        pytest.param("rita", "History", "Actions", id="who may read is offered none"),
        pytest.param("bob", "There is no such job, or you may not", "History", id="another team does not see it"),
    ],
)
def test_the_page_of_a_job_shows_each_user_what_his_team_may(served, jobs, browse, user, told, hidden):
    address = f"{served.url}/plugin/optimus?job={jobs['team_a']}"
    seen = browse(url=address, token=served.tokens[user], wait=told)
    assert hidden not in seen["text"]
    assert harmless(seen)


def test_the_cluster_shows_a_team_its_own_jobs_only(served, jobs, browse):
    seen = browse(url=f"{served.url}/plugin/optimus", token=served.tokens["bob"], wait="team_b.train")
    assert "team_a" not in seen["text"]
    assert harmless(seen)
