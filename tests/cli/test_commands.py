"""The commands that look, act and look after; their JSON is for programs."""

import json
import sqlite3
import time

import pytest

import optimus_core
from optimus_core.engine.report import JobReport
from optimus_core.store import migrate


@pytest.fixture
def done(optimus, job_file):
    """A job that has succeeded."""
    optimus("run", job_file(STEPS=6))


@pytest.fixture
def queued(engine, job_file):
    """A job that has been submitted and not driven."""
    from optimus_core.engine.identity import Identity
    from optimus_core.job import load_job_file

    job = load_job_file(job_file(workers={"cpu": "1", "memory": "64Mi", "min": 1, "max": 4}))
    return engine.submit(job, Identity.of_name("default", job.name))


def test_without_a_job_the_list_is_empty(optimus, optimus_json):
    assert "no jobs yet" in optimus("jobs").stdout
    assert optimus_json("jobs") == []


@pytest.mark.usefixtures("done")
def test_jobs_lists_reports(optimus, optimus_json):
    (report,) = optimus_json("jobs")
    assert set(report) == set(JobReport.__dataclass_fields__)
    assert (report["title"], report["state"]) == ("digits", "succeeded")
    assert optimus_json("jobs", "--live") == []
    assert "digits  succeeded" in optimus("jobs").stdout


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize("by", ["title", "name", "id"])
def test_job_shows_a_job_with_its_generations_and_history(optimus, optimus_json, by):
    (report,) = optimus_json("jobs")
    data = optimus_json("job", report[by])
    assert set(data) == {*report, "generations", "events"}
    assert data["generations"][0]["why"]
    assert data["events"][0]["kind"] == "queued"
    printed = optimus("job", report[by]).stdout
    assert "generations" in printed
    assert "history" in printed
    assert "1 worker, on a" in printed
    assert not any(mark in printed for mark in ("{", "None", "+00:00"))


@pytest.mark.usefixtures("done")
def test_logs_shows_what_each_replica_wrote(optimus, optimus_json):
    (output,) = optimus_json("logs", "digits")
    assert set(output) == {"replica", "uid", "generation", "tail"}
    lines = optimus("logs", "digits").stdout.splitlines()
    assert len(lines) == len(output["tail"].splitlines())
    assert lines[0].startswith(f"{output['replica']}: {{")
    assert optimus("logs", "digits", "--follow").stdout.splitlines() == lines


@pytest.mark.parametrize("command", [["job"], ["logs"], ["stop"], ["pin", "--workers", "1"], ["unpin"]])
def test_an_unknown_job_is_told_by_every_command(optimus, command):
    result = optimus(command[0], "digts", *command[1:], code=1)
    assert 'there is no job "digts"' in result.stderr
    assert "See: optimus jobs" in result.stderr


@pytest.mark.usefixtures("queued")
def test_plan_shows_what_the_next_round_would_do_and_changes_nothing(engine, optimus, optimus_json):
    before = engine.history(1)
    plan = optimus_json("plan")
    assert set(plan) == {"cluster", "time", "decisions", "free", "pools"}
    (decision,) = plan["decisions"]
    assert decision["text"]
    assert decision["size"]["workers"] >= 1
    assert decision["job"].startswith("digits-default-")
    assert "wanted" in optimus("plan").stdout
    assert engine.history(1) == before


@pytest.mark.parametrize("command", ["plan", "what-if"])
def test_a_plan_of_no_jobs_says_so(optimus, optimus_json, command):
    assert "no jobs to plan" in optimus(command).stdout
    planned = optimus_json(command)
    assert (planned["decisions"] if command == "plan" else planned) == []


@pytest.mark.usefixtures("queued")
@pytest.mark.parametrize("by", ["title", "name", "id"])
def test_what_if_finds_a_job_as_other_commands_do(optimus_json, by):
    called = optimus_json("job", "digits")[by]
    (change,) = optimus_json("what-if", "--without", called, "--priority", f"{called}=3")
    assert (change["size"]["workers"] > 0, change["size_then"]) == (True, None)


def test_what_if_of_a_job_that_nobody_knows_is_refused(optimus):
    assert 'there is no job "x". No job has been submitted yet.' in optimus("what-if", "--without", "x", code=1).stderr


