# SPDX-License-Identifier: MIT
"""Tensors over memory of the library."""
import ctypes
from ctypes import POINTER, c_int, c_uint64, c_void_p

import torch
import torch.utils.dlpack

from . import _lib
from ._device import streams_of


def tensor_at(address, nbytes, dtype):
    """One dimension of elements at an address, and the object that lives as long as any view of it."""
    memory = (ctypes.c_ubyte * nbytes).from_address(address)
    return torch.frombuffer(memory, dtype=dtype), memory


class _Tensor(ctypes.Structure):
    """DLTensor, and the rest of DLManagedTensor, of the DLPack standard."""
    _fields_ = [("data", c_void_p), ("device_type", c_int), ("device_id", c_int), ("ndim", c_int),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", POINTER(ctypes.c_int64)), ("strides", POINTER(ctypes.c_int64)), ("byte_offset", c_uint64),
                ("context", c_void_p), ("deleter", c_void_p)]


class Memory:
    """Lives as long as any tensor over the memory."""


_lent = {}  # address of a _Tensor: what lives as long as torch uses it


@ctypes.CFUNCTYPE(None, c_void_p)
def _give_back(address, lent=_lent):
    lent.pop(address, None)


_give_back_address = ctypes.cast(_give_back, c_void_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [c_void_p, ctypes.c_char_p, c_void_p]
DL_CPU, DL_CUDA, DL_ROCM = 1, 2, 10
DL_UINT, DL_FLOAT, DL_BFLOAT = 1, 2, 4
DL_CODES = {torch.uint8: DL_UINT, torch.float16: DL_FLOAT, torch.float32: DL_FLOAT, torch.float64: DL_FLOAT,
            torch.bfloat16: DL_BFLOAT}  # others are views of bytes
_Length = ctypes.c_int64 * 1
_step = _Length(1)


def tensor_over(address, nbytes, dtype, device):
    """tensor_at for any device, also for memory that another one has: torch uses it from `device`."""
    kind = DL_CPU if device.type == "cpu" else DL_ROCM if torch.version.hip else DL_CUDA
    made = dtype if dtype in DL_CODES else torch.uint8
    memory, size = Memory(), _Length(nbytes // made.itemsize)
    struct = _Tensor(address, kind, device.index or 0, 1, DL_CODES[made], 8 * made.itemsize, 1, size, _step, 0, None,
                     _give_back_address)
    place_of_struct = ctypes.addressof(struct)
    _lent[place_of_struct] = struct, size, memory
    flat = torch.utils.dlpack.from_dlpack(_new_capsule(place_of_struct, b"dltensor", None))
    return flat if made is dtype else flat.view(dtype), memory


def tensor_of(world, address, nbytes, dtype, kind):
    """A tensor over the library's memory of a kind, and what lives as long as it does."""
    if kind == _lib.DEVICE_MEMORY and world.device != "cpu":
        return tensor_over(address, nbytes, dtype, streams_of(world).device)
    return tensor_at(address, nbytes, dtype)
