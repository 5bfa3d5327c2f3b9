"""Whether a job is late, or will be."""

from datetime import UTC, datetime, timedelta

import pytest

from optimus_core.engine.report import late_seconds
from optimus_core.store import JobRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("state", "deadline", "predicted", "ended", "late"),
    [
        pytest.param("running", None, 50.0, None, None, id="without-a-deadline"),
        pytest.param("running", 60, 50.0, None, None, id="in-time"),
        pytest.param("running", 40, 50.0, None, 10, id="predicted-to-be-late"),
        pytest.param("running", 40, None, None, None, id="nobody-knows"),
        pytest.param("queued", -5, None, None, 5, id="late-already"),
        pytest.param("succeeded", -20, 50.0, -10, 10, id="it-was-late"),
        pytest.param("succeeded", -10, 50.0, -20, None, id="it-was-in-time"),
    ],
)
def test_late_is_told_before_and_after_the_end(state, deadline, predicted, ended, late):
    def at(seconds):
        return None if seconds is None else NOW + timedelta(seconds=seconds)

    row = JobRow(state=state, deadline=at(deadline), ended_at=at(ended), estimate={"predicted_seconds": predicted})
    assert late_seconds(row, NOW) == late
