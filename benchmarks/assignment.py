"""How even is the load of parameter servers under PAA, compared with what MXNet and TensorFlow do by default?

    python benchmarks/assignment.py

Five models, their arrays generated from the architecture, on 2 to 20 servers. The ratio is that of the parameters of
the fullest server, ours to the better default's in the same run; the value is the largest of the five models' means.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator

from optimus_core.scheduling.parameter_assignment import DEFAULTS, Assignment, Block, assign, mxnet, paa

GOAL = 1.0
"""Below this every model is better off than with the better default."""
SERVERS = range(2, 21)
Shapes = Iterator[tuple[str, tuple[int, ...]]]


def resnet50() -> list[Block]:
    """Return the 161 arrays of ResNet-50 (He et al., CVPR 2016), keyed as gluon's Trainer keys them."""
    shapes = list(_resnet50())
    counted = [name for name, _ in shapes]
    for name in list(counted):
        if name.endswith("beta"):  # gluon counts the running statistics, which no server holds
            counted += [name.replace("beta", "running_mean"), name.replace("beta", "running_var")]
    keys = {name: key for key, name in enumerate(sorted(counted))}
    return [Block(name, math.prod(shape), keys[name]) for name, shape in shapes]


def _resnet50() -> Shapes:
    yield from _normed("conv0", "batchnorm0", (64, 3, 7, 7))
    inputs = 64
    for stage, (units, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 1):
        number = 0
        for unit in range(units):
            bottleneck = [(width, inputs, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]
            shortcut = [(4 * width, inputs, 1, 1)] if unit == 0 else []
            for shape in bottleneck + shortcut:
                yield from _normed(f"stage{stage}_conv{number}", f"stage{stage}_batchnorm{number}", shape)
                number += 1
            inputs = 4 * width
    yield "dense0_weight", (1000, 2048)
    yield "dense0_bias", (1000,)


def _normed(conv: str, norm: str, shape: tuple[int, ...]) -> Shapes:
    yield f"{conv}_weight", shape
    yield f"{norm}_gamma", shape[:1]
    yield f"{norm}_beta", shape[:1]


def vgg16() -> list[Block]:
    """Return the arrays of VGG-16 (Simonyan and Zisserman, ICLR 2015)."""
    widths = (3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
    convs = [(out, into, 3, 3) for into, out in itertools.pairwise(widths)]
    return _biased([*convs, (4096, 25088), (4096, 4096), (1000, 4096)])


def alexnet() -> list[Block]:
    """Return the arrays of AlexNet in one column (Krizhevsky, 2014)."""
    convs = [(64, 3, 11, 11), (192, 64, 5, 5), (384, 192, 3, 3), (256, 384, 3, 3), (256, 256, 3, 3)]
    return _biased([*convs, (4096, 9216), (4096, 4096), (1000, 4096)])


def mobilenet() -> list[Block]:
    """Return the arrays of MobileNet v1 (Howard et al., 2017)."""
    shapes = list(_normed("conv", "conv_norm", (32, 3, 3, 3)))
    widths = (32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
    for layer, (into, out) in enumerate(itertools.pairwise(widths)):
        shapes += _normed(f"depth{layer}", f"depth{layer}_norm", (into, 1, 3, 3))
        shapes += _normed(f"point{layer}", f"point{layer}_norm", (out, into, 1, 1))
    shapes += [("dense_weight", (1000, 1024)), ("dense_bias", (1000,))]
    return [Block(name, math.prod(shape)) for name, shape in shapes]


def bert() -> list[Block]:
    """Return the arrays of BERT-base's encoder with its embeddings (Devlin et al., NAACL 2019)."""
    layer = [(768, 768)] * 4 + [(3072, 768), (768, 3072)]
    norms = [Block(f"norm{i}_{part}", 768) for i in range(25) for part in ("gamma", "beta")]
    embeddings = [Block("words", 30522 * 768), Block("positions", 512 * 768), Block("types", 2 * 768)]
    return [*embeddings, *_biased(layer * 12), *norms]


def _biased(shapes: list[tuple[int, ...]]) -> list[Block]:
    made = []
    for layer, shape in enumerate(shapes):
        made += [Block(f"layer{layer:03}_weight", math.prod(shape)), Block(f"layer{layer:03}_bias", shape[0])]
    return made


MODELS = {"ResNet-50": resnet50, "VGG-16": vgg16, "AlexNet": alexnet, "MobileNet": mobilenet, "BERT-base": bert}


def _line(servers: int, each: Assignment) -> str:
    return (
        f"  {servers:2} servers, {each.method:10}: spread {each.spread:>11,}, "
        f"{sum(each.requests)} requests, request spread {each.request_spread}"
    )


def ratios(blocks: list[Block]) -> list[float]:
    """Return, for each number of servers, our fullest server to that of the better default."""
    made = [(assign(blocks, p), [default(blocks, p) for default in DEFAULTS]) for p in SERVERS]
    return [max(ours.loads) / min(max(each.loads) for each in defaults) for ours, defaults in made]


def main() -> int:
    """Print the figures and the result."""
    print("ResNet-50, as PAA and as stock MXNet cut it")
    for method in (paa, mxnet):
        print(_line(10, method(resnet50(), 10)))
    found = {name: ratios(model()) for name, model in MODELS.items()}
    means = {name: math.exp(sum(map(math.log, each)) / len(each)) for name, each in found.items()}
    for name, each in found.items():
        print(f"{name}: fullest server {means[name]:.3f} of the better default's on average, at worst {max(each):.3f}")
    worst = max(means.values())
    met = worst < GOAL
    print(json.dumps({"benchmark": "assignment", "value": round(worst, 4), "goal": GOAL, "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
