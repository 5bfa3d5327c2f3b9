import os

import pytest

from optimus_train import output


@pytest.fixture(autouse=True)
def by_hand(monkeypatch, tmp_path):
    """Each test starts as a script that is run by hand, in an empty folder."""
    for name in [name for name in os.environ if name.startswith("OPTIMUS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output, "_last", {})
