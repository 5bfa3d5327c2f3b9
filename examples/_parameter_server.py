"""A parameter server: holds one share of the parameters and applies what the workers push.

Synchronous: a step is applied when every worker's gradient for it is here, as one mean over all samples, and
all are answered at once. Asynchronous: each gradient is applied as it comes.
"""

import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from _wire import PEER_LOST, Link, PeerLost, stopped_within, welcome

import optimus_train

RECENT = 16  # asynchronous updates whose mean loss is told


class Ended(Exception):
    """The server has ended while a worker waited for its answer."""


class Server:
    """One share of the parameters. A thread for each worker; `changed` guards everything they share."""

    def __init__(self, synchronous: bool, workers: int, lr: float, momentum: float) -> None:
        self.synchronous, self.workers, self.lr, self.momentum = synchronous, workers, lr, momentum
        self.parameters: np.ndarray | None = None  # until rank 0 has sent them
        self.velocity = np.empty(0)
        self.step = self.first = self.limit = 0
        self.loss, self.stop = 0.0, False
        self.pushed: dict[int, tuple[dict[str, Any], np.ndarray]] = {}
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.present: set[int] = set()
        self.seen: set[int] = set()
        self.gone: set[int] = set()  # those that said goodbye; asynchronous: also those that were lost
        self.ended: str | None = None  # "" is a good end, other text is what went wrong
        self.answering = 0
        self.changed = threading.Condition()

    def serve(self, listener: socket.socket, patience: float) -> int:
        """Answers the workers until all have left; returns the exit code."""
        listener.settimeout(0.05)
        began, asked = time.monotonic(), None
        while self.ended is None:
            try:
                link = Link(listener.accept()[0], "a worker")
                threading.Thread(target=self._attend, args=(link,), daemon=True).start()
            except TimeoutError:
                pass
            if optimus_train.stop_requested():
                asked = asked or time.monotonic()
                self._hurry(time.monotonic() - asked)
            elif len(self.seen) < self.workers and time.monotonic() > began + patience:
                self._miss(set(range(self.workers)) - self.seen, patience)
        with self.changed:  # those who wait for an answer are told, not cut off
            self.changed.wait_for(lambda: not self.answering, timeout=1)
        if self.ended:
            print(f"server {optimus_train.rank()}: {self.ended}", file=sys.stderr, flush=True)
        return PEER_LOST if self.ended else 0

    def _miss(self, missing: set[int], patience: float) -> None:
        """Some have not come in time. They count as lost; asynchronous, they may still come later."""
        why = f"of {self.workers} workers, {sorted(missing)} did not come within {patience:g} s"
        with self.changed:
            if self.synchronous or 0 in missing:
                self._end(why)
                return
            print(f"server {optimus_train.rank()}: {why}; the others go on", file=sys.stderr, flush=True)
            self.seen |= missing
            self.gone |= missing
            self.changed.notify_all()
            if self.gone == self.seen:
                self._end("")

    def _hurry(self, seconds: float) -> None:
        """We were asked to stop: go on serving until the workers have left, but not into the kill."""
        grace = optimus_train.grace_seconds()
        with self.changed:
            self.changed.notify_all()  # for those who wait for workers that will not come any more
        if self.parameters is None or (self.synchronous and len(self.seen) < self.workers):
            self._end("")  # who has not come by now will not come, and no step can be done without him
        elif seconds > max(grace - 2, grace / 2):
            self._end("asked to stop, but the workers did not leave in time")

    def _attend(self, link: Link) -> None:
        """Serves one worker from its first to its last message."""
        rank, why = None, "something unexpected ended its connection"
        try:
            rank = self._admit(link)
            while True:
                header, vector = link.receive()
                if header["kind"] == "goodbye":
                    break
                self._answer(link, rank, header, vector)
            self._leave(rank, header["early"])
            why = ""
        except PeerLost as lost:
            why = str(lost)
        except Ended:
            why = ""
        finally:
            link.close()
            if rank is not None and why:
                self._lose(rank, why)

    def _admit(self, link: Link) -> int:
        rank = welcome(link)
        with self.changed:
            if rank in self.present or not 0 <= rank < self.workers:
                raise PeerLost(f"a second worker {rank} called")
            self.present.add(rank)
            self.seen.add(rank)
            self.gone.discard(rank)
        link.peer = f"worker {rank}"
        link.send("welcome")
        return rank

    def _answer(self, link: Link, rank: int, header: dict[str, Any], vector: np.ndarray) -> None:
        with self.changed:
            self.answering += 1
        try:
            act = {"init": self._init, "pull": self._pull, "push": self._push}[header["kind"]]
            fields, reply = act(rank, header, vector)
            link.send("done", reply, **fields)
        except Ended:
            link.send("failed" if self.ended else "stopped", why=self.ended)
            raise
        finally:
            with self.changed:
                self.answering -= 1
                self.changed.notify_all()

    def _init(self, rank: int, header: dict[str, Any], vector: np.ndarray) -> tuple[dict, np.ndarray]:
        with self.changed:
            self.parameters, self.velocity = (part.copy() for part in np.split(vector, 2))
            self.step = self.first = header["step"]
            self.limit = header["steps"]
            self.changed.notify_all()
        return {}, np.empty(0)

    def _pull(self, rank: int, header: dict[str, Any], vector: np.ndarray) -> tuple[dict, np.ndarray]:
        """Parameters and velocity; for the last checkpoint, `alone`, once all other workers have left."""
        with self.changed:
            self._wait(lambda: self.parameters is not None and (not header["alone"] or self._alone(rank)))
            return {"step": self.step}, np.concatenate([self.parameters, self.velocity])

    def _push(self, rank: int, header: dict[str, Any], gradient: np.ndarray) -> tuple[dict, np.ndarray]:
        with self.changed:
            if self.synchronous:
                self.pushed[rank] = header, gradient
                if len(self.pushed) == self.workers:
                    self._apply_all()
                self._wait(lambda: self.step >= header["step"])
            else:
                self._apply_one(header, gradient)
            return {"step": self.step, "loss": self.loss, "stop": self.stop}, self.parameters.copy()

    def _apply_all(self) -> None:
        ordered = [self.pushed[rank] for rank in range(self.workers)]  # sums depend on their order
        samples = sum(header["samples"] for header, _ in ordered)
        self.loss = sum(header["loss"] for header, _ in ordered) / samples
        self.stop = any(header["stop"] for header, _ in ordered) or optimus_train.stop_requested()
        self._descend(sum(gradient for _, gradient in ordered) / samples)
        self.pushed.clear()

    def _apply_one(self, header: dict[str, Any], gradient: np.ndarray) -> None:
        if self.step < self.limit:
            self._descend(gradient / header["samples"])
            self.recent.append(header["loss"] / header["samples"])
        self.loss = sum(self.recent) / max(len(self.recent), 1)
        self.stop = self.stop or header["stop"] or optimus_train.stop_requested()

    def _descend(self, gradient: np.ndarray) -> None:
        self.velocity = self.momentum * self.velocity - self.lr * gradient
        self.parameters = self.parameters + self.velocity
        self.step += 1
        self.changed.notify_all()

    def _leave(self, rank: int, early: bool) -> None:
        """A worker has left, `early` if it was asked to stop before it had begun."""
        with self.changed:
            self.present.discard(rank)
            self.gone.add(rank)
            self.changed.notify_all()
            if (self._alone(rank) and 0 in self.gone) or (early and self.step == self.first):
                self._end("")  # all have left, or one before there was anything to lose

    def _alone(self, rank: int) -> bool:
        """Whether all other workers have left. Who has not come by the time of a stop will not come."""
        others = set(range(self.workers)) - {rank}
        stopping = self.stop or optimus_train.stop_requested()
        return not others & self.present if stopping else others <= self.gone

    def _lose(self, rank: int, why: str) -> None:
        """A worker has gone without a word. Asynchronous training can do without it, if it does not lead."""
        stopped = self.step == self.first and stopped_within(1.0)
        with self.changed:
            self.present.discard(rank)
            if stopped and self.step == self.first:
                self._end("")
            elif self.synchronous or rank == 0:
                self._end(why)
            else:
                print(f"server {optimus_train.rank()}: {why}; the others go on", file=sys.stderr, flush=True)
                self._leave(rank, early=False)

    def _wait(self, ready: Callable[[], bool]) -> None:
        self.changed.wait_for(lambda: ready() or self.ended is not None)
        if self.ended is not None:
            raise Ended

    def _end(self, why: str) -> None:
        with self.changed:
            if self.ended is None:
                self.ended = why
            self.changed.notify_all()
