"""All-reduce over a ring of sockets: each worker sends to the next one and receives from the one before.

The vector is cut into as many pieces as there are workers. In a first round each piece travels along the
ring and gathers what everyone adds to it; in a second round the finished pieces are handed on. However many
workers there are, each sends less than twice the vector.
"""

import queue
import select
import socket
import threading
import time

import numpy as np
from _wire import Link, PeerLost, StoppedAtStart, connect, listen, welcome

import optimus_train


class Ring:
    def __init__(self, patience: float, timeout: float) -> None:
        self.rank, self.workers, self.timeout = optimus_train.rank(), optimus_train.workers(), timeout
        if self.workers > 1:
            self.after, self.before = self._join(time.monotonic() + patience, patience)

    def sum(self, vector: np.ndarray) -> np.ndarray:
        """The sum of all workers' vectors: the same bits on each of them."""
        pieces = np.array_split(vector, self.workers)
        for turn in range(self.workers - 1):
            sent, got = (self.rank - turn) % self.workers, (self.rank - turn - 1) % self.workers
            pieces[got] = pieces[got] + self._swap(pieces[sent], len(pieces[got]))
        for turn in range(self.workers - 1):
            sent, got = (self.rank - turn + 1) % self.workers, (self.rank - turn) % self.workers
            pieces[got] = self._swap(pieces[sent], len(pieces[got]))
        return np.concatenate(pieces)

    def _swap(self, piece: np.ndarray, length: int) -> np.ndarray:
        """Sends to the next while it receives: if all only sent, all could wait for ever."""
        data, into = piece.astype("<f8").tobytes(), bytearray(8 * length)
        out, rest = memoryview(data), memoryview(into)
        try:
            while out or rest:
                out, rest = self._some(out, rest)
        except OSError as error:
            raise PeerLost(f"a neighbour in the ring is lost: {error}") from error
        return np.frombuffer(into, "<f8")

    def _some(self, out: memoryview, rest: memoryview) -> tuple[memoryview, memoryview]:
        """Sends and receives what is possible now; returns what is left of both."""
        after, before = self.after.connection, self.before.connection
        readable, writable, _ = select.select([before] * bool(rest), [after] * bool(out), [], self.timeout)
        if not readable and not writable:
            raise TimeoutError(f"nothing moved for {self.timeout:g} s")
        if writable:
            out = out[after.send(out) :]
        if readable:
            got = before.recv_into(rest)
            if not got:
                raise ConnectionResetError(f"{self.before.peer} closed the connection")
            rest = rest[got:]
        return out, rest

    def _join(self, end: float, patience: float) -> tuple[Link, Link]:
        """Calls the next worker while the one before calls us."""
        behind, ahead = (self.rank - 1) % self.workers, (self.rank + 1) % self.workers
        calls: queue.Queue[Link] = queue.Queue()
        address = optimus_train.worker_addresses()[ahead]
        with listen() as listener:
            threading.Thread(target=_take_call, args=(listener, behind, calls), daemon=True).start()
            after = connect(address, f"worker {ahead}", patience, self.timeout)
            while time.monotonic() < end:
                if optimus_train.stop_requested():
                    raise StoppedAtStart
                try:
                    before = calls.get(timeout=0.05)
                except queue.Empty:
                    continue
                after.connection.setblocking(False)
                before.connection.setblocking(False)
                return after, before
        raise PeerLost(f"worker {behind} did not call within {patience:g} s")


def _take_call(listener: socket.socket, expected: int, calls: queue.Queue[Link]) -> None:
    """Waits for the call of the worker before us; all other calls are refused."""
    while True:
        try:
            link = Link(listener.accept()[0], f"worker {expected}", timeout=5)
        except OSError:
            return  # the listener was closed: nobody waits any more
        try:
            if welcome(link) == expected:
                link.send("welcome")
                calls.put(link)
                return
        except PeerLost:
            pass
        link.close()
