"""What the documentation says is executed: its Python, its commands, its links."""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    line.removeprefix("$ ").split("#")[0].split()
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ optimus")
]


@pytest.fixture
def environ(tmp_path):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPTIMUS_", "AIRFLOW"))}
    return kept | {
        "OPTIMUS_HOME": str(tmp_path / "optimus"),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


@pytest.fixture
def files(tmp_path):
    """The folder with the files of the README; the first line of each says its name."""
    folder = tmp_path / "dags"
    folder.mkdir()
    for code in PYTHON:
        (folder / re.match(r"# (\w+\.py), ", code)[1]).write_text(code, encoding="utf-8")
    assert {path.name for path in folder.iterdir()} == {"digits.py", "train.py"}
    return folder


def run(command, environ, folder, seconds=150):
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def the_only_job(environ, folder):
    (job,) = json.loads(run(["optimus", "jobs", "--json"], environ, folder))
    return job


def test_the_dag_of_the_readme_trains_with_its_script(files, environ):
    environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(files)
    run(["airflow", "db", "migrate"], environ, files)
    run(["airflow", "dags", "test", "digits"], environ, files)
    job = the_only_job(environ, files)
    assert (job["state"], job["title"]) == ("succeeded", "digits.train_digits")
    assert job["checkpoint_step"] == job["step"] > 0


def test_the_sensor_of_the_readme_fits_its_dag(files, environ):
    sensor = re.search(r"`(OptimusJobSensor\(.*?\))`", README)[1]
    with (files / "digits.py").open("a", encoding="utf-8") as dag:
        dag.write(f"    from optimus_airflow.sensors import Loss, OptimusJobSensor, Progress\n    {sensor}\n")
    run([sys.executable, "digits.py"], environ, files)


def test_the_script_of_the_readme_trains_with_several_workers(files, environ):
    job = {
        "name": "digits",
        "command": ["python3", "train.py"],
        "strategy": "all_reduce",
        "workers": {"cpu": "100m", "memory": "64Mi", "min": 3, "max": 3},
        "batch_size": 256,
    }
    (files / "job.json").write_text(json.dumps(job), encoding="utf-8")
    run(["optimus", "run", "job.json"], environ, files)
    done = the_only_job(environ, files)
    assert (done["state"], done["step"], done["checkpoint_step"]) == ("succeeded", 60, 60)
    assert done["result"]["resizes"] == 0


def test_the_script_of_the_readme_goes_on_where_it_was_by_hand(files, environ):
    first = run([sys.executable, "train.py"], environ, files).splitlines()
    again = run([sys.executable, "train.py"], environ, files).splitlines()
    assert json.loads(first[0])["step"] == 1
    assert json.loads(again[0])["step"] == 61


def test_the_bundles_of_the_readme_are_those_of_airflow_and_ours(environ, tmp_path):
    value = re.search(r"dag_bundle_config_list = (\[.*?\n +\])", README, re.DOTALL)[1]
    environ["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"] = value
    environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(tmp_path / "own")
    code = (
        "from airflow.dag_processing.bundles.manager import DagBundlesManager as M\n"
        "for bundle in M().get_all_dag_bundles(): print(bundle.name, bundle.path)"
    )
    said = run([sys.executable, "-c", code], environ, tmp_path).splitlines()
    assert f"dags-folder {tmp_path / 'own'}" in said
    assert f"optimus {ROOT / 'dags'}" in said
    assert all(f"`{path.stem}`" in README for path in (ROOT / "dags").glob("*.py"))


def test_the_readme_names_each_dependency_that_airflow_does_not_bring():
    named = set(re.search(r"\$ pip install ([a-z -]+)\n", README)[1].split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {canonical(each) for each in [*project["dependencies"], *project["optional-dependencies"]["examples"]]}
    brought = required_by("apache-airflow")
    assert needed - brought - named == set()
    assert named & (brought - needed) == set()


def required_by(name, found=None):
    """The distributions that a distribution brings, without extras."""
    found = set() if found is None else found
    if name not in found:
        found.add(name)
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            needed = []
        for each in needed:
            if "extra ==" not in each:
                required_by(canonical(each), found)
    return found


def canonical(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-").replace(".", "-")


def test_the_command_works_where_nothing_is_installed(environ, tmp_path):
    for name in ("optimus_core", "optimus_train"):
        (tmp_path / name).symlink_to(ROOT / name)
    environ["PYTHONPATH"] = str(tmp_path)
    module = [sys.executable, "-m", "optimus_core"]
    assert "at version" in run([*module, "db", "upgrade"], environ, tmp_path)
    assert "Usage: python -m optimus_core" in run([*module, "--help"], environ, tmp_path)


def test_the_commands_of_the_readme_run_in_their_order(environ):
    assert [command[1] for command in COMMANDS] == ["run", "jobs", "plan", "doctor"]
    for command in COMMANDS:
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_the_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"make ([a-z-]+)", README))
    assert named
    assert {target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()


def test_the_page_of_the_settings_is_up_to_date():
    spec = importlib.util.spec_from_file_location("write_settings", ROOT / "docs" / "write_settings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == module.text(), "run: python docs/write_settings.py"
