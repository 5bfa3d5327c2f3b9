"""The messages between replicas."""

import socket
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from _wire import Link, PeerLost, connect, identity, listen, welcome


@pytest.fixture
def links():
    """Both ends of one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ends = [socket.create_connection(listener.getsockname()), listener.accept()[0]]
    pair = [Link(end, "the other", timeout=10) for end in ends]
    yield pair
    for link in pair:
        link.close()


def test_a_message_arrives_as_it_was_sent(links):
    here, there = links
    here.send("push", np.arange(5.0), step=3, stop=False)
    header, vector = there.receive()
    assert header == {"kind": "push", "step": 3, "stop": False}
    assert vector.tolist() == [0, 1, 2, 3, 4]


def test_a_closed_connection_is_a_lost_peer(links):
    here, there = links
    here.close()
    with pytest.raises(PeerLost, match="the other"):
        there.receive()


def test_what_is_no_message_is_refused_before_its_length_is_believed(links):
    here, there = links
    here.connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(PeerLost, match="no message"):
        there.receive()


def test_replicas_of_two_generations_do_not_train_together(links, monkeypatch):
    here, there = links
    monkeypatch.setenv("OPTIMUS_GENERATION", "7")
    here.send("hello", rank=0, **identity())
    monkeypatch.setenv("OPTIMUS_GENERATION", "8")
    with pytest.raises(PeerLost, match="another job or generation"):
        welcome(there)
    assert here.receive()[0]["kind"] == "refused"


def test_who_belongs_to_us_is_known_by_his_rank(links):
    here, there = links
    here.send("hello", rank=3, **identity())
    assert welcome(there) == 3


def test_a_peer_that_never_answers_is_given_up_after_a_while():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    with pytest.raises(PeerLost, match=r"the server at .* could not be reached in 0.1 s"):
        connect(address, "the server", patience=0.1, timeout=1)


@pytest.mark.parametrize(
    ("host", "at"),
    [
        pytest.param("127.0.0.1", "127.0.0.1", id="one machine"),
        pytest.param("not-known-yet.invalid", "0.0.0.0", id="a pod whose name is not known yet"),
    ],
)
def test_a_replica_listens_whether_or_not_its_name_is_known(monkeypatch, host, at):
    monkeypatch.setattr("optimus_train.address", lambda: (host, 0))
    with listen() as listener:
        assert listener.getsockname()[0] == at
