"""Trains a digit reader with parameter servers: `python train_ps.py`.

The parameters are one vector, cut into one share for each server. In each step a worker pushes its gradient
to all servers and gets the new parameters back. Every replica runs this file; its role is in OPTIMUS_ROLE.
By hand, without Optimus, the one worker brings its own server along.
"""

import argparse
import contextlib
import threading

import numpy as np
from _parameter_server import Server
from _trainer import BATCH, Training, flags, run
from _wire import Link, PeerLost, StoppedAtStart, connect, listen, stopped_within

import optimus_train
from optimus_train import stop_requested

# Gradients that come late act as momentum does; with more of it four workers do not converge.
ASYNC = {"lr": 0.2, "momentum": 0.0}


class Servers:
    """All parameter servers as one."""

    def __init__(self, links: list[Link], size: int) -> None:
        self.links = links
        self.cuts = [size * place // len(links) for place in range(1, len(links))]

    def init(self, step: int, steps: int, parameters: np.ndarray, velocity: np.ndarray) -> None:
        shares = zip(np.split(parameters, self.cuts), np.split(velocity, self.cuts), strict=True)
        for link, share in zip(self.links, shares, strict=True):
            link.send("init", np.concatenate(share), step=step, steps=steps)
        self._answers()

    def pull(self, alone: bool = False) -> tuple[int, np.ndarray, np.ndarray]:
        """The step, parameters and velocity; `alone` waits until the other workers have left."""
        for link in self.links:
            link.send("pull", alone=alone)
        headers, shares = zip(*self._answers(), strict=True)
        halves = [np.split(share, 2) for share in shares]
        parameters, velocity = (np.concatenate(parts) for parts in zip(*halves, strict=True))
        return headers[0]["step"], parameters, velocity

    def push(self, step: int, gradient: np.ndarray, samples: int, loss: float) -> tuple[dict, np.ndarray]:
        """One step: the servers' answer (step, mean loss, whether to stop after it) and the parameters.

        A worker tells all servers the same, and all workers hear the same of each server: so they all agree
        on whether this step was the last.
        """
        fields = {"step": step, "samples": samples, "loss": loss, "stop": stop_requested()}
        for link, share in zip(self.links, np.split(gradient, self.cuts), strict=True):
            link.send("push", share, **fields)
        headers, shares = zip(*self._answers(), strict=True)
        return dict(headers[0], stop=any(header["stop"] for header in headers)), np.concatenate(shares)

    def goodbye(self, early: bool = False) -> None:
        for link in self.links:
            with contextlib.suppress(PeerLost):  # a server may be quicker to leave
                link.send("goodbye", early=early)
            link.close()

    def _answers(self) -> list[tuple[dict, np.ndarray]]:
        answers = [link.receive() for link in self.links]
        for header, _ in answers:
            if header["kind"] == "stopped":
                raise StoppedAtStart
            if header["kind"] == "failed":
                raise PeerLost(f"a server has given up: {header['why']}")
        return answers


def serve(args: argparse.Namespace) -> int:
    server = Server(args.mode == "sync", optimus_train.workers(), args.lr, args.momentum)
    with listen() as listener:
        return server.serve(listener, args.connect_seconds)


def work(args: argparse.Namespace) -> None:
    training = Training(args, in_turn=args.mode == "async")
    links: list[Link] = []
    try:
        for place, address in enumerate(_server_addresses(args)):
            links.append(connect(address, f"server {place}", args.connect_seconds, args.timeout))
        servers = Servers(links, training.model.size)
        if training.leads:
            step, parameters, velocity = training.restore()
            servers.init(step, training.steps, parameters, velocity)
        else:
            step, parameters, _ = servers.pull()
        training.begin(step)
        train(training, servers, step, parameters)
    except (PeerLost, StoppedAtStart) as reason:
        begun = training.done > training.start
        if isinstance(reason, PeerLost) and (begun or not stopped_within(1.0)):
            raise
        Servers(links, 1).goodbye(early=True)  # else the others would take us for lost
        raise StoppedAtStart from None


def train(training: Training, servers: Servers, done: int, parameters: np.ndarray) -> None:
    """Steps until there are enough, or someone was asked to stop; then the last checkpoint."""
    for step, _, samples in training.batches(done):
        if done >= training.steps:
            break
        loss, gradient = training.gradient(parameters, samples)
        answer, parameters = servers.push(step, gradient, len(samples), loss)
        done = answer["step"]
        training.report(done, answer["loss"])
        if answer["stop"]:
            break
        if training.due(done):
            training.save(*servers.pull())
    if training.leads and done > training.start:
        training.save(*servers.pull(alone=True))
    servers.goodbye()


def _server_addresses(args: argparse.Namespace) -> list[tuple[str, int]]:
    if optimus_train.servers():
        return optimus_train.server_addresses()
    if optimus_train.workers() > 1:
        raise SystemExit(
            "OPTIMUS_SERVERS is 0: this script needs a parameter server. Ask for one, or run train_allreduce.py."
        )
    server = Server(args.mode == "sync", 1, args.lr, args.momentum)
    listener = listen()
    threading.Thread(target=server.serve, args=(listener, args.connect_seconds), daemon=True).start()
    return [listener.getsockname()[:2]]


def main() -> int | None:
    parser = flags("Trains a digit reader with parameter servers.")
    parser.add_argument(
        "--mode",
        choices=["sync", "async"],
        default="sync",
        help="sync: a step waits for all workers, which share one batch; async: each "
        f"worker's batch (OPTIMUS_BATCH_SIZE samples, else {BATCH}) is a step of its own, "
        f"and unless given --lr is {ASYNC['lr']:g} and --momentum {ASYNC['momentum']:g}",
    )
    if parser.parse_known_args()[0].mode == "async":
        parser.set_defaults(**ASYNC)
    args = parser.parse_args()
    return serve(args) if optimus_train.role() == "server" else work(args)


if __name__ == "__main__":
    run(main)
