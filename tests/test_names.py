"""Whatever a user calls a job, Kubernetes takes the name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.names import LABEL_LIMIT, group_name, job_name, replica_name, slug

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
"""How the API checks the label of a Service."""


def valid(name: str) -> bool:
    return DNS_1035.fullmatch(name) is not None and len(name) <= LABEL_LIMIT


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("日本語", id="no latin letter"),
        pytest.param("___", id="underscores only"),
        pytest.param("9lives", id="a digit first"),
        pytest.param("a" * 80, id="80 letters"),
        pytest.param("a" * 29 + "-" * 51, id="a dash where it is cut"),
        pytest.param("", id="empty"),
        pytest.param("Résumé/Train", id="accents and a slash"),
        pytest.param("\ud800", id="half a surrogate pair"),
    ],
)
def test_awkward_names_become_labels(text: str) -> None:
    assert valid(job_name(text))


@given(st.lists(st.text(st.characters()), min_size=1, max_size=5))
def test_every_text_becomes_a_label_with_room_for_role_index_and_generation(parts: list[str]) -> None:
    name = job_name(*parts)
    assert valid(name)
    assert valid(replica_name(name, "scheduler", 1023, 99999))
    assert valid(group_name(name, 99999))


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_names_are_equal_only_if_the_originals_are(one: list[str], other: list[str]) -> None:
    assert (job_name(*one) == job_name(*other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(("a", "b"), ("a-b",), id="joined by the dash of the slug"),
        pytest.param(("a\x1fb",), ("a", "b"), id="joined by a separator"),
        pytest.param(("Train",), ("train",), id="upper case"),
        pytest.param(("1:a",), ("a",), id="written as a part with its length"),
        pytest.param(("x" * 80 + "1",), ("x" * 80 + "2",), id="beyond what is shown"),
    ],
)
def test_what_looks_alike_stays_distinct(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert job_name(*one) != job_name(*other)


def test_a_person_can_read_the_name() -> None:
    assert job_name("Résumé training", 3).startswith("resume-training-3-")
    assert slug("9lives", 30) == "job-9lives"
    assert replica_name("resnet-0a1b", "worker", 3, 7) == "resnet-0a1b-worker-3-g7"
