"""A real Airflow in a folder of its own: its four parts, each in its own session, none of which outlives us."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ending
import httpx

from optimus_core.settings import Settings

PARTS = {
    "api-server": [],
    "scheduler": ["--skip-serve-logs"],
    "dag-processor": [],
    "triggerer": ["--skip-serve-logs"],
}
_PR_SET_PDEATHSIG = 1
_USER = "admin"
_HOST = "127.0.0.1"
"""Nobody but this machine's users may even ask."""


class Airflow:
    """Starts, asks and stops an Airflow.

    Args:
        home: the folder of its files.
        dags: the folder of its DAGs.
        extra: further environment variables of all its parts.
        kept_open: files that stay open until all is over.
    """

    def __init__(self, home: Path, dags: Path, extra: dict[str, str], kept_open: Sequence[int] = ()) -> None:
        self.home, self.dags, self.kept_open = home, dags, kept_open
        self.port = _free_port()
        self.url = f"http://{_HOST}:{self.port}"
        self.user, self.password = _USER, secrets.token_urlsafe(9)
        self.logs = home / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.environ = self._environ() | extra
        self._parts: list[subprocess.Popen[bytes]] = []
        self._ending: subprocess.Popen[bytes] | None = None
        self._client: httpx.Client | None = None

    def _environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW__", "OPTIMUS_"))}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        passwords = self.home / "passwords.json"
        passwords.write_text(json.dumps({self.user: self.password}), encoding="utf-8")
        passwords.chmod(0o600)
        return kept | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{self.user}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__HOST": _HOST,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.logs / "tasks"),
        }

    def start(self) -> None:
        """Make the databases, start all parts and wait until they are healthy."""
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        with (self.logs / "migrate.log").open("wb") as log:
            subprocess.run(
                command, env=self.environ, cwd=self.home, check=True, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._ending = self._start_ending()
        for part, options in PARTS.items():
            self._start_part(part, options)
        wait_for(self._healthy, 180, f"Airflow did not become healthy; see {self.logs}")

    def _start_ending(self) -> subprocess.Popen[bytes]:
        """Start the process that ends all the others when we are gone, however that comes."""
        with (self.logs / "ending.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, ending.__file__],
                env=self.environ,
                cwd=self.home,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=self.kept_open,
            )

    def _start_part(self, part: str, options: list[str]) -> None:
        assert self._ending is not None
        assert self._ending.stdin is not None
        with (self.logs / f"{part}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "airflow", part, *options],
                env=self.environ,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self._parts.append(process)
        self._ending.stdin.write(f"{process.pid}\n".encode())
        self._ending.stdin.flush()

    def _healthy(self) -> bool:
        dead = [part for part, process in zip(PARTS, self._parts, strict=True) if process.poll() is not None]
        if dead:
            raise RuntimeError(f"Airflow's {dead[0]} has ended; see {self.logs / dead[0]}.log")
        try:
            health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return False
        names = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        return all((health.get(name) or {}).get("status") == "healthy" for name in names)

    def stop(self) -> None:
        """End Airflow and all jobs; return when nothing is left."""
        if self._ending is None:
            return
        assert self._ending.stdin is not None
        self._ending.stdin.close()
        if self._ending.wait() != 0:  # somebody has killed it
            ending.end([part.pid for part in self._parts], Settings.load(self.environ))
        for part in self._parts:
            part.wait()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Call Airflow's API and return its answer."""
        if self._client is None:
            login = {"username": self.user, "password": self.password}
            token = httpx.post(f"{self.url}/auth/token", json=login, timeout=30).json()["access_token"]
            headers = {"Authorization": f"Bearer {token}"}
            self._client = httpx.Client(base_url=f"{self.url}/api/v2", headers=headers, timeout=60)
        answer = self._client.request(method, path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def trigger(self, dag_id: str) -> str:
        """Start a run of a DAG, once it is parsed; return the run's id. On a busy SQLite file a call may fail once."""
        run_id = f"quickstart-{secrets.token_hex(4)}"
        body: dict[str, Any] = {"dag_run_id": run_id, "logical_date": None, "conf": {}}

        def started() -> bool:
            try:
                self.call("PATCH", f"/dags/{dag_id}", {"is_paused": False})
                self.call("POST", f"/dags/{dag_id}/dagRuns", body)
            except httpx.HTTPStatusError as error:
                return error.response.status_code == httpx.codes.CONFLICT  # an earlier call got through after all
            except httpx.HTTPError:
                return False
            return True

        wait_for(started, 120, f"the DAG {dag_id} could not be started; see {self.logs}")
        return run_id

    def state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run."""
        try:
            return str(self.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])
        except httpx.HTTPError:
            return "unknown"

    def failed_tasks(self, dag_id: str, run_id: str) -> list[str]:
        """Return the tasks of a run that did not succeed."""
        tasks = self.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return [f"{task['task_id']} ({task['state']})" for task in tasks if task["state"] != "success"]


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> None:
    """Wait until ``condition`` is true, or raise with ``what`` went wrong."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} ({seconds:.0f} s)")
        time.sleep(0.5)


def end_with_parent() -> None:
    """Let the kernel ask this process to end when its parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        return int(free.getsockname()[1])
