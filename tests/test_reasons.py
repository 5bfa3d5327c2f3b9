"""Every reason becomes a sentence, with its numbers and their units."""

from __future__ import annotations

import re

import pytest

from optimus_core.reasons import TEMPLATES, Reason, ReasonCode, duration, render

EVERY = {name: 7.0 for template in TEMPLATES.values() for name in re.findall(r"\{(\w+)", template)}


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_code_renders_with_all_none_or_more_of_its_numbers(code: ReasonCode) -> None:
    for numbers in ({}, EVERY, EVERY | {"something_else": 1}, dict.fromkeys(EVERY), dict.fromkeys(EVERY, "x")):
        text = render(code, numbers)
        assert re.fullmatch(r"[A-Z].*[^.:;, ]\.", text), text
        assert not re.search(r"[\[\]{}|]|  | [:;,.]|None", text), text


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_number_of_a_code_is_said(code: ReasonCode) -> None:
    names = set(re.findall(r"\{(\w+)", TEMPLATES[code]))
    said = render(code, {name: f"<{name}>" for name in names})
    assert all(f"<{name}>" in said for name in names)


@pytest.mark.parametrize(
    ("code", "numbers", "want"),
    [
        pytest.param(
            "grown",
            {"present": "1 worker", "size": "2 workers", "saved_seconds": 754.2, "restart_seconds": 15.0},
            "Grown from 1 worker to 2 workers; this saves 12 min 34 s, a restart costs 15 s.",
            id="grown",
        ),
        pytest.param(
            "waits_for_room",
            {"size": "2 workers", "needed": "2 cpu", "free": "1 cpu", "position": 1, "waiting": 3},
            "Waits for room for 2 workers: needs 2 cpu, free are 1 cpu; number 1 of 3 in the queue.",
            id="waits",
        ),
        pytest.param(
            "backing_off",
            {"failure": "lost", "retry": 2, "seconds": 30},
            "Backs off after lost (retry 2): starts again in 30 s.",
            id="backing-off",
        ),
        pytest.param(
            "kept",
            {"size": "2 workers", "saved_seconds": -75.0},
            "Keeps its 2 workers: no change would make the jobs faster; one more worker would cost 1 min 15 s.",
            id="more-is-slower",
        ),
        pytest.param(
            "reshaped",
            {"saved_seconds": -3.0, "restart_seconds": 15.0},
            "Changed; this costs 3 s, a restart costs 15 s.",
            id="a-change-for-others",
        ),
        pytest.param("shrunk", {"lost_seconds": 9.0}, "Shrunk; costs it 9 s.", id="fewer-is-slower"),
        pytest.param("shrunk", {"lost_seconds": -9.0}, "Shrunk; saves it 9 s.", id="fewer-is-faster"),
        pytest.param("oom", {"retries_used": 1}, "Out of memory; 1 retry used.", id="one-retry"),
        pytest.param("paused", {"lost_steps": 1}, "Paused; 1 step is done again.", id="one-step"),
        pytest.param("paused", {"lost_steps": 1200}, "Paused; 1,200 steps are done again.", id="many-steps"),
        pytest.param("killed", {"replica": "j-worker-0-g1"}, "Killed: replica j-worker-0-g1.", id="killed"),
        pytest.param("criterion_met", {"step": 12000, "loss": 0.12345}, "Stop criterion met at step 12,000 with loss "
                     "0.1235.", id="criterion"),
        pytest.param("of_a_newer_optimus", {"n": 1}, "Of a newer optimus: n 1.", id="unknown-code"),
    ],
)  # fmt: skip
def test_a_reason_reads_as_a_sentence(code: str, numbers: dict[str, float | str], want: str) -> None:
    assert render(code, numbers) == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(0, "0 s"), (0.034, "0.034 s"), (9.7, "10 s"), (59.7, "1 min"), (75, "1 min 15 s"), (3599.9, "1 h"),
     (86399, "1 d"), (86350, "23 h 59 min"), (1e7, "115 d 18 h"), (-75, "-1 min 15 s")],
)  # fmt: skip
def test_durations_are_for_people(seconds: float, want: str) -> None:
    assert duration(seconds) == want


def test_a_reason_survives_json() -> None:
    reason = Reason(code=ReasonCode.GROWN, numbers={"size": "2 workers", "count": 3, "saved_seconds": 15.0})
    assert Reason.model_validate_json(reason.model_dump_json()) == reason
    assert str(reason).startswith("Grown to 2 workers")


def test_out_of_memory_is_another_name_of_oom() -> None:
    assert ReasonCode("out_of_memory") is ReasonCode.OOM
