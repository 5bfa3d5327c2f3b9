"""Alembic's entry: migrates the tables of Optimus, and those only, wherever the caller points it."""

from typing import Any

from alembic import context

from optimus_core.store.database import open_database
from optimus_core.store.tables import Base

VERSION_TABLE = "alembic_version_optimus"


def _is_ours(_object: object, name: str | None, type_: str, *_rest: object) -> bool:
    return type_ != "table" or name in Base.metadata.tables


def _migrate(**options: Any) -> None:
    context.configure(
        target_metadata=Base.metadata,
        version_table=VERSION_TABLE,
        render_as_batch=True,
        include_object=_is_ours,
        **options,
    )
    with context.begin_transaction():
        context.run_migrations()


def main() -> None:
    """Run on the connection that the caller gave, else on the configured URL."""
    url = context.config.get_main_option("sqlalchemy.url") or ""
    if context.is_offline_mode():
        _migrate(url=url, literal_binds=True)
        return
    given = context.config.attributes.get("connection")
    if given is not None:
        _migrate(connection=given)
        return
    with open_database(url).connect() as connection:
        _migrate(connection=connection)
        connection.commit()


main()
