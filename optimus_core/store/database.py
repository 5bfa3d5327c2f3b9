"""Opening the database: SQLite for one machine, PostgreSQL for production.

SQLite under SQLAlchemy's defaults loses concurrent updates without an error. Every transaction here begins with
``BEGIN IMMEDIATE`` (the write lock is taken before the first read) on a WAL file, and no connection outlives its
use, since task processes are forked; one that does nothing keeps the file open (:mod:`.anchor`).
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from optimus_core.errors import SpecificationError, StoreError
from optimus_core.store.anchor import Anchor

_BUSY_SECONDS = 30
"""How long a SQLite writer waits for another; one transaction takes milliseconds."""
_POSTGRESQL = "postgresql+psycopg"
_EXAMPLES = {"sqlite": "sqlite:////srv/optimus.db", "postgresql": "postgresql://user:password@host/optimus"}


def open_database(url: str) -> Engine:
    """Return an engine for ``url`` on which transactions are serialised and survive forks.

    Raises:
        SpecificationError: the URL can't be read, or names a database or driver that Optimus does not support.
        StoreError: the folder of a SQLite file is not there and can't be made.
    """
    parsed = read_url(url)
    _check_driver(parsed)
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed)
    return create_engine(parsed, poolclass=NullPool)


def read_url(url: str) -> URL:
    """Return the parsed URL, with the driver that Optimus installs where none is named."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:  # a port that is no number is a ValueError
        shown = re.sub(r"//([^:/@]*):.*@", r"//\1:***@", url)
        raise SpecificationError(
            f'[optimus] database_url is "{shown}", which is no database URL. '
            'Write such as "sqlite:////srv/optimus.db" or "postgresql://user:password@host/optimus".'
        ) from error
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise SpecificationError(
            f"[optimus] database_url names {backend}; Optimus keeps its state in SQLite (one machine) "
            'or PostgreSQL. Write such as "postgresql://user:password@host/optimus".'
        )
    if parsed.drivername == "postgresql":
        return parsed.set(drivername=_POSTGRESQL)
    return parsed


def _check_driver(url: URL) -> None:
    """Refuse a driver that is not installed, or that only coroutines can use."""
    try:
        dialect = url.get_dialect()
        dialect.import_dbapi()
        reason = "is for coroutines" if dialect.is_async else None
    except (ArgumentError, ImportError):
        reason = "is not installed"
    if reason is not None:
        backend = url.get_backend_name()
        if url.drivername == _POSTGRESQL:
            raise SpecificationError(
                f"[optimus] database_url names PostgreSQL, whose driver psycopg {reason}. "
                'Run: pip install "airflow-provider-optimus[postgres]"'
            )
        raise SpecificationError(
            f"[optimus] database_url names the driver {url.drivername}, which {reason}. "
            f'Write {backend}:// and no driver, as in "{_EXAMPLES[backend]}".'
        )


def this_host() -> str:
    """Return the name that a SQLite store remembers of the machine that it serves."""
    return socket.gethostname()


def _open_sqlite(url: URL) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise SpecificationError(
            "[optimus] database_url names no file; what SQLite keeps in memory is gone with each connection. "
            f'Write such as "{_EXAMPLES["sqlite"]}".'
        )
    folder = Path(url.database).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"The folder of the store, {folder}, can't be made: {error.strerror}. "
            "Set OPTIMUS_HOME, or [optimus] database_url, to a place that can be written."
        ) from error
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _BUSY_SECONDS})
    anchor = Anchor(url.database)
    event.listen(engine, "connect", _set_up_connection)
    event.listen(engine, "connect", lambda *_: anchor.hold())
    event.listen(engine, "begin", _begin_immediately)
    return engine


def _set_up_connection(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself
    for pragma in ("journal_mode=wal", "synchronous=normal", "foreign_keys=on"):
        connection.execute(f"pragma {pragma}")


def _begin_immediately(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
