"""What the examples train: a small network that reads handwritten digits, in NumPy.

The 1797 pictures (8 x 8) come inside scikit-learn's wheel. They are read from its folder without importing
it, since that import takes longer than the rest of the start. Where that file lies beside this one (in a pod whose
image has no scikit-learn, say), it is read instead.
"""

import importlib.util
import os
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small: threads only get in the way
import numpy as np

PIXELS, CLASSES = 64, 10
HELD_BACK = 297  # pictures that only measure the accuracy


class Data(NamedTuple):
    pictures: np.ndarray
    digits: np.ndarray


def file() -> Path:
    """Where the pictures are."""
    beside = Path(__file__).with_name("digits.csv.gz")
    if beside.exists():
        return beside
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise SystemExit(
            "The digits come with scikit-learn, which is missing: pip install scikit-learn, or put its "
            f"datasets/data/digits.csv.gz beside {Path(__file__).name}"
        )
    return Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"


def load() -> tuple[Data, Data]:
    """The pictures to train on, and those held back."""
    table = np.loadtxt(file(), delimiter=",")
    table = table[np.random.default_rng(0).permutation(len(table))]
    every = Data(table[:, :PIXELS] / 16.0, table[:, PIXELS].astype(int))
    return Data(*(part[HELD_BACK:] for part in every)), Data(*(part[:HELD_BACK] for part in every))


class Model:
    """One hidden layer; all parameters are one flat vector, so that anyone can cut it into shares."""

    def __init__(self, hidden: int) -> None:
        self.shapes = [(PIXELS, hidden), (hidden,), (hidden, CLASSES), (CLASSES,)]
        self.ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])

    @property
    def size(self) -> int:
        return int(self.ends[-1])

    def initial(self) -> np.ndarray:
        draw = np.random.default_rng(1)
        return np.concatenate(
            [
                draw.normal(0, shape[0] ** -0.5, shape).ravel() if len(shape) == 2 else np.zeros(shape)
                for shape in self.shapes
            ]
        )

    def loss_and_gradient(self, parameters: np.ndarray, data: Data) -> tuple[float, np.ndarray]:
        """Summed over the samples, so that sums of several workers add up; of no samples both are 0."""
        w1, b1, w2, b2 = self._layers(parameters)
        hidden = np.maximum(data.pictures @ w1 + b1, 0)
        likely = _softmax(hidden @ w2 + b2)
        rows = np.arange(len(data.digits))
        loss = -np.log(np.maximum(likely[rows, data.digits], 1e-300)).sum()
        likely[rows, data.digits] -= 1
        back = (likely @ w2.T) * (hidden > 0)
        parts = [data.pictures.T @ back, back.sum(0), hidden.T @ likely, likely.sum(0)]
        return float(loss), np.concatenate([part.ravel() for part in parts])

    def accuracy(self, parameters: np.ndarray, data: Data) -> float:
        w1, b1, w2, b2 = self._layers(parameters)
        guess = (np.maximum(data.pictures @ w1 + b1, 0) @ w2 + b2).argmax(1)
        return float((guess == data.digits).mean())

    def _layers(self, parameters: np.ndarray) -> list[np.ndarray]:
        parts = np.split(parameters, self.ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(1, keepdims=True)) if len(scores) else scores
    return powers / powers.sum(1, keepdims=True)
