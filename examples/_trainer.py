"""What both examples share: the flags, the wait of a slow store, progress and the state in a checkpoint."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
from _digits import Data, Model, load
from _wire import PEER_LOST, PeerLost, StoppedAtStart

import optimus_train

BATCH = 64  # samples in a step, if Optimus does not say


def flags(description: str) -> argparse.ArgumentParser:
    """The flags that every example has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=600, help="train for so many steps of the job")
    parser.add_argument("--epochs", type=float, help="train for so many passes over the data instead")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate")
    parser.add_argument("--momentum", type=float, default=0.9, help="of the gradient descent")
    parser.add_argument("--hidden", type=int, default=64, help="width of the hidden layer")
    parser.add_argument(
        "--read-ms",
        type=float,
        default=2.0,
        help="wait so many milliseconds for each sample, as if it came from remote storage: "
        "the wait, not the arithmetic, is what more workers share",
    )
    parser.add_argument("--report-every", type=int, default=5, metavar="STEPS", help="how often to report")
    parser.add_argument(
        "--checkpoint-every",
        type=int,
        default=100,
        metavar="STEPS",
        help="how often rank 0 saves a checkpoint; it also does when training ends or is stopped",
    )
    parser.add_argument(
        "--connect-seconds", type=float, default=30.0, help="how long to wait for the other replicas at the start"
    )
    parser.add_argument(
        "--timeout", type=float, default=120.0, help="give up a replica that is silent for so many seconds"
    )
    return parser


class Training:
    """The data, the model, where it starts, and what is said about it on the way."""

    def __init__(self, args: argparse.Namespace, in_turn: bool = False) -> None:
        self.args, self.in_turn = args, in_turn
        self.data, self.held_back = load()
        self.model = Model(args.hidden)
        self.per_epoch = optimus_train.steps_per_epoch(len(self.data.digits), in_turn, default=BATCH)
        self.steps = round(args.epochs * self.per_epoch) if args.epochs is not None else args.steps
        self.leads = optimus_train.rank() == 0
        self.start = self.done = self.saved = self.reported = 0
        self.busy, self.busy_steps = 0.0, 0

    def restore(self) -> tuple[int, np.ndarray, np.ndarray]:
        """The steps done, parameters and velocity: of the newest checkpoint, or of the very start."""
        path = optimus_train.latest_checkpoint()
        if path is None:
            return 0, self.model.initial(), np.zeros(self.model.size)
        with np.load(path / "state.npz") as state:
            parameters, velocity = state["parameters"], state["velocity"]
        if len(parameters) != self.model.size:
            raise SystemExit(
                f"{path} has {len(parameters)} parameters, this model {self.model.size}: "
                "use the same --hidden, or another checkpoint folder."
            )
        return optimus_train.checkpoint_step(path), parameters, velocity

    def begin(self, step: int) -> None:
        self.start = self.done = self.saved = self.reported = step
        if self.leads:
            optimus_train.total_steps(self.steps)

    def batches(self, done: int) -> Iterator[tuple[int, int, list[int]]]:
        return optimus_train.batches(len(self.data.digits), done, in_turn=self.in_turn, default=BATCH)

    def gradient(self, parameters: np.ndarray, samples: list[int]) -> tuple[float, np.ndarray]:
        """Reads the samples, slowly, and computes their summed loss and gradient."""
        began = time.perf_counter()
        time.sleep(self.args.read_ms / 1000 * len(samples))
        batch = Data(self.data.pictures[samples], self.data.digits[samples])
        result = self.model.loss_and_gradient(parameters, batch)
        self.busy += time.perf_counter() - began
        self.busy_steps += 1
        return result

    def report(self, step: int, loss: float) -> None:
        """Says each few steps how far we are; rank 0 gives the loss, the others only their speed."""
        self.done = step
        if not self._crossed(self.reported, step, self.args.report_every) and step < self.steps:
            return
        epoch = (step - 1) // self.per_epoch
        seconds = round(self.busy / max(self.busy_steps, 1), 6)
        optimus_train.report(step, loss if self.leads else None, epoch, batch_seconds=seconds)
        self.reported, self.busy, self.busy_steps = step, 0.0, 0

    def due(self, step: int) -> bool:
        """Whether it is time for rank 0 to save a checkpoint."""
        return self.leads and self._crossed(self.saved, step, self.args.checkpoint_every)

    def save(self, step: int, parameters: np.ndarray, velocity: np.ndarray) -> None:
        if step == self.saved:
            return
        with optimus_train.checkpoint(step) as folder:
            np.savez(folder / "state.npz", parameters=parameters, velocity=velocity)
        self.saved = step
        right = self.model.accuracy(parameters, self.held_back)
        print(f"step {step}: {right:.1%} of the held-back digits are read right", file=sys.stderr, flush=True)

    @staticmethod
    def _crossed(before: int, now: int, every: int) -> bool:
        return now // every > before // every


def run(main: Callable[[], int | None]) -> None:
    """Runs a replica's main function and turns what ends it into an exit code."""
    optimus_train.stop_requested()  # from here on SIGTERM is a request
    who = f"{optimus_train.role()} {optimus_train.rank()}"
    try:
        code = main() or 0
    except StoppedAtStart:
        print(f"{who}: left before the first step", file=sys.stderr)
        code = 0
    except PeerLost as lost:
        print(f"{who}: {lost}", file=sys.stderr)
        code = PEER_LOST
    sys.exit(code)
