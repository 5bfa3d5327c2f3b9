"""Trains a digit reader with all-reduce: `python train_allreduce.py`.

There are only workers. Each computes the gradient of its share of the batch; then all add theirs up, so that
all hold the same sum and take the same step. Whether to stop is added up with it: all leave after the same
step.
"""

import argparse

import numpy as np
from _gloo import Gloo
from _ring import Ring
from _trainer import Training, flags, run
from _wire import PeerLost, StoppedAtStart, stopped_within

import optimus_train


def work(args: argparse.Namespace) -> None:
    training = Training(args)
    group = {"ring": Ring, "gloo": Gloo}[args.backend](args.connect_seconds, args.timeout)
    try:
        step, parameters, velocity = share_start(training, group)
    except PeerLost:
        if stopped_within(1.0):  # so was the peer that has left
            raise StoppedAtStart from None
        raise
    training.begin(step)
    train(training, group, step, parameters, velocity)


def share_start(training: Training, group: "Ring | Gloo") -> tuple[int, np.ndarray, np.ndarray]:
    """Rank 0's checkpoint or first parameters, sent to all: a sum to which the others add nothing."""
    size = training.model.size
    start = np.zeros(1 + 2 * size)
    if training.leads:
        step, parameters, velocity = training.restore()
        start[:] = np.concatenate([[step], parameters, velocity])
    start = group.sum(start)
    return int(start[0]), start[1 : 1 + size], start[1 + size :]


def train(training: Training, group: "Ring | Gloo", done: int, parameters: np.ndarray, velocity: np.ndarray) -> None:
    """Steps until there are enough, or someone was asked to stop; then the last checkpoint."""
    args = training.args
    for step, _, samples in training.batches(done):
        if done >= training.steps:
            break
        loss, gradient = training.gradient(parameters, samples)
        mine = [len(samples), loss, optimus_train.stop_requested()]
        total = group.sum(np.concatenate([gradient, mine]))
        count, loss, stop = total[-3:]
        velocity = args.momentum * velocity - args.lr * total[:-3] / count
        parameters = parameters + velocity
        done = step
        training.report(done, loss / count)
        if stop:
            break
        if training.due(done):
            training.save(done, parameters, velocity)
    if training.leads:
        training.save(done, parameters, velocity)


def main() -> None:
    parser = flags("Trains a digit reader with all-reduce.")
    parser.add_argument(
        "--backend",
        choices=["ring", "gloo"],
        default="ring",
        help="who adds the gradients up: our own ring of sockets, or PyTorch's gloo",
    )
    work(parser.parse_args())


if __name__ == "__main__":
    run(main)
