"""The paper's rule, reckoned by hand.

All replicas of job a ask for 1 of the cluster's cpus, and seconds a step are 8/w + 2w/p: at (1 server, 1 worker) 10,
(1, 2) 8, (2, 2) 6, (3, 2) 5.33, (1, 3) 8.67, (2, 3) 5.67. It has 100 steps to do. Those of job b are 12/w + 1: with 1
to 4 workers 13, 7, 5, 4; servers don't help it. It has 50 steps to do. Gains are those of a cluster of 8 cpus:

    a: (1, 2) 1600, then (2, 2) 1600, then (3, 2) 533          b: (1, 2) 2400, then (1, 3) 800, then (1, 4) 400
"""

from __future__ import annotations

from typing import Any

import pytest

from optimus_core.scheduling.policies import policy
from optimus_core.scheduling.types import JobView
from tests.scheduling.builders import GIB, make_job, make_node, make_snapshot, running, sizes, speed

SERVED = {"strategy": "ps_sync", "min_servers": 1, "max_servers": 8}
A = SERVED | {"speed": speed(8.0, 0.0, 2.0, 0.0, 0.0), "steps": 100.0}
B = SERVED | {"speed": speed(12.0, 1.0, 0.0, 0.0, 0.0), "steps": 50.0}


def job(name: str, model: dict[str, Any], **more: Any) -> JobView:
    return make_job(name, 0.0 if name == "a" else 1.0, **(model | more))


@pytest.mark.parametrize(
    ("cpu", "more_of_b", "settings", "expected"),
    [
        pytest.param(3, {}, {}, {"a": (1, 2), "b": (0, 0)}, id="b's minimum does not fit after a's"),
        pytest.param(4, {}, {}, {"a": (1, 1), "b": (1, 1)}, id="the minimums are all that fits"),
        pytest.param(5, {}, {}, {"a": (1, 1), "b": (1, 2)}, id="b gains most by one more worker"),
        pytest.param(7, {}, {}, {"a": (2, 2), "b": (1, 2)}, id="then a by a worker and by a server"),
        pytest.param(8, {}, {}, {"a": (2, 2), "b": (1, 3)}, id="then b again: 800 against 533"),
        pytest.param(
            8, {"young": True}, {"young_factor": 0.4}, {"a": (3, 2), "b": (1, 2)}, id="b young: 320 against 533"
        ),
        pytest.param(
            8, {"young": True}, {"young_factor": 0.95}, {"a": (2, 2), "b": (1, 3)}, id="b young: 760 against 533"
        ),
        pytest.param(
            8,
            {"worker_demand": {"cpu": 2000, "memory": GIB}},
            {},
            {"a": (3, 2), "b": (1, 1)},
            id="b's workers twice as large: 1200 is third and does not fit, a's 533 does",
        ),
    ],
)
def test_room_goes_where_it_saves_most(
    cpu: int, more_of_b: dict[str, Any], settings: dict[str, Any], expected: dict[str, tuple[int, int]]
) -> None:
    jobs = [job("a", A), job("b", B, **more_of_b)]
    assert sizes(policy("paper")(make_snapshot([make_node("n", cpu)], jobs, **settings))) == expected


def test_what_only_a_worker_and_a_server_together_would_gain_is_not_seen() -> None:
    pairs = SERVED | {"speed": speed(4.0, 0.0, 2.0, 0.0, 1.1), "steps": 100.0}  # 7.1; one more: 7.1, 7.2; both: 6.2
    snapshot = make_snapshot([make_node("n", 8)], [job("a", pairs)])
    assert sizes(policy("paper")(snapshot)) == {"a": (1, 1)}
    assert sizes(policy("gain")(snapshot)) != {"a": (1, 1)}


def test_room_is_dealt_anew_each_time_whatever_a_restart_costs() -> None:
    jobs = [running("a", {"n": (4, 4)}, **A, restart_cost=1e6), job("b", B)]
    assert sizes(policy("paper")(make_snapshot([make_node("n", 8)], jobs))) == {"a": (2, 2), "b": (1, 3)}
