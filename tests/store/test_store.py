"""What every writer relies on, on both databases."""

import multiprocessing
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm.exc import StaleDataError

from optimus_core.engine.identity import Identity
from optimus_core.errors import StoreError
from optimus_core.store import EventRow, OutputRow, RoundRow, SeriesRow, SpeedRow, Store, is_unreachable, migrate
from optimus_core.store.database import open_database

WRITERS, WRITES = 6, 25


def _count_up(url, job_id, start):
    store = Store(url)
    start.wait()
    for _ in range(WRITES):
        with store.transaction() as tx:
            row = tx.job(job_id)
            row.step = (row.step or 0) + 1
            tx.revise("local")


def test_six_writers_that_read_and_then_write_lose_nothing(store, add_job):
    with store.transaction() as tx:
        job = add_job(tx, "counted")
        tx.cluster("local")
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(WRITERS)
    processes = [context.Process(target=_count_up, args=(store.url, job.id, start)) for _ in range(WRITERS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(90)
    assert [process.exitcode for process in processes] == [0] * WRITERS
    with store.transaction() as tx:
        assert tx.peek_job(job.id).step == WRITERS * WRITES
        assert tx.peek_cluster("local").revision == WRITERS * WRITES


def test_a_transaction_that_raises_leaves_nothing(store, add_job):
    def fail():
        with store.transaction() as tx:
            add_job(tx, "never")
            raise RuntimeError("the power went")

    with pytest.raises(RuntimeError):
        fail()
    with store.transaction() as tx:
        assert tx.jobs() == []


def test_a_write_on_what_another_has_changed_is_refused(store, add_job):
    with store.transaction() as tx:
        job = add_job(tx, "seen")
    with store.transaction() as tx:
        tx.job(job.id).priority = 1

    def write_what_was_seen():
        with store.transaction() as tx:
            tx.session.add(job)  # as it was before the other's write
            job.priority = 2

    with pytest.raises(StaleDataError):
        write_what_was_seen()


def test_a_heartbeat_disturbs_no_writer(store, add_job):
    with store.transaction() as tx:
        job = add_job(tx, "driven")
    with store.transaction() as tx:
        tx.touch(job.id)
    with store.transaction() as tx:
        row = tx.peek_job(job.id)
        assert row.stepped_at is not None
        assert row.version == job.version


def test_a_lease_has_one_holder_until_it_is_given_back(store):
    with store.transaction() as tx:
        epoch = tx.take_lease("local", "first", 60)
    with store.transaction() as tx:
        assert tx.take_lease("local", "second", 60) is None
        assert tx.holds_lease("local", epoch)
    with store.transaction() as tx:
        tx.give_back_lease("local", epoch)
        assert tx.take_lease("local", "second", 60) == epoch + 1


def test_an_expired_lease_is_taken_over_and_the_old_epoch_holds_no_more(store):
    with store.transaction() as tx:
        old = tx.take_lease("local", "dead", 0)
    with store.transaction() as tx:
        new = tx.take_lease("local", "heir", 60)
        assert new == old + 1
        assert not tx.holds_lease("local", old)
        tx.give_back_lease("local", old)  # the dead one wakes up
        assert tx.peek_cluster("local").lease_holder == "heir"
        assert tx.holds_lease("local", new)


def test_leases_of_two_clusters_do_not_meet(store):
    with store.transaction() as tx:
        assert tx.take_lease("one", "a", 60) == 1
        assert tx.take_lease("two", "b", 60) == 1


def _take(url, name, start, answers):
    store = Store(url)
    start.wait()
    with store.transaction() as tx:
        answers.put(tx.take_lease("local", name, 60))


def test_of_many_that_ask_at_once_one_gets_the_lease(store):
    context = multiprocessing.get_context("spawn")
    start, answers = context.Barrier(4), context.Queue()
    with store.transaction() as tx:
        tx.cluster("local")
    processes = [context.Process(target=_take, args=(store.url, str(n), start, answers)) for n in range(4)]
    for process in processes:
        process.start()
    given = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
    assert sorted(given, key=str) == [1, None, None, None]


def test_a_sqlite_store_refuses_another_host_and_asks_for_postgresql(tmp_path):
    url = f"sqlite:///{tmp_path / 'optimus.db'}"
    Store(url, host="here")
    Store(url, host="here")
    with pytest.raises(StoreError, match=r'serves the machine "here"; this is "there".*PostgreSQL'):
        Store(url, host="there")


def test_a_postgresql_store_serves_many_hosts(postgres_url):
    from optimus_core.store import migrate
    from optimus_core.store.database import open_database

    migrate.upgrade(open_database(postgres_url))
    Store(postgres_url, host="here")
    Store(postgres_url, host="there")


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(datetime(2026, 3, 1, 12, 0, 0, 123456, UTC), id="utc"),
        pytest.param(datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=2))), id="another-zone"),
    ],
)
def test_times_come_back_as_they_were_in_utc(store, add_job, moment):
    with store.transaction() as tx:
        job = add_job(tx, "timed", deadline=moment)
    with store.transaction() as tx:
        found = tx.peek_job(job.id).deadline
    assert found == moment
    assert found.utcoffset() == timedelta(0)


