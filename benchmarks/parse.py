"""How fast is the parser of outputs, compared with a bare regular expression that reads the same pairs?

    python benchmarks/parse.py [--lines 60000]

The baseline is one compiled expression for "name = number", run over each already decoded line, with a Point made of
each pair found: what a parser by regular expression does at the least. The parser gets the bytes: it decodes, splits,
strips colours, and tells steps, epochs, bars, reports and events from metrics. The lines are what Keras, MXNet, tqdm,
transformers, a plain training loop and optimus_train print, with some chatter among them.

Two more figures are printed: decoding and splitting alone, and a search for the first loss of a line only.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator

from optimus_core.telemetry import LineSplitter, Parser, Point

GOAL = 0.5
CHUNK = 64 * 1024
BARE = re.compile(r"loss\s*[=:]\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)").search

PAIRS = re.compile(r"([\w/.|-]+)\s*[=:]\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII).findall


def tqdm(step: int, loss: float) -> str:
    n = step % 400
    bar = "█" * (n // 40)
    rate = random.uniform(25, 35)
    return f"\rEpoch {step // 400}: {n / 4:3.0f}%|{bar:10}| {n}/400 [00:{n // 32:02d}<00:{12 - n // 32:02d}, {rate:.2f}it/s, loss={loss:.4g}]"


def keras_bar(step: int, loss: float) -> str:
    n = step % 57 + 1
    green, grey = "━" * (n * 20 // 57), "━" * (20 - n * 20 // 57)
    text = f"\x1b[1m{n:2}/57\x1b[0m \x1b[32m{green}\x1b[0m\x1b[37m{grey}\x1b[0m \x1b[1m0s\x1b[0m 5ms/step - accuracy: {1 - loss:.4f} - loss: {loss:.4f}"
    return "\b" * 74 + "\r" + text


def keras_line(step: int, loss: float) -> str:
    return f"57/57 - 1s - 10ms/step - accuracy: {1 - loss:.4f} - loss: {loss:.4f} - val_accuracy: {1 - loss:.4f} - val_loss: {loss:.4f}\n"


def mxnet(step: int, loss: float) -> str:
    n = step % 40 * 20
    return f"INFO:root:Epoch[{step // 40}] Batch [{n}-{n + 20}]\tSpeed: {random.uniform(2e4, 8e4):.2f} samples/sec\taccuracy={1 - loss:f}\tcross-entropy={loss:f}\n"


def transformers(step: int, loss: float) -> str:
    return f"{{'loss': '{loss:.4g}', 'grad_norm': '{random.random():.4g}', 'learning_rate': '{random.random() / 1e4:.4g}', 'epoch': '{step / 40:.4g}'}}\n"


def loop(step: int, loss: float) -> str:
    return f"2030-05-01 10:22:31,417 INFO train: step={step} loss={loss:.6f} lr={1e-3 / (1 + step):.3e}\n"


def report(step: int, loss: float) -> str:
    return json.dumps({"optimus": "report", "time": 1.9e9 + step / 7, "step": step, "loss": loss}) + "\n"


def chatter(step: int, loss: float) -> str:
    return f"I0000 00:00:17962{step % 10000:05d}.303749   12513 port.cc:153] oneDNN custom operations are on.\n"


MIX: list[tuple[Callable[[int, float], str], int]] = [
    (tqdm, 25), (keras_bar, 15), (keras_line, 5), (mxnet, 15), (transformers, 10), (loop, 15), (report, 10),
    (chatter, 5),
]  # fmt: skip


def output(lines: int) -> bytes:
    """A few hundred lines of each writer in turn, as a real output has one writer for long."""
    random.seed(7)
    texts: list[str] = []
    step = 0
    while len(texts) < lines:
        for writer, weight in MIX:
            for _ in range(weight * 4):
                step += 1
                texts.append(writer(step, 0.1 + 0.8 / (1 + step / 500)))
            texts.append("\n")
    return "".join(texts).encode()


def chunks(data: bytes) -> Iterator[bytes]:
    return (data[i : i + CHUNK] for i in range(0, len(data), CHUNK))


def time_bare(lines: list[str]) -> float:
    start = time.perf_counter()
    for line in lines:
        if found := BARE(line):
            float(found[1])
    return time.perf_counter() - start


def time_split(data: bytes) -> float:
    start = time.perf_counter()
    splitter = LineSplitter()
    for chunk in chunks(data):
        for _ in splitter.feed(chunk):
            pass
    return time.perf_counter() - start


def time_pairs(lines: list[str]) -> float:
    start = time.perf_counter()
    for number, line in enumerate(lines):
        for name, value in PAIRS(line):
            Point(number, name, float(value), None, None)
    return time.perf_counter() - start


def time_parser(data: bytes) -> tuple[float, int]:
    parser = Parser()
    count = 0
    start = time.perf_counter()
    for chunk in chunks(data):
        count += len(parser.feed(chunk))
    count += len(parser.finish())
    return time.perf_counter() - start, count


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--lines", type=int, default=60_000)
    data = output(arguments.parse_args().lines)
    splitter = LineSplitter()
    lines = [text for chunk in chunks(data) for text, _ in splitter.feed(chunk) if text.strip()]
    pairs, parsed, ratios, records = [], [], [], 0
    for _ in range(5):
        pairs.append(time_pairs(lines))
        seconds, records = time_parser(data)
        parsed.append(seconds)
        ratios.append(pairs[-1] / seconds)
    ratio = statistics.median(ratios)
    print(f"{len(lines)} lines, {len(data) / 1e6:.1f} MB, {records} records")
    for name, seconds in (("first loss only", time_bare(lines)), ("split only", time_split(data))):
        print(f"{name:16} {len(lines) / seconds:12,.0f} lines/s")
    print(f"{'bare expression':16} {len(lines) / min(pairs):12,.0f} lines/s")
    print(f"{'parser':16} {len(lines) / min(parsed):12,.0f} lines/s, {records / min(parsed):,.0f} records/s")
    print(f"{'ratio':16} {ratio:12.3f} (goal: {GOAL}; single runs {min(ratios):.3f} to {max(ratios):.3f})")
    print(json.dumps({"benchmark": "parse", "value": round(ratio, 3), "goal": GOAL, "met": ratio >= GOAL}))


if __name__ == "__main__":
    main()
