import pytest

from tests.cluster.helpers import Driver, until


@pytest.fixture
def driver(tmp_path):
    made = Driver(tmp_path / "cluster")
    yield made
    made.cluster.delete(made.cluster.list(), grace_seconds=0)
    until(lambda: all(r.phase.ended or r.phase == "unknown" for r in made.cluster.list()))
