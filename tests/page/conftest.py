"""A real Airflow with two users and a training job, and a browser that looks at it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what needs node and Chromium unless it is asked for by name: `make test-page` does."""
    asked = any("page" in Path(arg.split("::")[0]).parts for arg in config.invocation_params.args)
    return True if collection_path.is_relative_to(HERE) and not asked else None


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def real_airflow() -> Any:
    """The module that starts real Airflows."""
    return _module(ROOT / "tests" / "e2e" / "real_airflow.py")


CLUSTERS = f"""
local:
  kind: local
  nodes:
  - {{name: first, cpu: {os.cpu_count()}, memory: 4Gi}}
  pools:
    teaching: {{guaranteed: {{cpu: 50m}}, ceiling: {{cpu: 1}}}}
spare: {{kind: local}}
"""
"""One node, the pool of the job that trains, and a cluster that nobody uses."""
PASSWORDS = {"vera": "look", "ursula": "edit"}
"""Vera is a viewer, Ursula may do anything."""


@pytest.fixture(scope="session")
def make_airflow(real_airflow: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Any]:
    """Makes an Airflow under the simple auth manager with Vera and Ursula; nothing of it runs yet."""

    def make() -> Any:
        home = tmp_path_factory.mktemp("airflow")
        passwords = home / "passwords.json"
        passwords.write_text(json.dumps(PASSWORDS))
        found = real_airflow.RealAirflow(
            home,
            extra={
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "vera:viewer,ursula:admin",
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
                "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # a server beside a browser is slow
            },
        )
        shutil.copy(HERE / "dags.py", found.dags / "page.py")
        (home / "optimus").mkdir(exist_ok=True)
        (home / "optimus" / "clusters.yaml").write_text(CLUSTERS)
        return found

    return make


@pytest.fixture(scope="session")
def airflow(make_airflow: Callable[[], Any], real_airflow: Any) -> Iterator[Any]:
    """A healthy Airflow, in which ``paged`` trains."""
    found = make_airflow()
    try:
        found.start()
        found.tokens = {user: real_airflow.token(found.url, user, word) for user, word in PASSWORDS.items()}
        bearer = {"Authorization": f"Bearer {found.tokens['ursula']}"}
        found._client = httpx.Client(base_url=f"{found.url}/api/v2", headers=bearer, timeout=60)
        found.run_id = found.trigger("paged")
        found.await_task("paged", found.run_id, "train", "deferred", seconds=300)
        yield found
        _stop_jobs(found)
    finally:
        found.stop()


def _stop_jobs(airflow: Any) -> None:
    """Leave no replica behind."""
    headers = {"Authorization": f"Bearer {airflow.tokens['ursula']}"}
    with httpx.Client(base_url=f"{airflow.url}/optimus/api", headers=headers, timeout=60) as client:

        def live() -> list[dict[str, Any]]:
            return list(client.get("/jobs", params={"live": True}).json()["jobs"])

        for job in live():
            client.post(f"/jobs/{job['name']}/stop", json={})
        end = time.monotonic() + 30
        while live() and time.monotonic() < end:
            time.sleep(1)


@pytest.fixture(scope="session")
def browse() -> Callable[..., dict[str, Any]]:
    """Opens an address in Chromium; returns what ``look.mjs`` prints."""
    return _browse


def _browse(**asked: Any) -> dict[str, Any]:
    chromium = os.environ.get("CHROMIUM", shutil.which("chromium") or "")  # empty: the one that npm brought
    done = subprocess.run(
        ["node", str(HERE / "look.mjs"), json.dumps({"theme": "light", "width": 1280} | asked)],
        capture_output=True,
        text=True,
        timeout=180,
        env=os.environ | {"CHROMIUM": chromium},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="session")
def look(airflow: Any) -> Callable[..., dict[str, Any]]:
    """Opens a path of Airflow as a user; returns what a person would meet there."""
    return lambda path, user="vera", **more: _browse(url=airflow.url + path, token=airflow.tokens[user], **more)
