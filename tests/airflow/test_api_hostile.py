"""Names, log lines and numbers that mean harm: each comes back as the text or number that it is, or not at all."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from typing import Any

import pytest

from optimus_core.store import GenerationRow, OutputRow, SeriesRow, SpeedRow
from optimus_core.telemetry import BoundedSeries, Point

pytestmark = pytest.mark.xdist_group("api")
ALLOWED_TAGS = {"html", "meta", "title", "style", "h1", "h2", "table", "tr", "th", "td"}
MOST_BYTES = 2_000_000
"""An answer is no larger, whatever a job has written."""

TEXTS = [
    pytest.param("<img src=x onerror=alert(1)>", id="an image"),
    pytest.param("</td></style></title><script>alert(1)</script>", id="a script"),
    pytest.param("\"'><svg/onload=alert(1)>&lt;b&gt;&#x3c;", id="quotes and entities"),
    pytest.param("javascript:alert(1) {{7*7}} ${7*7} %s %n", id="templates"),
    pytest.param("\u202egnp.exe \u2066\u05d0\u05d1\u2069 \u0627\u0644", id="right to left"),
    pytest.param("\U0001f600\U0001f469\u200d\U0001f469\u200d\U0001f467 e\u0301 \ufdfd", id="emoji and marks"),
    pytest.param("x" * 10_000, id="10 kB"),
    pytest.param("".join(map(chr, range(1, 32))) + "\x7f\x85\u2028\ufeff", id="control characters"),
    pytest.param("\x1b[31mred\x1b]8;;http://example.org\x07link", id="a terminal's escapes"),
    pytest.param("NaN null undefined __proto__ constructor", id="words of programs"),
]


class Tags(HTMLParser):
    """Collects the tags that a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes.update(name for name, _ in attrs)


def fill(engine: Any, job_id: int, text: str, value: float = 0.5) -> None:
    """Write ``text`` wherever a job's text can get to, and ``value`` wherever a number can."""
    with engine.store.transaction() as tx:
        row = tx.job(job_id)
        row.reason = {"code": "user_error", "numbers": {"message": text, "seconds": value}}
        row.loss, row.epoch = value, value
        row.estimate = {
            "predicted_seconds": value,
            "seconds_saved_by_one_worker": value,
            "remaining": {"value": value, "low": value, "high": value},
            "predictions": [[0.0, value, value, None]],
        }
        series = BoundedSeries()
        series.extend(Point(text[:128], value, step, None, None, step) for step in range(1, 5))
        tx.add(SeriesRow(job_id=job_id, name=text[:128], state=series.state(), points=4))
        tx.add(OutputRow(job_id=job_id, replica="worker-0", uid="1", generation=9, tail=text, gaps=0, unread=0))
        tx.record(row, "output_unread", 9, **{"error": text, text: value})
        sized = {"job_id": job_id, "servers": 0, "workers": 1}
        why = {"code": text[:40], "numbers": {"node": text, "saved_seconds": value}}
        gone = {"state": "gone", "wanted_at": tx.now, "starting_at": tx.now, "gone_at": tx.now, "placement": {text: {}}}
        tx.add(GenerationRow(**sized, **gone, number=9, attempt=1, reason=why, cause=why))
        same = {"workload": row.workload, "specification_hash": row.specification_hash, "generation": 9}
        tx.add_speed(SpeedRow(**sized, **same, steps=1, seconds=1.0 if math.isnan(value) else value, time=tx.now))


def answers(server: Any, name: str) -> list[str]:
    """What each route that shows a job answers."""
    paths = (f"jobs/{name}?points=2000", "jobs", "clusters/local")
    got = [server["viewer"].get(f"/optimus/api/{path}") for path in paths]
    got.append(server["viewer"].post("/optimus/api/clusters/local/what-if", json={}))
    assert [(each.status_code, each.headers["content-type"]) for each in got] == [(200, "application/json")] * 4
    assert all(len(each.content) < MOST_BYTES for each in got)
    return [each.text for each in got]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_stays_a_text(server, engine, jobs, text):
    job = engine.job(jobs["digits"])
    fill(engine, job.id, text)
    detail = json.loads(answers(server, job.name)[0])
    assert detail["series"][0]["name"] == text[:128]
    assert detail["replicas"][0]["tail"] == text[-4000:]
    page = server["viewer"].get(f"/optimus/jobs/{job.name}")
    tags = Tags(page.text)
    assert tags.seen == ALLOWED_TAGS
    assert tags.attributes <= {"lang", "charset"}
    assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0])
def test_a_number_that_json_can_not_say_is_left_out(server, engine, jobs, value):
    job = engine.job(jobs["digits"])
    fill(engine, job.id, "loss", value)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    detail, listed, *_ = [json.loads(text, parse_constant=refuse) for text in answers(server, job.name)]
    assert listed["jobs"][0]["loss"] == (value if math.isfinite(value) else None)
    assert all(math.isfinite(y) for series in detail["series"] for _, y in series["points"])
    for action in ("pin", "unpin", "stop"):
        answer = server["user"].post(f"/optimus/api/jobs/{job.name}/{action}", json={"workers": 1})
        assert answer.status_code == 200
        json.loads(answer.text, parse_constant=refuse)


def test_an_answer_is_bounded_whatever_a_job_has_written(server, engine, jobs):
    job = engine.job(jobs["digits"])
    fill(engine, job.id, "\u0001" * 10_000)
    with engine.store.transaction() as tx:
        row = tx.job(job.id)
        for number in range(500):
            tx.record(row, "retried", 9, error="<" * 500)
            tx.session.add(
                OutputRow(
                    job_id=job.id, replica=f"w{number}", uid="2", generation=9, tail="\u202e" * 10_000, gaps=0, unread=0
                )
            )
    answers(server, job.name)
