"""Bringing the tables to the version that this release needs, and saying whether they are."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect

from optimus_core.errors import StoreError
from optimus_core.store.tables import Base

MIGRATIONS = Path(__file__).with_name("migrations")
VERSION_TABLE = "alembic_version_optimus"


def alembic_config(url: str) -> Config:
    """Return Alembic's configuration for the store at ``url``; it needs no ini file."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    return config


def upgrade(engine: Engine) -> None:
    """Migrate to the newest version; does nothing where that is so already. Safe beside other upgraders.

    Raises:
        StoreError: the tables are of a version that this release does not know.
    """
    _refuse_unknown(engine, current(engine))
    config = alembic_config(engine.url.render_as_string(hide_password=False))
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("select pg_advisory_xact_lock(7049112)")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def current(engine: Engine) -> str | None:
    """Return the version that the tables have, or None where there are none."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return context.get_current_revision()


def newest(url: str = "sqlite://") -> str | None:
    """Return the version that this release needs."""
    return ScriptDirectory.from_config(alembic_config(url)).get_current_head()


def check(engine: Engine) -> None:
    """Raise unless the tables have the version that this release needs.

    Raises:
        StoreError: it says which version is there, which is needed and what to run; or which table is missing.
    """
    have, need = current(engine), newest()
    if have != need:
        _refuse_unknown(engine, have)
        state = f"is at version {have}" if have else "has no tables of Optimus"
        raise StoreError(f"The store {_named(engine)} {state}; this release needs {need}. Run: optimus db upgrade")
    missing = _missing_tables(engine)
    if missing:
        raise StoreError(
            f"The store {_named(engine)} is at version {have}, but lacks {', '.join(missing)}. "
            "Somebody has deleted that: restore a backup, or set [optimus] database_url to a new database."
        )


def _refuse_unknown(engine: Engine, have: str | None) -> None:
    scripts = ScriptDirectory.from_config(alembic_config("sqlite://"))
    if have is not None and have not in {script.revision for script in scripts.walk_revisions()}:
        raise StoreError(
            f"The store {_named(engine)} is at version {have}, which this release does not know; it needs {newest()}. "
            "A newer release has upgraded it: install that one here, or set [optimus] database_url to another database."
        )


def _missing_tables(engine: Engine) -> list[str]:
    found = inspect(engine)
    return sorted(name for name in Base.metadata.tables if not found.has_table(name))


def _named(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=True)
