"""Plans by price: who is paused, who waits, who comes first."""

from __future__ import annotations

import pytest

from optimus_core.reasons import ReasonCode
from optimus_core.scheduling.plan import apply_plan
from optimus_core.scheduling.priced import priced
from optimus_core.scheduling.types import Size, Snapshot
from tests.scheduling.builders import make_job, make_node, make_snapshot, running, sizes, speed

LINEAR = speed(10.0, 0.0, 0.0)
LONG = {"steps": 1e6, "speed": LINEAR}
SHORT = {"steps": 500.0, "speed": LINEAR}


def pair(pausing: str, **more: object) -> Snapshot:
    long = running("long", {"n": (0, 4)}, **(LONG | {"has_checkpoint": True} | more))  # type: ignore[arg-type]
    return make_snapshot([make_node("n")], [long, make_job("short", 1, **SHORT)], pausing=pausing)  # type: ignore[arg-type]


def test_a_long_job_is_paused_for_a_short_one_and_says_so() -> None:
    made = priced(pair("auto"))
    assert sizes(made) == {"long": (0, 0), "short": (0, 4)}
    assert made.decisions[0].reason.code is ReasonCode.PAUSED
    assert made.decisions[0].waits_for is not None
    assert made.decisions[1].allocation["longer"] == 1.0


@pytest.mark.parametrize(
    ("pausing", "more"),
    [
        pytest.param("never", {}, id="it-is-not-wanted"),
        pytest.param("auto", {"has_checkpoint": False}, id="no-checkpoint-is-confirmed"),
        pytest.param("auto", {"paused_seconds": 3600.0}, id="it-was-paused-long-enough"),
        pytest.param("auto", {"steps": None}, id="nobody-knows-what-is-left"),
    ],
)
def test_a_long_job_keeps_its_minimum_where(pausing: str, more: dict[str, object]) -> None:
    made = sizes(priced(pair(pausing, **more)))
    assert made["long"][1] >= 1
    assert made["short"][1] >= 1


def test_a_job_that_waited_starts_when_it_is_its_turn() -> None:
    jobs = [make_job("long", **LONG), make_job("short", 1, **SHORT)]  # type: ignore[arg-type]
    snapshot = make_snapshot([make_node("n")], jobs, pausing="auto")
    first = apply_plan(snapshot, priced(snapshot))
    rest = first.model_copy(update={"jobs": [job for job in first.jobs if job.name == "long"]})
    assert sizes(priced(rest)) == {"long": (0, 4)}


def test_priority_outweighs_length() -> None:
    jobs = [make_job("long", **(LONG | {"steps": 1e5}), priority=10), make_job("short", 1, **SHORT)]  # type: ignore[arg-type]
    made = priced(make_snapshot([make_node("n", 6)], jobs))
    assert made.decisions[0].size == Size(workers=5)


@pytest.mark.parametrize("pausing", ["auto", "never"])
def test_a_job_that_would_take_for_ever_keeps_nobody_from_being_planned(pausing: str) -> None:
    jobs = [make_job("endless", speed=speed(1e308, 1e308, 1e308)), make_job("other", 1, **SHORT)]  # type: ignore[arg-type]
    made = priced(make_snapshot([make_node("n")], jobs, pausing=pausing, remaining_weight=2.0))
    assert sizes(made)["other"][1] >= 3
