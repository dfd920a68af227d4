# SPDX-License-Identifier: MIT
"""Isomer in PyTorch. The import loads the library, registers the backend "isomer" of torch.distributed, and starts
nothing:

    import isomer_shmem
    torch.distributed.init_process_group("isomer")
"""
import os

from ._lib import IsomerError, load

__path__.append(os.path.join(__path__[0], "adapters"))  # isomer_shmem.fsdp and its like; loaded when first named
__version__ = "0.2.0"
__all__ = ["IsomerError", "load"]


def __getattr__(name):
    if name in ("deepspeed", "fsdp", "inference", "nvshmem", "triton", "vllm"):
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


try:
    import torch.distributed as _dist
except ImportError:  # the library can be loaded and described without torch
    _dist = None
if _dist is not None and _dist.is_available():
    from . import _environment, _lib

    _environment.prepare_hip()
    _environment.take_ranks()
    from .memory import (Handle, Place, barrier, empty, fetch, free, get, keep, memory_stats, peer, place, put,
                         put_signal, quiet, resume, signal, suspend, synchronize, wait, zeros)
    from .pg import IsomerGroup, background, get_reconfigure_handle, prepare, reconfigure, register, shrink
    from .pool import mem_pool
    from .window import Window, new_window

    __all__ += ["Handle", "IsomerGroup", "Place", "Window", "background", "barrier", "empty", "fetch", "free", "get",
                "get_reconfigure_handle", "keep", "mem_pool", "memory_stats", "new_window", "peer", "place", "prepare",
                "put", "put_signal", "quiet", "reconfigure", "register", "resume", "shrink", "signal", "suspend",
                "synchronize", "wait", "zeros"]
    register()
    _lib.load_early()
