"""Optimus' settings as Airflow's configuration holds them, and the engine that a process makes of them."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimus_core.engine.engine import Engine
    from optimus_core.settings import Settings

SECTION = "optimus"
_MANY_MACHINES = ("Celery", "Kubernetes", "Ecs", "Batch")

_engines: dict[int, Engine] = {}
_lock = threading.Lock()


def load() -> Settings:
    """Return the settings: what Airflow's configuration sets, the rest as outside Airflow.

    Raises:
        SpecificationError: a value can't be.
    """
    from optimus_core.settings import Settings

    return Settings.load(overrides=_given(Settings.options()))


def _given(options: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return what somebody has set; a default of the provider's section must not stand above ``config.toml``."""
    from airflow.configuration import conf

    found = {}
    for key, option in options.items():
        if f"AIRFLOW__{SECTION}__{key}".upper() in os.environ:
            continue  # read outside Airflow as well, where errors name the variable
        value = conf.get(SECTION, key, fallback=None)
        if value not in (None, "", option["default"]):
            found[key] = value
    return found


def engine() -> Engine:
    """Return this process's engine; the first call opens the store.

    Raises:
        SpecificationError: a setting can't be, or the store can't serve the executor.
        StoreError: the store can't be used as it is.
    """
    with _lock:
        found = _engines.get(os.getpid())
        if found is None:
            from optimus_airflow.metrics import engine_type

            settings = load()
            check_store(settings.database_url)
            _engines.clear()  # those of a parent process
            found = _engines[os.getpid()] = engine_type()(settings, connect=connect)
        return found


def connect(connection: str) -> Any:
    """Return the Kubernetes client of a connection of Airflow.

    Raises:
        SpecificationError: there is no such connection, or it leads nowhere.
    """
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
    from airflow.sdk.exceptions import AirflowException
    from kubernetes.config.config_exception import ConfigException

    from optimus_core.errors import SpecificationError

    try:
        return KubernetesHook(conn_id=connection).get_conn()
    except (AirflowException, ConfigException) as error:
        raise SpecificationError(
            f'the Airflow connection "{connection}", by which a cluster is declared, can\'t be used: {error}. '
            f"Correct it: airflow connections get {connection}"
        ) from error


def opened_engine() -> Engine | None:
    """Return this process's engine if there is one already."""
    return _engines.get(os.getpid())


def forget_engine() -> None:
    """Let the next call of :func:`engine` read the settings anew."""
    with _lock:
        _engines.clear()


def check_store(url: str) -> None:
    """Refuse a SQLite store where tasks run on several machines.

    Raises:
        SpecificationError: it says what to set.
    """
    from airflow.configuration import conf

    from optimus_core.errors import SpecificationError

    executors = conf.get("core", "executor", fallback="")
    several = [name.strip() for name in executors.split(",") if any(kind in name for kind in _MANY_MACHINES)]
    if several and url.startswith("sqlite"):
        raise SpecificationError(
            f"[core] executor has {several[0]}, which runs tasks on several machines, but Optimus keeps its state in "
            "a SQLite file, which serves one. Set [optimus] database_url to a PostgreSQL database, such as "
            '"postgresql://user:password@host/optimus".'
        )
