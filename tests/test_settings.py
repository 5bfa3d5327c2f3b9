"""Where settings come from, what they may be, and how clusters are declared."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from optimus_core import Settings
from optimus_core.errors import SpecificationError
from optimus_core.settings import hide_password, load_clusters


def load(home: Path, overrides: dict[str, object] | None = None, **variables: str) -> Settings:
    environ = {f"AIRFLOW__OPTIMUS__{key.upper()}": value for key, value in variables.items()}
    return Settings.load({"OPTIMUS_HOME": str(home)} | environ, overrides)


def test_without_anything_every_setting_has_its_default(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings == Settings(home=tmp_path)
    assert settings.interval_seconds == 600
    assert settings.database_url == f"sqlite:///{tmp_path}/optimus.db"
    assert settings.checkpoint_root == tmp_path / "checkpoints"
    assert settings.clusters_file is None


def test_a_clusters_file_in_home_is_found(tmp_path: Path) -> None:
    (tmp_path / "clusters.yaml").touch()
    assert load(tmp_path).clusters_file == tmp_path / "clusters.yaml"


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        pytest.param({"AIRFLOW__OPTIMUS__HOME": "/c", "OPTIMUS_HOME": "/a"}, "/c", id="the setting itself"),
        pytest.param({"OPTIMUS_HOME": "/a", "AIRFLOW_HOME": "/b"}, "/a", id="OPTIMUS_HOME"),
        pytest.param({"AIRFLOW_HOME": "/b"}, "/b/optimus", id="AIRFLOW_HOME"),
        pytest.param({}, str(Path("~/.optimus").expanduser()), id="neither"),
    ],
)
def test_home_is_the_first_that_is_given(environ: dict[str, str], want: str) -> None:
    assert str(Settings.load(environ).home) == want


def test_each_source_stands_above_the_next_and_is_remembered(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[optimus]\npoll_seconds = 3\nyoung_steps = 7\ninterval_seconds = 60\n")
    settings = load(tmp_path, {"poll_seconds": "5", "cluster": ""}, poll_seconds="4", young_steps="8")
    assert (settings.poll_seconds, settings.young_steps, settings.interval_seconds) == (5, 8, 60)
    assert settings.cluster == "local"
    assert settings.sources == {
        "poll_seconds": "the caller",
        "young_steps": "AIRFLOW__OPTIMUS__YOUNG_STEPS",
        "interval_seconds": str(file),
        "home": "OPTIMUS_HOME",
    }


def test_keys_may_stand_at_the_top_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('cluster = "gpu"\n')
    assert load(tmp_path).cluster == "gpu"


@pytest.mark.parametrize(
    ("key", "value", "want"),
    [
        pytest.param("poll_seconds", "often", '"often"; it is a number above 0. Write such as 2', id="words"),
        pytest.param("poll_seconds", "0", "0.0; it is a number above 0", id="no time"),
        pytest.param("lease_seconds", "inf", "inf; it is a number", id="endless"),
        pytest.param("lease_seconds", "1e300", "1e+300; it is at most 1e+09", id="longer than any clock"),
        pytest.param("retry_backoff_seconds", "1e10", "it is at most 1e+09", id="longer than a life"),
        pytest.param("checkpoint_keep_days", "1e9", "it is at most 10000", id="more days than there were"),
        pytest.param("points_limit", "9" * 400, "digits; it is at most 2147483647", id="more points than a count"),
        pytest.param("deployment", "x" * 129, "of 129 letters; it has at most 128", id="a long name"),
        pytest.param("young_factor", "1.5", "1.5; it is at most 1", id="above the most"),
        pytest.param("points_limit", "2.5", "it is a whole number. Write such as 2000", id="half a point"),
        pytest.param("pausing", "nevr", 'Did you mean "never"?', id="a misspelt choice"),
        pytest.param("cluster", " ", "it is a text on one line", id="a blank"),
    ],
)
def test_a_bad_value_names_its_key_and_where_it_came_from(tmp_path: Path, key: str, value: str, want: str) -> None:
    variable = f"AIRFLOW__OPTIMUS__{key.upper()}"
    with pytest.raises(SpecificationError) as caught:
        Settings.load({"OPTIMUS_HOME": str(tmp_path), variable: value})
    assert str(caught.value).startswith(f"{key} ({variable}) is ")
    assert want in str(caught.value)


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param("pol_seconds = 3", '"pol_seconds" is no key of the settings. Did you mean "poll', id="top"),
        pytest.param("[optimus]\npol_seconds = 3", 'Did you mean "poll_seconds"?', id="in the table"),
        pytest.param('poll_seconds = "x"', 'config.toml) is "x"', id="a bad value"),
        pytest.param("poll_seconds = 1" + "0" * 400, "digits; it is at most 1e+09", id="a huge whole number"),
        pytest.param("poll_seconds = true", "is True; it is a number", id="a choice for a number"),
        pytest.param("a = ", "config.toml is no TOML:", id="broken"),
        pytest.param('home = "/x"', "Set OPTIMUS_HOME instead", id="home"),
        pytest.param("optimus = 3", "optimus is 3", id="no table"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_what_to_write(tmp_path: Path, content: str, want: str) -> None:
    (tmp_path / "config.toml").write_text(content)
    with pytest.raises(SpecificationError) as caught:
        load(tmp_path)
    assert str(tmp_path / "config.toml") in str(caught.value)
    assert want in str(caught.value)


@pytest.mark.parametrize("name", [pytest.param(each.name, id=each.name) for each in fields(Settings) if each.init])
def test_every_number_that_is_taken_can_be_added_to_the_present_time(tmp_path: Path, name: str) -> None:
    for value in ("1e8", "100000000", "1e300", "9" * 500):
        try:
            got = getattr(Settings.load({"OPTIMUS_HOME": str(tmp_path)}, {name: value}), name)
        except SpecificationError:
            continue
        if isinstance(got, int | float):
            assert datetime.now(UTC) - timedelta(**{"days" if name.endswith("_days") else "seconds": got})


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecificationError, match=r"^home \(OPTIMUS_HOME\) is .*/file, which is no folder"):
        load(tmp_path / "file")


def test_a_clusters_file_that_is_a_dangling_link_is_no_missing_one(tmp_path: Path) -> None:
    (tmp_path / "clusters.yaml").symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(SpecificationError, match=r'clusters.yaml" can\'t be read: No such file'):
        load_clusters(load(tmp_path).clusters_file)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("../../esc", id="out of its folder"),
        pytest.param("a/b", id="a folder in a folder"),
        pytest.param(".hidden", id="hidden"),
        pytest.param("x" * 64, id="too long"),
        pytest.param("", id="empty"),
        pytest.param("my cluster", id="a space"),
    ],
)
def test_a_cluster_has_a_name_that_may_be_a_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecificationError, match=r'cluster ".*": its name is also that of a folder.* Write such as'):
        clusters(tmp_path, json.dumps({name: {"kind": "local"}}))


def test_a_misspelt_variable_names_the_nearest_right_one(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match='Did you mean "AIRFLOW__OPTIMUS__POLL_SECONDS"'):
        load(tmp_path, pol_seconds="3")


def test_a_misspelt_key_of_the_caller_names_the_nearest_right_one(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match='Did you mean "poll_seconds"'):
        load(tmp_path, {"poll_second": 3})


def test_what_only_airflow_can_read_is_not_silently_another_database(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match="DATABASE_URL_CMD is read inside Airflow only"):
        load(tmp_path, database_url_cmd="cat secret")
    assert load(tmp_path, {"database_url": "sqlite://"}, database_url_cmd="cat").database_url == "sqlite://"


def test_the_longest_wait_is_no_shorter_than_the_first(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match="retry_backoff_max_seconds is 3, less than"):
        load(tmp_path, retry_backoff_max_seconds="3")


def test_the_password_of_the_database_is_shown_nowhere(tmp_path: Path) -> None:
    settings = load(tmp_path, database_url="postgresql://me:hunter2@db/optimus")
    assert settings.database_url.startswith("postgresql://me:hunter2@")
    assert "hunter2" not in repr(settings) + json.dumps(settings.public_dict())
    with pytest.raises(SpecificationError) as caught:
        load(tmp_path, database_url="postgresql://me:hunter2@db\n")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "want"),
    [
        pytest.param("postgresql://me:p@ss@db/x", "postgresql://me:***@db/x", id="an at sign in it"),
        pytest.param("postgresql://me@db/x", "postgresql://me@db/x", id="no password"),
        pytest.param("sqlite:////srv/o.db", "sqlite:////srv/o.db", id="a file"),
    ],
)
def test_passwords_are_hidden(url: str, want: str) -> None:
    assert hide_password(url) == want


@pytest.mark.parametrize("name", [pytest.param(each.name, id=each.name) for each in fields(Settings) if each.init])
def test_every_setting_says_what_it_is_and_why_it_is_so(name: str) -> None:
    option = Settings.options()[name]
    what, reason, _ = option["description"].split("\n")
    assert what.endswith(".")
    assert reason.endswith(".")
    assert option["example"] or option["default"]
    assert not name.endswith("_seconds") or "In seconds." in what


def test_the_chart_knows_each_setting_that_is_not_its_own() -> None:
    schema = Path(__file__).parents[1] / "helm" / "optimus" / "values.schema.json"
    known = json.loads(schema.read_text())["properties"]["settings"]["properties"]
    ours = {"home", "database_url", "cluster", "clusters_file"}
    assert known.keys() == Settings.options().keys() - ours
    choices = {each.name: each.metadata["choices"] for each in fields(Settings) if each.metadata}
    for key, option in Settings.options().items():
        if key in ours:
            continue
        if choices[key]:
            assert sorted(known[key]["enum"]) == sorted(choices[key]), key
        else:
            assert known[key]["type"] == option["type"].replace("float", "number"), key


def test_airflow_takes_the_description_of_the_settings() -> None:
    found = importlib.util.find_spec("airflow")
    assert found is not None
    assert found.origin is not None
    schema = json.loads((Path(found.origin).parent / "provider_info.schema.json").read_text())
    info = {
        "package-name": "airflow-provider-optimus",
        "name": "Optimus",
        "description": "",
        "config": {"optimus": {"description": "Optimus", "options": Settings.options()}},
    }
    jsonschema.validate(info, schema)


def test_the_defaults_of_the_description_are_the_defaults(tmp_path: Path) -> None:
    options = Settings.options()
    texts: dict[str, object] = {key: option["default"] for key, option in options.items()}
    assert Settings.load({"OPTIMUS_HOME": str(tmp_path)}, texts) == Settings(home=tmp_path)


def clusters(tmp_path: Path, content: str) -> dict[str, dict[str, Any]]:
    path = tmp_path / "clusters.yaml"
    path.write_text(content)
    return load_clusters(path)


def test_declared_clusters_are_read(tmp_path: Path) -> None:
    found = clusters(
        tmp_path,
        """
        here: {kind: local}
        box:
          kind: local
          nodes:
            - {name: n1, cpu: "4", memory: 8Gi, devices: {nvidia.com/gpu: 1}, labels: {zone: a}}
            - {name: n2, cpu: 500m, memory: 1Gi}
        inside: {kind: kubernetes, in_cluster: true, namespaces: [training]}
        outside: {kind: kubernetes, config_file: ~/.kube/config, context: kind}
        airflow: {kind: kubernetes, airflow_connection: kubernetes}
        """,
    )
    assert list(found) == ["here", "box", "inside", "outside", "airflow"]
    assert found["box"]["nodes"][1] == {"name": "n2", "cpu": "500m", "memory": "1Gi"}


def test_without_a_file_there_is_this_machine() -> None:
    assert load_clusters(None) == {"local": {"kind": "local"}}


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param("a: {kind: kubernets}", 'Did you mean "kubernetes"?', id="a misspelt kind"),
        pytest.param("a: {nodes: []}", "it has no kind. Write kind: local", id="no kind"),
        pytest.param("a: {kind: 3}", "kind is 3", id="a kind that is a number"),
        pytest.param(
            "a: {kind: local, nodes: [{name: n, cpu: 1, memory: 10Ei}]}",
            'nodes[0].memory is "10Ei", more than any cluster has',
            id="more memory than there is",
        ),
        pytest.param("a: {kind: local, node: []}", '"node" is no key of a local cluster', id="a misspelt key"),
        pytest.param("a: {kind: local, nodes: []}", "nodes is []; it is a list", id="no nodes"),
        pytest.param("a: {kind: local, nodes: [{name: n, cpu: 1}]}", 'nodes[0] has no "memory"', id="no memory"),
        pytest.param("a: {kind: local, nodes: [{name: n, cpus: 1}]}", 'Did you mean "cpu"?', id="a node's key"),
        pytest.param(
            "a: {kind: local, nodes: [{name: n, cpu: 1, memory: 1K}]}", 'nodes[0].memory is "1K"', id="a quantity"
        ),
        pytest.param(
            "a: {kind: local, nodes: [{name: n, cpu: 1, memory: 1}, {name: n, cpu: 1, memory: 1}]}",
            "as that of another node",
            id="a name twice",
        ),
        pytest.param("a: {kind: kubernetes}", "it is reached by nothing", id="no way to it"),
        pytest.param(
            "a: {kind: kubernetes, in_cluster: true, config_file: x}", "in_cluster and config_file", id="two ways"
        ),
        pytest.param("a: {kind: kubernetes, in_cluster: 'no'}", "write true or false", id="a choice as text"),
        pytest.param(
            "a: {kind: kubernetes, in_cluster: true, context: x}", "context belongs to config_file", id="a context"
        ),
        pytest.param(
            "a: {kind: kubernetes, in_cluster: true, namespaces: x}", "Write such as [training]", id="a namespace"
        ),
        pytest.param("a: 3", "its content is 3", id="a number"),
    ],
)
def test_a_bad_cluster_is_named_with_what_to_write(tmp_path: Path, content: str, want: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        clusters(tmp_path, content)
    assert str(caught.value).startswith(f'{tmp_path}/clusters.yaml: cluster "a": ')
    assert want in str(caught.value)
