# SPDX-License-Identifier: MIT
"""NVSHMEM's functions in kernels of Triton, Numba and other compilers, by NVSHMEM's names and without a handle:

    import isomer_shmem.nvshmem as nvshmem

    nvshmem.start()  # once, after init_process_group
    kernel[(1,)](..., extern_libs={"nvshmem": nvshmem.bitcode()})

`kernel` calls them by core.extern_elementwise, as torch.distributed._symmetric_memory does. docs/nvshmem.md says what
each function does. A module with such functions has a variable that must be filled once it has been loaded. For Triton
bitcode() installs a hook; other programs call init_module(). isomer_shmem.triton is the way without all that.
"""
import ctypes
import struct
import sys

from . import _lib
from ._lib import IsomerError

_SYMBOL = b"isomer_compat_state"  # COMPAT_SYMBOL
_state = None  # struct compat_kernels
_table = None  # the handles of teams, in device memory, which _state points to


def bitcode():
    """The file with the functions, for NVIDIA's GPUs of 8.0 and later. Triton, once it is imported, fills each module that
    has them."""
    if "triton" in sys.modules:
        sys.modules["triton"].knobs.runtime.kernel_load_end_hook.add(_triton_has_loaded)
    return _lib.device_file("isomer_nvshmem-nvptx64.bc")


def start(*groups, device="cuda"):
    """Gets ready what modules are filled with. PEs are ranks of the default group, which is team 0 of kernels; `groups`
    are the teams 1, 2 and so on, where NVSHMEM has the PEs of a node as 1 and 2. Collective over all of them; to be
    called again in a new job."""
    global _state, _table
    import torch

    from .memory import Handle
    handles = [Handle(group) for group in (None, *groups)]
    content = [ctypes.string_at(handle.address, handle.nbytes) for handle in handles]
    _table = torch.frombuffer(bytearray(b"".join(content)), dtype=torch.int64).to(device, copy=True)
    _state = struct.pack("=Q", _table.data_ptr()) + content[0]


def init_module(module):
    """Fills a loaded module: a CUmodule as a number, for instance `kernel.module` of a kernel that Triton has compiled.
    On the CPU device what dlopen gives. Not collective."""
    if _state is None:
        raise IsomerError("isomer_shmem.nvshmem.init_module: call isomer_shmem.nvshmem.start() first")
    _lib.check(_lib.load().shmemx_module_write(module, _SYMBOL, _state, len(_state)), "shmemx_module_write")


def _triton_has_loaded(module, function, name, metadata_group, hash):
    for file, path in metadata_group.items():
        if file.endswith(".ptx"):
            with open(path, "rb") as text:
                if _SYMBOL in text.read():
                    init_module(module)
