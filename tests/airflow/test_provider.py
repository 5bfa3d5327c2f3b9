from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import airflow
import jsonschema
import pytest
from optimus_airflow import settings
from optimus_airflow.provider_info import get_provider_info

from optimus_core.errors import SpecificationError
from optimus_core.settings import Settings
from optimus_core.store import migrate


def test_is_as_airflow_asks_for():
    schema = json.loads((Path(airflow.__path__[0]) / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_is_found_by_airflow():
    from airflow.providers_manager import ProvidersManager

    assert "airflow-provider-optimus" in ProvidersManager().providers
    assert "optimus_airflow.db_manager.OptimusDBManager" in ProvidersManager().db_managers
    (plugin,) = [p for p in entry_points(group="airflow.plugins") if p.name == "optimus"]
    assert plugin.load().name == "optimus"


def test_each_setting_has_type_default_and_reason():
    options = get_provider_info()["config"]["optimus"]["options"]
    assert set(options) == set(Settings.options())
    for option in options.values():
        assert option["type"] in ("string", "integer", "float", "boolean")
        assert len(option["description"].splitlines()) >= 3
        assert f"Type: {option['type']}." in option["description"]


def test_airflows_command_shows_each_setting():
    command = [sys.executable, "-m", "airflow", "config", "list", "--section", "optimus", "--include-descriptions"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for key in Settings.options():
        assert f"{key} = " in shown
    assert "Type: float. Default: 600." in shown


def test_airflows_configuration_is_taken(home, monkeypatch):
    monkeypatch.setenv("AIRFLOW__OPTIMUS__INTERVAL_SECONDS", "120")
    assert settings.load().interval_seconds == 120


def test_a_default_does_not_stand_above_the_file(home):
    (home / "config.toml").write_text("interval_seconds = 77\n")
    assert settings.load().interval_seconds == 77


def test_a_wrong_value_is_named(home, monkeypatch):
    monkeypatch.setenv("AIRFLOW__OPTIMUS__INTERVAL_SECONDS", "soon")
    with pytest.raises(SpecificationError, match=r"AIRFLOW__OPTIMUS__INTERVAL_SECONDS.*soon"):
        settings.load()


def test_joins_the_migration_of_airflows_database(home, monkeypatch):
    from optimus_airflow.db_manager import OptimusDBManager

    monkeypatch.setenv("AIRFLOW__OPTIMUS__DATABASE_URL", f"sqlite:///{home}/own.db")
    manager = OptimusDBManager(None)
    assert not manager.check_migration()
    manager.initdb()
    manager.upgradedb()
    assert manager.check_migration()
    assert manager.get_current_revision() == migrate.newest()


def test_brings_its_dags(home):
    from optimus_airflow.bundle import OptimusDagBundle

    assert (OptimusDagBundle(name="optimus").path / "optimus_rebalance.py").is_file()


def test_an_examples_dag_without_its_scripts_says_what_to_copy_where(tmp_path):
    root = Path(__file__).parents[2]
    for name in ("plugins", "dags"):
        shutil.copytree(root / name, tmp_path / name)
    environ = os.environ | {"PYTHONPATH": f"{tmp_path / 'plugins'}:{root}", "AIRFLOW_HOME": str(tmp_path)}
    command = [sys.executable, tmp_path / "dags" / "optimus_examples.py"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert f"folder examples/ is not at {tmp_path / 'examples'}. Copy it there" in done.stderr
    shutil.copytree(root / "examples", tmp_path / "examples")
    subprocess.run(command, env=environ, check=True)


def test_the_wheel_has_just_the_known_dags_and_examples():
    root = Path(__file__).parents[2]
    targets = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    included = targets["wheel"]["force-include"]
    listed = subprocess.run(["git", "ls-files", "dags", "examples"], cwd=root, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("this is no checkout")
    assert included == {name: f"optimus_airflow/{name}" for name in listed.stdout.split()}


def test_the_shim_registers_nothing_beside_the_distribution():
    shim = Path(__file__).parents[2] / "plugins" / "optimus_plugin.py"
    names: dict = {}
    exec(compile(shim.read_text(), str(shim), "exec"), names)
    assert "OptimusPlugin" not in names
