"""A real Airflow on this machine: its four parts with a home, a database and a port of their own."""

from __future__ import annotations

import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
PARTS: Mapping[str, list[str]] = {
    "api-server": [],
    "scheduler": ["--skip-serve-logs"],
    "dag-processor": [],
    "triggerer": ["--skip-serve-logs"],
}

_BUSY_TRIES = 5


def end_what_is_left(home: str) -> None:
    """Kill what still works in a folder or on files of it: the replicas of jobs outlive Airflow, as they should."""
    import psutil

    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        about = [*(process.info["cmdline"] or ()), f"{process.info['cwd']}/"]
        if process.pid != os.getpid() and any(f"{home}/" in text for text in about):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass


_WATCH = f"""
import os, signal, sys, time
{inspect.getsource(end_what_is_left)}
groups = [int(line) for line in sys.stdin]
for number, seconds in ((signal.SIGTERM, 5), (signal.SIGKILL, 0)):
    for group in groups:
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            pass
    time.sleep(seconds)
end_what_is_left(sys.argv[1])
"""
"""Reads process groups until whoever writes them is gone, and ends them then."""


def wait_for(condition: Callable[[], Any], seconds: float, what: str, pause: float = 0.3) -> Any:
    """Return the first true answer of ``condition``."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(pause)


class Watcher:
    """Ends process groups, and what is left below a home, when this process is killed: the closed pipe tells."""

    def __init__(self, home: Path) -> None:
        command = [sys.executable, "-c", _WATCH, str(home)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def watch(self, group: int) -> None:
        """Look after one more group."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{group}\n")
        self._process.stdin.flush()

    def dismiss(self) -> None:
        """Look after nothing any more, since all have ended: their numbers may be given out anew."""
        self._process.kill()
        self._process.communicate()


class RealAirflow:
    """Starts, asks and stops an Airflow.

    Args:
        home: an empty folder for its files.
        dags: the folder with the DAGs; by default ``dags`` in home.
        extra: further environment variables.
    """

    def __init__(self, home: Path, dags: Path | None = None, extra: Mapping[str, str] | None = None) -> None:
        self.home, self.dags = home, dags or home / "dags"
        self.dags.mkdir(parents=True, exist_ok=True)
        self.port = _free_port()
        self.url = f"http://localhost:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environ = self._environ() | dict(extra or {})
        self._client: httpx.Client | None = None
        self._watcher = Watcher(self.home)

    def _environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW__") and k != "PYTHONDONTWRITEBYTECODE"}
        return kept | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
            "AIRFLOW_HOME": str(self.home),
            "OPTIMUS_HOME": str(self.home / "optimus"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        }

    def run(self, *command: str) -> str:
        """Run an ``airflow`` command to its end; return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *command], env=self.environ, cwd=self.home, capture_output=True, text=True
        )
        assert done.returncode == 0, f"airflow {' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def python(self, code: str, *arguments: object) -> None:
        """Run Python code in the environment of this Airflow; each argument reaches it as JSON."""
        command = [sys.executable, "-c", code, *map(json.dumps, arguments)]
        done = subprocess.run(command, env=self.environ, cwd=self.home, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def start(self, seconds: float = 120) -> None:
        """Make the database, start all parts, and wait until they are healthy."""
        self.run("db", "migrate")
        self.start_parts(*PARTS, seconds=seconds)

    def start_parts(self, *parts: str, seconds: float = 120) -> None:
        """Start some parts, the API server among them, and wait until they are healthy."""
        for part in parts:
            self.start_part(part)
        wait_for(lambda: self.healthy(parts), seconds, f"a healthy Airflow; see the logs in {self.home}", 0.5)

    def start_part(self, part: str) -> None:
        """Start one part, in a session of its own."""
        with (self.home / f"{part}.log").open("ab") as log:
            self.processes[part] = subprocess.Popen(
                [sys.executable, "-m", "airflow", part, *PARTS[part]],
                env=self.environ,
                cwd=self.home,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watcher.watch(self.processes[part].pid)

    def healthy(self, parts: Collection[str] = tuple(PARTS)) -> bool:
        """Say whether these parts report that they are well."""
        try:
            health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return False
        names = ["metadatabase", *(part.replace("-", "_") for part in parts if part != "api-server")]
        return all((health.get(name) or {}).get("status") == "healthy" for name in names)

    def kill_part(self, part: str) -> None:
        """Kill a part and all its processes at once."""
        process = self.processes.pop(part)
        _signal(process, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Stop all parts, by force what does not listen."""
        for process in self.processes.values():
            _signal(process, signal.SIGTERM)
        end = time.monotonic() + 20
        for process in self.processes.values():
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            _signal(process, signal.SIGKILL)
            process.wait()
        self.processes.clear()
        self._watcher.dismiss()
        end_what_is_left(str(self.home))

    @property
    def client(self) -> httpx.Client:
        """What asks Airflow's API."""
        if self._client is None:
            token = httpx.get(f"{self.url}/auth/token", timeout=30).json()["access_token"]
            headers = {"Authorization": f"Bearer {token}"}
            self._client = httpx.Client(base_url=f"{self.url}/api/v2", headers=headers, timeout=60)
        return self._client

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Call the API and return its answer. What a busy SQLite file refuses was rolled back, so it is asked again."""
        for _ in range(_BUSY_TRIES):
            answer = self.client.request(method, path, json=body)
            if not (answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR and "Database error" in answer.text):
                break
            time.sleep(1)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:1000]}"
        return answer.json() if answer.content else None

    def trigger(self, dag_id: str) -> str:
        """Start a run of a DAG, once it is known; return the run's id."""
        wait_for(lambda: self.client.get(f"/dags/{dag_id}").is_success, 60, f"{dag_id} is parsed")
        self.call("PATCH", f"/dags/{dag_id}", {"is_paused": False})
        return str(self.call("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": {}})["dag_run_id"])

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """Return a task instance."""
        return dict(self.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"))

    def await_task(self, dag_id: str, run_id: str, task_id: str, *states: str, seconds: float = 90) -> dict[str, Any]:
        """Wait until a task instance is in one of ``states``."""
        last: dict[str, Any] = {}

        def there() -> bool:
            last.update(self.task(dag_id, run_id, task_id))
            return last["state"] in states

        wait_for(there, seconds, f"{dag_id}.{task_id} is {' or '.join(states)}")
        return last

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return what a task has pushed."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}?deserialize=true"
        return self.call("GET", path)["value"]

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Mark a task instance."""
        self.call("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}", {"new_state": state})

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task instance."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self.call("POST", f"/dags/{dag_id}/clearTaskInstances", body)


def token(url: str, user: str, password: str) -> str:
    """Sign in and return the token."""
    answer = httpx.post(f"{url}/auth/token", json={"username": user, "password": password}, timeout=60)
    assert answer.is_success, f"{user} can't sign in: {answer.status_code} {answer.text[:1000]}"
    return str(answer.json()["access_token"])


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
