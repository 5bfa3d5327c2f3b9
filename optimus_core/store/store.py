"""The store: opening it, its clock, its transactions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError
from sqlalchemy.orm import Session
from sqlalchemy.orm.exc import StaleDataError

from optimus_core.errors import StoreError
from optimus_core.store import migrate
from optimus_core.store.database import open_database, this_host
from optimus_core.store.tables import MetaRow
from optimus_core.store.transaction import Transaction

CONFLICTS = (StaleDataError, IntegrityError)
"""Raised when another writer came first: whoever meets one looks again and decides anew."""

_NOT_AS_IT_WAS = ("42501", "42P01", "42703")
"""PostgreSQL's codes of permissions, tables and columns that are missing."""


class Store:
    """What Optimus knows, in SQLite (one machine) or PostgreSQL.

    Raises:
        StoreError: the tables are missing or of another version, or a SQLite file serves another host.
    """

    def __init__(self, url: str, *, host: str | None = None, create: bool = True) -> None:
        self.url = url
        self.engine: Engine = open_database(url)
        self._host = host or this_host()
        if create and self.is_sqlite and migrate.current(self.engine) is None:
            migrate.upgrade(self.engine)
        migrate.check(self.engine)
        if self.is_sqlite:
            self._serve_one_host()

    @property
    def is_sqlite(self) -> bool:
        """Whether this store serves one machine only."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction; on SQLite it is the only one while it is open, so keep it short."""
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield Transaction(session, self._now(session))

    def now(self) -> datetime:
        """Return the database's clock."""
        with self.transaction() as tx:
            return tx.now

    def _now(self, session: Session) -> datetime:
        if self.is_sqlite:  # serves this machine only, so its clock is the database's
            return datetime.fromtimestamp(time.time(), UTC)
        moment = session.scalar(select(func.clock_timestamp()))
        assert isinstance(moment, datetime)
        return moment.astimezone(UTC)

    def _serve_one_host(self) -> None:
        with self.transaction() as tx:
            row = tx.session.get(MetaRow, "host")
            if row is None:
                tx.session.add(MetaRow(key="host", value=self._host))
            elif row.value != self._host:
                raise StoreError(
                    f'The store {self.url} serves the machine "{row.value}"; this is "{self._host}". SQLite serves '
                    "one machine. Set [optimus] database_url to a PostgreSQL database for several."
                )


def is_unreachable(error: Exception) -> bool:
    """Say whether ``error`` means that the database could not be asked, rather than that it refused what it was given.

    Tables and permissions that are missing are the database's fault, too.
    """
    if not isinstance(error, DBAPIError) or getattr(error.orig, "sqlstate", None) in _NOT_AS_IT_WAS:
        return isinstance(error, DBAPIError)
    return not isinstance(error, IntegrityError | DataError | ProgrammingError | NotSupportedError)


def is_of_the_store(error: Exception) -> bool:
    """Say whether ``error`` tells of the store and not of what was done with it: it must be raised on."""
    return isinstance(error, CONFLICTS) or is_unreachable(error)
