"""Nine jobs that are as fast as the models of the paper were measured to be.

Source: `config_speed.txt` of github.com/pengyanghua/DL2, which the paper's first author published: samples a second of
eight models with parameter servers, by numbers of servers and workers, synchronous, the batch of the job fixed. The
paper's synchronous model was fitted to 23 to 34 of the measured sizes of each (non-negative least squares weighted by
1/time; mean relative errors 2 to 12 %, largest for ResNet-50 and one server, which was half as fast as that).

Most of them are bound by the network: with the batch fixed, a second worker halves what each computes, but not what
each sends. ResNeXt-110 is fastest with one worker and five servers (507 samples a second; 389 with five of each, 151
with five workers and one server). DSSM alone gains much from workers (462, 1,125 and 1,189).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optimus_core.simulation import Kind, TrueJob, of_kinds

_WLM = (0.0731, 0.2710, 0.1926, 0.0181, 0.0)
MEASURED = (
    Kind("resnext-110", "ps_sync", 7.0, (0.0700, 0.1025, 0.1265, 0.0171, 0.0096)),
    Kind("resnet-50", "ps_sync", 14.0, (0.1292, 0.4399, 0.5156, 0.0, 0.0)),
    Kind("inception-bn", "ps_sync", 9.0, (0.3893, 0.1156, 0.1818, 0.0169, 0.0087)),
    Kind("ndsb", "ps_sync", 1.5, (0.1283, 1.1262, 0.8716, 0.0500, 0.0)),
    Kind("cnn-rand", "ps_sync", 0.4, (0.3796, 0.3403, 0.0348, 0.0137, 0.0007)),
    Kind("dssm", "ps_sync", 0.7, (0.4857, 0.0426, 0.0, 0.0170, 0.0)),
    Kind("rnn-lstm", "ps_sync", 3.0, _WLM),
    Kind("seq2seq", "ps_sync", 6.0, (0.0640, 0.0674, 0.0296, 0.0088, 0.0)),
    Kind("deepspeech2", "ps_sync", 11.0, _WLM),
)
"""Seconds of a step that one worker computes, of what stays the same, of w/p, of w, of p.

The hours are ours. NDSB's network is taken for VGG-16, and DeepSpeech2, which was not measured, for the other recurrent
network.
"""


def measured(arrivals: Sequence[float], seed: int, asynchronous: float = 0.5) -> list[TrueJob]:
    """Return a job for each arrival, of which about the part ``asynchronous`` trains asynchronously."""
    drawn = np.random.default_rng([seed, 8]).uniform(size=len(MEASURED)) < asynchronous
    kinds = [_asynchronous(kind) if each else kind for kind, each in zip(MEASURED, drawn, strict=True)]
    return of_kinds(kinds, arrivals, seed)


def _asynchronous(kind: Kind) -> Kind:
    """Return the kind whose workers don't wait for each other: each computes a whole batch."""
    computed, same, *rest = kind.seconds
    return replace(kind, strategy="ps_async", seconds=(computed + same, *rest))
