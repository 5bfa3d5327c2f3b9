"""What the documentation says is executed: its Python, its commands, its links."""

import importlib.util
import os
import re
import subprocess
import sys
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


@pytest.mark.parametrize("code", PYTHON, ids=[block.splitlines()[0] for block in PYTHON])
def test_the_python_of_the_readme_runs(code, tmp_path, environ):
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


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