@pytest.mark.usefixtures("queued")
def test_a_saved_snapshot_gives_the_same_plan_again_without_a_store(optimus_json, tmp_path, monkeypatch):
    file = tmp_path / "snapshot.json"
    planned = optimus_json("plan", "--save-snapshot", file)
    monkeypatch.setenv("OPTIMUS_HOME", str(tmp_path / "another"))
    assert optimus_json("plan", "--snapshot", file) == planned
    shuffled = json.loads(file.read_text())
    shuffled["nodes"].reverse()
    file.write_text(json.dumps(shuffled))
    assert optimus_json("plan", "--snapshot", file) == planned


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(None, "can't be read", id="no-file"),
        pytest.param("{", "The snapshot can't be read", id="no-json"),
        pytest.param('{"version": 99, "time": 1}', "is of version 99", id="another-version"),
        pytest.param(b'{"version": 1, "time": 1, "cluster": "\xff"}', "unicode", id="no-text"),
    ],
)
def test_a_snapshot_that_is_none_is_refused_in_one_sentence(optimus, tmp_path, text, said):
    file = tmp_path / "snapshot.json"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    result = optimus("plan", "--snapshot", file, code=1)
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("place", ["/nope/x", "/tmp", "/dev/full"])
def test_a_snapshot_that_cannot_be_saved_is_told_in_one_sentence(optimus, place):
    result = optimus("plan", "--save-snapshot", place, code=1)
    assert f"--save-snapshot {place} can't be written: " in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("²", id="a digit that is no decimal"),
        pytest.param("9" * 30, id="more than an id"),
        pytest.param("9" * 5000, id="more than Python reads"),
        pytest.param("9999999999", id="more than a column"),
        pytest.param("١", id="a digit of another script"),
        pytest.param("a\udcffb", id="half a character"),
    ],
)
def test_a_name_that_no_job_can_have_is_unknown(optimus, name):
    assert "there is no job" in optimus("job", name, code=1).stderr


@pytest.mark.parametrize("days", ["inf", "nan", "1e300", "1e6"])
def test_more_days_than_a_calendar_has_are_refused(optimus, days):
    assert "--days is " in optimus("db", "clean", "--days", days, "--yes", code=1).stderr


@pytest.mark.parametrize("name", ["[/foo]", "[bold]x[/bold]", ":smile:"])
def test_a_name_is_printed_as_it_is_by_every_command(optimus, engine, job_file, name):
    data = json.loads(job_file(STEPS=2).read_text()) | {"name": name}
    file = job_file("other")
    file.write_text(json.dumps(data))
    ran = optimus("run", file)
    assert f"job {name}: created" in ran.stderr
    assert f"{name} succeeded" in ran.stdout
    for command in (["jobs"], ["job", name], ["job", "1"]):
        assert name in optimus(*command).stdout
    assert f'job "{name}" has succeeded' in optimus("stop", name, code=1).stderr


@pytest.mark.usefixtures("queued")
def test_acts_are_kept_with_their_user(engine, optimus, optimus_json):
    from optimus_core.store import ActionRow

    assert optimus_json("pin", "digits", "--workers", "2")["pinned"] == {"workers": 2, "servers": 0}
    assert "allows 1 to 4 workers, not 9" in optimus("pin", "digits", "--workers", "9", code=1).stderr
    assert optimus_json("unpin", "digits")["pinned"] is None
    assert optimus_json("rebalance")["planned"] is True
    assert "0 jobs change" in optimus("rebalance").stdout
    assert optimus_json("stop", "digits")["state"] == "stopping"
    with engine.store.transaction() as tx:
        actions = tx.session.query(ActionRow).all()
    assert [action.action for action in actions] == ["pin", "unpin", "stop"]
    assert all(action.user for action in actions)


@pytest.mark.usefixtures("queued")
def test_a_job_whose_driver_has_died_is_stopped_by_stop_itself(engine, optimus_json, monkeypatch):
    engine.step(1)  # it starts
    monkeypatch.setenv("AIRFLOW__OPTIMUS__HEARTBEAT_STALE_SECONDS", "1")
    time.sleep(1.2)
    assert optimus_json("stop", "digits")["state"] == "stopped"
    assert engine.ctx.cluster("local").list() == []


@pytest.mark.usefixtures("queued")
def test_a_job_whose_driver_has_died_is_driven_by_rebalance(engine, optimus_json, monkeypatch):
    monkeypatch.setenv("AIRFLOW__OPTIMUS__HEARTBEAT_STALE_SECONDS", "1")
    time.sleep(1.2)
    assert optimus_json("rebalance")["planned"] is True
    assert engine.job_by_id(1).phase == "starting"


def test_doctor_says_what_is_set_up(optimus, optimus_json):
    data = optimus_json("doctor")
    assert data["version"] == optimus_core.__version__
    assert {c["check"]: c["ok"] for c in data["checks"]} == {
        "settings": True, "clusters": True, "store": True, 'cluster "local"': True, "rounds": True,
    }  # fmt: skip
    assert "2 of 2 nodes ready" in optimus("doctor").stdout


@pytest.mark.parametrize(
    ("variable", "value", "check"),
    [
        pytest.param("POLL_SECONDS", "soon", "settings", id="a-setting"),
        pytest.param("DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/db", "store", id="no-database"),
        pytest.param("CLUSTER", "moon", 'cluster "moon"', id="no-cluster"),
    ],
)
def test_doctor_exits_1_and_names_what_is_wrong_without_secrets(optimus_json, monkeypatch, variable, value, check):
    monkeypatch.setenv(f"AIRFLOW__OPTIMUS__{variable}", value)
    data = optimus_json("doctor", code=1)
    assert [c["check"] for c in data["checks"] if not c["ok"]] == [check]
    assert "hunter2" not in str(data)
    monkeypatch.delenv(f"AIRFLOW__OPTIMUS__{variable}")


