"""Lets ``airflow db migrate`` bring Optimus' own database up to date as well."""

from __future__ import annotations

from typing import Any

from airflow.utils.db_manager import BaseDBManager
from sqlalchemy.orm import Session

from optimus_airflow import settings
from optimus_core.store import migrate
from optimus_core.store.database import open_database
from optimus_core.store.tables import Base


class OptimusDBManager(BaseDBManager):
    """Looks after the database of ``[optimus] database_url``, which need not be Airflow's."""

    metadata = Base.metadata
    migration_dir = str(migrate.MIGRATIONS)
    alembic_file = ""
    version_table_name = migrate.VERSION_TABLE
    supports_table_dropping = False

    def __init__(self, session: Session) -> None:
        settings_ = settings.load()
        self._url = settings_.database_url
        self._engine = open_database(self._url)
        super().__init__(Session(self._engine))

    def get_alembic_config(self) -> Any:
        """Return the configuration for our database; it needs no ini file."""
        return migrate.alembic_config(self._engine.url.render_as_string(hide_password=False))

    def get_current_revision(self) -> str | None:
        """Return the version of our tables, None where there are none."""
        return migrate.current(self._engine)

    def create_db_from_orm(self) -> None:
        """Make the tables by the migrations, so that there is one way to make them."""
        migrate.upgrade(self._engine)

    def upgradedb(self, to_revision: str | None = None, show_sql_only: bool = False, **_: Any) -> None:
        """Migrate to the newest version; a version of Airflow's says nothing about ours."""
        if not show_sql_only:
            migrate.upgrade(self._engine)

    def downgrade(self, to_revision: str, from_revision: str | None = None, show_sql_only: bool = False) -> None:
        """Leave our tables: older ones are not kept apart by Airflow's versions."""
