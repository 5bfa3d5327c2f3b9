"""The tables come from migrations only."""

import multiprocessing
import re
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from optimus_core.errors import SpecificationError, StoreError
from optimus_core.store import Store, migrate
from optimus_core.store.database import open_database, read_url
from optimus_core.store.tables import Base


def differences(database):
    with database.connect() as connection:
        options = {"version_table": migrate.VERSION_TABLE, "compare_type": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata)


def test_migrations_from_nothing_make_what_the_models_say(database_url):
    database = open_database(database_url)
    migrate.upgrade(database)
    assert differences(database) == []


def test_a_second_upgrade_changes_nothing(database_url):
    database = open_database(database_url)
    migrate.upgrade(database)
    before = migrate.current(database)
    migrate.upgrade(database)
    assert migrate.current(database) == before == migrate.newest()


def test_an_upgrade_keeps_what_is_stored(store, add_job):
    with store.transaction() as tx:
        job = add_job(tx, "kept")
    migrate.upgrade(store.engine)
    with store.transaction() as tx:
        assert tx.peek_job(job.id).name == "kept"


def _upgrade(url, start):
    start.wait()
    migrate.upgrade(open_database(url))


def test_upgraders_at_once_do_not_disturb_each_other(database_url):
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(3)
    processes = [context.Process(target=_upgrade, args=(database_url, start)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert differences(open_database(database_url)) == []


def test_check_says_what_to_run_where_no_tables_are(database_url):
    with pytest.raises(StoreError, match=r"has no tables of Optimus; this release needs .* Run: optimus db upgrade"):
        migrate.check(open_database(database_url))


def test_tables_of_a_newer_release_are_left_alone(store):
    with store.engine.begin() as connection:
        connection.exec_driver_sql("update alembic_version_optimus set version_num = '9999'")
    for act in (Store, lambda url: migrate.upgrade(open_database(url))):
        with pytest.raises(StoreError, match=r"is at version 9999, which this release does not know.* install that"):
            act(store.url)


@pytest.mark.parametrize("name", sorted(Base.metadata.tables))
def test_check_names_a_table_that_is_missing(store, name):
    with store.engine.begin() as connection:
        if store.is_sqlite:
            connection.exec_driver_sql(f"drop table {name}")
        else:
            connection.exec_driver_sql(f"drop table {name} cascade")
    with pytest.raises(StoreError, match=rf"lacks {name}. .*restore a backup"):
        Store(store.url)


def test_a_folder_that_can_not_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in ("/proc/nope", tmp_path / "file"):
        with pytest.raises(StoreError, match=rf"The folder of the store, {folder}, can't be made: .* OPTIMUS_HOME"):
            open_database(f"sqlite:///{folder}/optimus.db")


def test_check_shows_no_password():
    class Locked:
        url = read_url("postgresql://optimus:hunter2@db/optimus")

    migrate_current, migrate.current = migrate.current, lambda _: None
    try:
        with pytest.raises(StoreError) as caught:
            migrate.check(Locked())
    finally:
        migrate.current = migrate_current
    assert "hunter2" not in str(caught.value)
    assert "db/optimus" in str(caught.value)


def test_a_sqlite_store_makes_its_tables_and_a_postgresql_one_waits_for_the_upgrade(tmp_path, postgres_url):
    Store(f"sqlite:///{tmp_path / 'new' / 'optimus.db'}")
    with pytest.raises(StoreError, match="Run: optimus db upgrade"):
        Store(postgres_url)


def test_tables_of_others_are_left_alone(database_url):
    database = open_database(database_url)
    with database.begin() as connection:
        connection.exec_driver_sql("create table theirs (n integer)")
    migrate.upgrade(database)
    assert "theirs" in inspect(database).get_table_names()


def test_migrations_run_as_sql_for_who_has_no_access(database_url, capsys):
    from alembic import command

    config = migrate.alembic_config(database_url)
    command.upgrade(config, "head", sql=True)
    assert "CREATE TABLE optimus_jobs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "said"),
    [
        pytest.param("optimus.db", "which is no database URL", id="a-path"),
        pytest.param("", "which is no database URL", id="nothing"),
        pytest.param("postgresql://u:p@h:port/optimus", "which is no database URL", id="port-is-no-number"),
        pytest.param("mysql://u:p@h/optimus", "names mysql", id="mysql"),
        pytest.param("oracle://u:p@h/optimus", "names oracle", id="oracle"),
    ],
)
def test_a_bad_url_is_refused_with_one_that_would_do(url, said):
    with pytest.raises(SpecificationError, match=said) as caught:
        open_database(url)
    assert "postgresql://user:password@host/optimus" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        pytest.param("postgresql+foo://u:p@h/o", "postgresql+foo, which is not installed", id="no-such-driver"),
        pytest.param("sqlite+foo:////x/y.db", "sqlite+foo, which is not installed", id="no-such-driver-of-sqlite"),
        pytest.param("postgresql+pg8000://u:p@h/o", "pg8000, which is not installed", id="a-driver-not-installed"),
        pytest.param("sqlite+aiosqlite:////x/y.db", "aiosqlite, which is", id="a-driver-for-coroutines"),
        pytest.param("postgresql+asyncpg://u:p@h/o", "asyncpg, which is", id="another-for-coroutines"),
        pytest.param("sqlite://", "names no file", id="in-memory"),
        pytest.param("sqlite:///:memory:", "names no file", id="in-memory-by-name"),
    ],
)
def test_a_driver_that_can_not_serve_is_refused_with_a_url_that_would_do(url, said):
    with pytest.raises(SpecificationError, match=re.escape(said)) as caught:
        open_database(url)
    assert "://" in str(caught.value).partition("Write ")[2]


def test_who_has_not_installed_our_driver_is_told_how(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SpecificationError, match=r"pip install .*\[postgres\]"):
        open_database("postgresql://u:p@h/o")


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        pytest.param("postgresql://h/optimus", "postgresql+psycopg", id="none-named"),
        pytest.param("postgresql+psycopg://h/optimus", "postgresql+psycopg", id="ours"),
        pytest.param("postgresql+asyncpg://h/optimus", "postgresql+asyncpg", id="anothers-is-kept"),
    ],
)
def test_postgresql_gets_the_driver_that_is_installed(url, driver):
    assert read_url(url).drivername == driver


def test_a_bad_url_shows_no_password():
    with pytest.raises(SpecificationError) as caught:
        open_database("postgresql//optimus:hunter2@db/optimus")
    assert "hunter2" not in str(caught.value)