def test_doctor_does_not_take_a_broken_declaration_of_clusters_for_a_broken_store(home, optimus_json):
    before = (home / "clusters.yaml").read_text()
    (home / "clusters.yaml").write_text("local: {kind: lokal}")
    checks = optimus_json("doctor", code=1)["checks"]
    assert [(c["check"], c["level"]) for c in checks] == [
        ("settings", "ok"), ("clusters", "problem"), ("store", "ok"),
    ]  # fmt: skip
    assert "clusters.yaml" in checks[1]["detail"]
    (home / "clusters.yaml").write_text(before)


def test_doctor_warns_of_a_ceiling_that_a_guarantee_raises_and_takes_it_for_no_problem(home, optimus, optimus_json):
    pools = "  pools: {a: {guaranteed: 50%, ceiling: {cpu: 3}}, b: {ceiling: {cpu: 3}}}\n"
    (home / "clusters.yaml").write_text((home / "clusters.yaml").read_text() + pools)
    (warned,) = [c for c in optimus_json("doctor")["checks"] if c["level"] != "ok"]
    assert (warned["check"], warned["level"], warned["ok"]) == ('pool "a"', "warning", True)
    assert "its ceiling, 3 cpu, is below its guarantee, 4 cpu" in warned["detail"]
    assert "warning" in optimus("doctor").stdout


def test_a_store_that_cannot_be_reached_is_one_sentence_for_every_command(optimus, monkeypatch):
    monkeypatch.setenv("AIRFLOW__OPTIMUS__DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/db")
    for command in (["jobs"], ["db", "upgrade"], ["db", "check"]):
        result = optimus(*command, code=1)
        assert "the store can't be reached" in result.stderr
        assert "hunter2" not in result.stderr
        assert "Traceback" not in result.output
    monkeypatch.delenv("AIRFLOW__OPTIMUS__DATABASE_URL")


def test_the_store_is_checked_and_upgraded(optimus, optimus_json, postgres_url, monkeypatch):
    monkeypatch.setenv("AIRFLOW__OPTIMUS__DATABASE_URL", postgres_url)
    assert "Run: optimus db upgrade" in optimus("db", "check", code=1).stderr
    assert optimus_json("db", "upgrade") == {"version": migrate.newest()}
    assert optimus_json("db", "check") == {"version": migrate.newest(), "ok": True}
    assert "up to date" in optimus("db", "check").stdout
    monkeypatch.delenv("AIRFLOW__OPTIMUS__DATABASE_URL")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        pytest.param("update alembic_version_optimus set version_num = '9999'", "does not know", id="a newer release"),
        pytest.param("drop table optimus_actions", "lacks optimus_actions", id="a table dropped"),
    ],
)
def test_tables_that_are_not_as_needed_are_told_by_every_command(home, optimus, optimus_json, sql, said):
    with sqlite3.connect(home / "optimus.db") as connection:
        before = "\n".join(connection.iterdump())
        connection.executescript(sql)
    for command in (["jobs"], ["db", "check"], ["db", "upgrade"]):
        assert said in optimus(*command, code=1).stderr
    assert said in str(optimus_json("doctor", code=1))
    (home / "optimus.db").unlink()
    with sqlite3.connect(home / "optimus.db") as connection:
        connection.executescript(before)


def test_a_store_that_is_no_database_is_not_said_to_be_away(home, optimus):
    (home / "optimus.db").write_bytes(b"no database" * 1000)
    result = optimus("jobs", code=1)
    assert "the store can't be read: file is not a database. Restore a backup" in result.stderr
    (home / "optimus.db").unlink()


def test_what_stdout_cannot_encode_is_escaped(start, tmp_path):
    file = tmp_path / "out.log"
    file.write_text('{"loss": 0.5, "step": 1, "\\ud800": 2.0}\n')
    for arguments in (["parse", file], ["parse", file, "--json"]):
        output, complaints = start(*arguments).communicate(timeout=60)
        assert "Traceback" not in complaints
        assert "loss" in output
    assert json.loads(output)["points"]


@pytest.mark.usefixtures("done")
def test_clean_asks_first_and_deletes_what_ended_long_ago(optimus, optimus_json):
    assert optimus_json("db", "clean", "--yes") == {"deleted": 0}
    optimus("db", "clean", "--days", "0", input="n\n", code=1)
    assert len(optimus_json("jobs")) == 1
    assert optimus_json("db", "clean", "--days", "0", "--yes") == {"deleted": 1}
    assert optimus_json("jobs") == []


def test_help_and_version_need_no_home(optimus):
    assert optimus("--version").stdout.strip() == f"optimus {optimus_core.__version__}"
    assert "rebalance" in optimus("--help").stdout
