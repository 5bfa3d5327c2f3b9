"""``python -m optimus_core``: the command ``optimus`` where Optimus is a folder on the path and not installed."""

from optimus_core.cli.main import app

if __name__ == "__main__":
    app(prog_name="python -m optimus_core")