def test_a_time_without_a_zone_is_refused(store, add_job):
    def write():
        with store.transaction() as tx:
            add_job(tx, "naive", deadline=datetime(2026, 3, 1))  # noqa: DTZ001

    with pytest.raises(Exception, match="has no time zone"):
        write()


def test_the_clock_of_a_transaction_is_aware_and_does_not_run_back(store):
    first, second = store.now(), store.now()
    assert first.utcoffset() == timedelta(0)
    assert second >= first


def test_old_ended_jobs_go_with_all_that_is_kept_of_them_and_live_ones_stay(store, add_job, add_generation):
    with store.transaction() as tx:
        long_ago = tx.now - timedelta(days=40)
        old = add_job(tx, "old", state="failed", ended_at=long_ago)
        add_job(tx, "new", state="succeeded", ended_at=tx.now)
        add_job(tx, "live", state="running", created_at=long_ago)
        add_generation(tx, old, 1)
        tx.record(old, "failed")
        tx.add(SeriesRow(job_id=old.id, name="loss", state={}, points=0))
        tx.add(OutputRow(job_id=old.id, replica="r", uid="u", generation=1, tail="", ended=True, gaps=0, unread=0))
        tx.add(SpeedRow(job_id=old.id, workload="w", specification_hash="h", generation=1, servers=0, workers=1,
                        steps=1, seconds=1.0, time=tx.now))  # fmt: skip
        for moment in (long_ago, tx.now):
            tx.add(RoundRow(cluster="local", time=moment, epoch=1, revision=1, changes=1, plan={}))
    with store.transaction() as tx:
        assert tx.delete_ended_before(tx.now - timedelta(days=30)) == 1
    with store.transaction() as tx:
        assert [row.name for row in tx.jobs()] == ["new", "live"]
        assert len(tx.rounds("local", 10)) == 1
        for table in (EventRow, SeriesRow, SpeedRow, OutputRow):
            assert tx.session.query(table).count() == 0
        assert tx.generations(old.id) == []


def test_actions_outlive_the_job_that_they_were_on(store, add_job):
    from optimus_core.store import ActionRow

    with store.transaction() as tx:
        job = add_job(tx, "old", state="stopped", ended_at=tx.now - timedelta(days=40))
        tx.add(ActionRow(time=tx.now, user="ann", action="stop", job_id=job.id, detail={}))
    with store.transaction() as tx:
        tx.delete_ended_before(tx.now)
    with store.transaction() as tx:
        (action,) = tx.session.query(ActionRow).all()
        assert (action.user, action.job_id) == ("ann", None)


def test_a_database_that_is_gone_is_told_from_one_that_refuses(tmp_path, add_job):
    store = Store(f"sqlite:///{tmp_path / 'home' / 'optimus.db'}")
    (tmp_path / "home").rename(tmp_path / "elsewhere")

    def ask():
        with store.transaction() as tx:
            tx.jobs()

    with pytest.raises(OperationalError) as caught:
        ask()
    assert is_unreachable(caught.value)

    (tmp_path / "elsewhere").rename(tmp_path / "home")

    def add_twice():
        with store.transaction() as tx:
            add_job(tx, "one")
            add_job(tx, "one")

    with pytest.raises(Exception) as refused:
        add_twice()
    assert not is_unreachable(refused.value)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"name": "x" * 64}, id="a text that is too long"),
        pytest.param({"priority": 3_000_000_000}, id="a number that is too large"),
        pytest.param({"specification": {"a": float("nan")}}, id="a number that JSON has not"),
        pytest.param({"title": "a\0b"}, id="a text with a NUL"),
    ],
)
def test_a_value_that_the_database_refuses_is_no_fault_of_the_database(postgres_url, add_job, more):
    migrate.upgrade(open_database(postgres_url))
    store = Store(postgres_url)
    with pytest.raises(Exception) as refused, store.transaction() as tx:
        add_job(tx, "one", **more)
    assert not is_unreachable(refused.value)


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param("drop table optimus_jobs cascade", id="a table"),
        pytest.param("alter table optimus_jobs drop column deployment", id="a column"),
    ],
)
def test_what_has_gone_from_the_database_is_its_own_fault(store, harm):
    with store.engine.begin() as connection:
        connection.exec_driver_sql(harm.removesuffix(" cascade") if store.is_sqlite else harm)
    with pytest.raises(Exception) as caught, store.transaction() as tx:
        tx.jobs()
    assert is_unreachable(caught.value)


def test_the_longest_names_that_a_job_can_have_are_kept_whole(store, add_job):
    names = {name: letter * 250 for name, letter in (("dag_id", "d"), ("run_id", '"'), ("task_id", "t"))}
    identity = Identity.of_task("e" * 128, map_index=1023, **names)
    with store.transaction() as tx:
        job = add_job(tx, identity.label, key=identity.key, title=identity.title, workload=identity.workload, **names)
        tx.workload(identity.workload)
        tx.add_speed(
            SpeedRow(job_id=job.id, workload=identity.workload, specification_hash="h", generation=1, servers=0,
                     workers=1, steps=1, seconds=1.0, time=tx.now)
        )  # fmt: skip
    with store.transaction() as tx:
        found = tx.job_by_key(identity.key)
        assert (found.title, found.workload) == (identity.title, identity.workload)
        assert len(tx.speeds(identity.workload, "h")) == 1
