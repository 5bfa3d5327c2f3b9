"""All-reduce by PyTorch's gloo, for those who have PyTorch."""

import datetime
import importlib.util
import os

import numpy as np
from _wire import PeerLost

import optimus_train


class Gloo:
    def __init__(self, patience: float, timeout: float) -> None:
        if importlib.util.find_spec("torch") is None:
            raise SystemExit(
                "--backend gloo needs PyTorch, which is missing: pip install torch, or use --backend ring."
            )
        os.environ.setdefault("USE_LIBUV", "0")  # some builds, such as Debian's, have no libuv
        import torch

        self.torch = torch
        place = optimus_train.worker_addresses()[0]
        if not place.port:
            place = place._replace(port=29500)  # by hand, alone: any port does
        try:
            torch.distributed.init_process_group(
                "gloo",
                init_method=f"tcp://{place}",
                rank=optimus_train.rank(),
                world_size=optimus_train.workers(),
                timeout=datetime.timedelta(seconds=timeout),
            )
        except RuntimeError as error:
            raise PeerLost(f"gloo could not connect the workers: {error}") from error

    def sum(self, vector: np.ndarray) -> np.ndarray:
        """The sum of all workers' vectors."""
        tensor = self.torch.from_numpy(vector.copy())
        try:
            self.torch.distributed.all_reduce(tensor)
        except RuntimeError as error:
            raise PeerLost(f"gloo lost a worker: {error}") from error
        return tensor.numpy()
