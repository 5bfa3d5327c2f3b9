"""Opening the database: SQLite for one machine, PostgreSQL for production.

SQLite under SQLAlchemy's defaults loses concurrent updates without an error. Every transaction here begins with
``BEGIN IMMEDIATE`` (the write lock is taken before the first read) on a WAL file, and no connection outlives its
use, since task processes are forked.
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

from optimus_core.errors import SpecificationError

_BUSY_SECONDS = 30
"""How long a SQLite writer waits for another; one transaction takes milliseconds."""


def open_database(url: str) -> Engine:
    """Return an engine for ``url`` on which transactions are serialised and survive forks.

    Raises:
        SpecificationError: the URL can't be read, or names a database that Optimus does not support.
    """
    parsed = read_url(url)
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
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


def this_host() -> str:
    """Return the name that a SQLite store remembers of the machine that it serves."""
    return socket.gethostname()


def _open_sqlite(url: URL) -> Engine:
    if url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _BUSY_SECONDS})
    event.listen(engine, "connect", _set_up_connection)
    event.listen(engine, "begin", _begin_immediately)
    return engine


def _set_up_connection(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself
    for pragma in ("journal_mode=wal", "synchronous=normal", "foreign_keys=on"):
        connection.execute(f"pragma {pragma}")


def _begin_immediately(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
