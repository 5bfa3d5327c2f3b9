"""Which samples are mine: the same for the job as a whole, however many workers share them.

An epoch is one permutation of the samples, drawn from (seed, epoch) and cut into batches. What a step trains
on is therefore fixed before anyone knows how many workers there will be; each batch is dealt out by rank.
"""

from __future__ import annotations

import random
from typing import Iterator, List, Tuple

from optimus_train.environment import ContractError, integer, rank, role, text, workers


def batch_size(default: int = 32) -> int:
    """How many samples this worker takes in a full step.

    OPTIMUS_BATCH_PER=job: the batch is shared, the first workers take one more if it does not divide evenly.
    OPTIMUS_BATCH_PER=worker: each worker takes the whole size. `default` is the size if none is set.
    """
    return len(range(_worker_rank(), job_batch_size(default), workers()))


def job_batch_size(default: int = 32) -> int:
    """How many samples all workers take together in a full step."""
    size = integer("OPTIMUS_BATCH_SIZE", default, least=1)
    per = text("OPTIMUS_BATCH_PER", "job")
    if per not in ("job", "worker"):
        raise ContractError("OPTIMUS_BATCH_PER is %r; it can be job or worker." % per)
    return size if per == "job" else size * workers()


def steps_per_epoch(n_samples: int, in_turn: bool = False, default: int = 32) -> int:
    """How many steps see each sample once; the last of them may be a short one. `in_turn` as in `batches`."""
    if n_samples < 1:
        raise ValueError("n_samples is %d; there is nothing to train on." % n_samples)
    return -(-n_samples // _step_size(in_turn, default))


def shard(n_samples: int, epoch: int, seed: int = 0, default: int = 32) -> List[int]:
    """This worker's samples of an epoch, in the order of the steps."""
    mine, count, size = _worker_rank(), workers(), job_batch_size(default)
    order = permutation(n_samples, epoch, seed)
    return [index for at in range(0, n_samples, size) for index in order[at : at + size][mine::count]]


def batches(
    n_samples: int, start_step: int = 0, seed: int = 0, in_turn: bool = False, default: int = 32
) -> Iterator[Tuple[int, int, List[int]]]:
    """Yields (step, epoch, this worker's samples) without end, for the steps after `start_step`.

    `start_step` is the number of steps that are done, as in a checkpoint; the first step of all is 1, the
    first epoch 0. Synchronous training shares each batch among all workers. With `in_turn` whole batches of
    OPTIMUS_BATCH_SIZE are dealt instead, the next to each worker in turn, which is what asynchronous
    training wants.
    """
    mine, count = _worker_rank(), workers()
    size, per_epoch = _step_size(in_turn, default), steps_per_epoch(n_samples, in_turn, default)
    step, stride = (start_step + 1 + mine, count) if in_turn else (start_step + 1, 1)
    drawn, order = -1, []  # type: Tuple[int, List[int]]
    while True:
        epoch, position = divmod(step - 1, per_epoch)
        if epoch != drawn:
            drawn, order = epoch, permutation(n_samples, epoch, seed)
        batch = order[position * size : (position + 1) * size]
        yield step, epoch, batch if in_turn else batch[mine::count]
        step += stride


def permutation(n_samples: int, epoch: int, seed: int = 0) -> List[int]:
    """The order of the samples in an epoch: the same on every machine and Python."""
    order = list(range(n_samples))
    random.Random("%d/%d" % (seed, epoch)).shuffle(order)
    return order


def _step_size(in_turn: bool, default: int) -> int:
    return integer("OPTIMUS_BATCH_SIZE", default, least=1) if in_turn else job_batch_size(default)


def _worker_rank() -> int:
    if role() != "worker":
        raise ContractError(
            "This replica is a %s, which runs the same command as the workers; only workers have a share of the data. "
            'Before you ask for it write such as: if optimus_train.role() == "server": serve()  # and leave; or, '
            "if the script has no parameter servers, ask for none: AllReduce() without servers." % role()
        )
    return rank()
