"""Write docs/settings.md from the settings themselves: python docs/write_settings.py"""

from pathlib import Path

from optimus_core.settings import Settings

HEAD = """# Settings

The section `[optimus]` of Airflow's configuration. Outside Airflow: the variables `AIRFLOW__OPTIMUS__<KEY>`, then
`config.toml` in the home folder, then the default. Written from the code by `docs/write_settings.py`.

| key | type | default | meaning and reason |
|---|---|---|---|
"""


def text() -> str:
    """Return the page."""
    rows = []
    for name, option in Settings.options().items():
        default = "" if option["default"] in (None, "") else f"`{option['default']}`"
        rows.append(f"| `{name}` | {option['type']} | {default} | {' '.join(option['description'].split())} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    (Path(__file__).parent / "settings.md").write_text(text(), encoding="utf-8")
