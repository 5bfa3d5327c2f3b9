"""Messages between replicas: a length, a small JSON header, and one vector of numbers. No pickle."""

import json
import socket
import struct
import time
from typing import Any

import numpy as np

import optimus_train

_LENGTHS = struct.Struct("!IQ")  # bytes of the header, bytes of the vector
_LONGEST = 1 << 20, 1 << 32  # more than this is no message of ours
NOTHING = np.empty(0)
PEER_LOST = 75  # exit code, in sysexits.h "try again": nothing is wrong with us, a peer has gone


class PeerLost(ConnectionError):
    """Another replica has gone, or says nothing any more: this generation cannot go on."""


class StoppedAtStart(Exception):
    """We were asked to stop before any step was done: there is nothing to save."""


class Link:
    """One connection to another replica."""

    def __init__(self, connection: socket.socket, peer: str, timeout: float | None = None) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(timeout)
        self.connection, self.peer = connection, peer

    def send(self, kind: str, vector: np.ndarray = NOTHING, **fields: Any) -> None:
        header = json.dumps(dict(fields, kind=kind)).encode()
        body = np.ascontiguousarray(vector, "<f8").tobytes()
        try:
            self.connection.sendall(_LENGTHS.pack(len(header), len(body)) + header + body)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> tuple[dict[str, Any], np.ndarray]:
        lengths = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        if any(length > longest for length, longest in zip(lengths, _LONGEST, strict=True)):
            raise PeerLost(f"{self.peer} sends something that is no message")
        header = json.loads(self._exactly(lengths[0]))
        return header, np.frombuffer(self._exactly(lengths[1]), "<f8")

    def close(self) -> None:
        self.connection.close()

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            try:
                got = self.connection.recv_into(view)
            except OSError as error:
                raise self._lost(error) from error
            if not got:
                raise PeerLost(f"{self.peer} closed the connection")
            view = view[got:]
        return data

    def _lost(self, error: OSError) -> PeerLost:
        return PeerLost(f"{self.peer} is lost: {error or type(error).__name__}")


def identity() -> dict[str, Any]:
    """What both ends must agree on, so that replicas of two generations never train together."""
    return {
        "job": optimus_train.job(),
        "attempt": optimus_train.attempt(),
        "generation": optimus_train.generation(),
        "workers": optimus_train.workers(),
    }


def stopped_within(seconds: float) -> bool:
    """Whether we are asked to stop, now or very soon: all replicas are asked, but not at the same instant."""
    end = time.monotonic() + seconds
    while not optimus_train.stop_requested() and time.monotonic() < end:
        time.sleep(0.02)
    return optimus_train.stop_requested()


def listen() -> socket.socket:
    """Listens at this replica's port. Elsewhere than on loopback at every address: in a pod that has just started,
    its own name is often not known yet."""
    host, port = optimus_train.address()
    return socket.create_server((host if host == "127.0.0.1" else "", port), backlog=128)


def connect(address: tuple[str, int], peer: str, patience: float, timeout: float) -> Link:
    """Connects and introduces us; tries again for `patience` seconds, since replicas start in any order."""
    end, problem = time.monotonic() + patience, "it does not answer"
    while time.monotonic() < end:
        if optimus_train.stop_requested():
            raise StoppedAtStart
        try:
            link = Link(socket.create_connection(address, timeout=min(timeout, 5)), peer, timeout)
            link.send("hello", rank=optimus_train.rank(), **identity())
            if link.receive()[0]["kind"] == "welcome":
                return link
            problem = "it belongs to another generation, or has a worker of our rank"
            link.close()
        except OSError as error:
            problem = str(error)
        time.sleep(0.05)
    raise PeerLost(f"{peer} at {address[0]}:{address[1]} could not be reached in {patience:g} s: {problem}")


def welcome(link: Link) -> int:
    """The other end of `connect`: the rank of who has called, or PeerLost if he is none of ours."""
    header, _ = link.receive()
    rank = header.pop("rank", None)
    if header != dict(identity(), kind="hello") or not isinstance(rank, int):
        link.send("refused")
        raise PeerLost("someone of another job or generation called")
    return rank
