"""What runs beside a training script: reports, checkpoints, the request to stop and the share of the data.

It needs nothing but Python 3.8 and its standard library, so it works in any image. A script that is started
by hand, without Optimus, behaves as the only worker of its job. Every replica runs the same script, parameter
servers too, and asks `role()` and `rank()` who it is; a worker goes on like this:

    for step, epoch, samples in optimus_train.batches(len(data), start_step):
        loss = train(data[samples])
        optimus_train.report(step, loss, epoch)
        if optimus_train.stop_requested():
            if optimus_train.rank() == 0:  # worker 0 saves for all
                with optimus_train.checkpoint(step) as folder:
                    save(folder)
            break
"""

from optimus_train.checkpoints import CheckpointMissing, checkpoint, checkpoint_step, latest_checkpoint
from optimus_train.data import batch_size, batches, job_batch_size, shard, steps_per_epoch
from optimus_train.environment import (
    Address,
    ContractError,
    address,
    attempt,
    generation,
    grace_seconds,
    job,
    rank,
    role,
    server_addresses,
    servers,
    worker_addresses,
    workers,
)
from optimus_train.output import report, total_steps
from optimus_train.stop import stop_requested

__all__ = [
    "Address",
    "CheckpointMissing",
    "ContractError",
    "address",
    "attempt",
    "batch_size",
    "batches",
    "checkpoint",
    "checkpoint_step",
    "generation",
    "grace_seconds",
    "job",
    "job_batch_size",
    "latest_checkpoint",
    "rank",
    "report",
    "role",
    "server_addresses",
    "servers",
    "shard",
    "steps_per_epoch",
    "stop_requested",
    "total_steps",
    "worker_addresses",
    "workers",
]
