# SPDX-License-Identifier: MIT
"""vLLM. With ISOMER_VLLM=1 in its environment, the all-reduces of tensor parallelism are Isomer's where it takes the
tensor, and vLLM's own ways elsewhere. vLLM calls register() in each process, by its entry point "vllm.general_plugins".
    ISOMER_VLLM_MAX_BYTES   larger tensors stay with vLLM (8388608); the same on all ranks
"""
import functools
import importlib
import os
import warnings

import torch.distributed as dist

from .inference import AllReduce
from .pg import group_of

MAX_BYTES = 8 << 20
FOLDER = "vllm.distributed.device_communicators"
COMMUNICATORS = (("cuda_communicator", "CudaCommunicator"), ("cpu_communicator", "CpuCommunicator"))


def max_bytes():
    text = os.environ.get("ISOMER_VLLM_MAX_BYTES", str(MAX_BYTES))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"ISOMER_VLLM_MAX_BYTES is '{text}'; it must be a number of bytes, 1 or more")
    return int(text)


def register():
    """Has communicators that vLLM makes from now on use Isomer. Does nothing without ISOMER_VLLM=1. Not collective."""
    if os.environ.get("ISOMER_VLLM") != "1":
        return
    max_bytes()  # a wrong value is said here
    found = []
    for module, name in COMMUNICATORS:
        try:
            found.append(getattr(importlib.import_module(f"{FOLDER}.{module}"), name))
        except (ImportError, AttributeError):
            continue  # vLLM without this device
    if not found:
        warnings.warn(f"ISOMER_VLLM=1: this vLLM has none of {', '.join(name for _, name in COMMUNICATORS)} in "
                      f"{FOLDER}; all-reduces stay vLLM's")
    for communicator in found:
        if not hasattr(communicator, "_isomer_shmem"):
            _wrap(communicator)


def _wrap(communicator):
    make, all_reduce, destroy = communicator.__init__, communicator.all_reduce, communicator.destroy

    @functools.wraps(make)
    def init(self, *args, **options):
        make(self, *args, **options)
        self._isomer_shmem = _reduce_for(self)

    @functools.wraps(all_reduce)
    def reduce(self, tensor):
        ours = self._isomer_shmem
        total = ours.all_reduce(tensor) if ours is not None else None
        return all_reduce(self, tensor) if total is None else total

    @functools.wraps(destroy)
    def end(self):
        if self._isomer_shmem is not None:
            self._isomer_shmem.close()
            self._isomer_shmem = None
        destroy(self)

    communicator._isomer_shmem = None
    communicator.__init__, communicator.all_reduce, communicator.destroy = init, reduce, end


def _reduce_for(communicator):
    """An AllReduce for a group of tensor parallelism, else None. All ranks of the job make one such communicator at the
    same time, so that the first one may start the job of all."""
    if "tp" not in communicator.unique_name or communicator.world_size < 2:
        return None
    group_of(None)
    if dist.get_world_size(communicator.cpu_group) == dist.get_world_size():
        return AllReduce(None, communicator.device, max_bytes())
    return AllReduce(communicator.cpu_group, communicator.device, max_bytes())
