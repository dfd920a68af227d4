# SPDX-License-Identifier: MIT
"""All-reduces of tensor-parallel inference, in the form that inference engines plug in:

    reduce = AllReduce(group, "cpu", max_bytes=8 << 20)
    if reduce.should_use(hidden):
        hidden = reduce.all_reduce(hidden)

All ranks of the group make the same calls in the same order. Results are the same bits on all ranks and in every run.
"""
import contextlib

import torch
from torch.distributed import ReduceOp

from . import _lib
from ._core import TYPES, flat, overlap, plain, reduction_of
from ._lib import IsomerError
from .memory import _check_device
from .pg import group_of


class AllReduce:
    """Sums over one group. Collective over the group when it is made. `max_bytes`: larger tensors are not taken."""

    def __init__(self, group=None, device="cpu", max_bytes=8 << 20):
        _check_device(device)
        if max_bytes <= 0:
            raise ValueError(f"isomer: AllReduce: max_bytes is {max_bytes}; it must be 1 or more")
        self._group, self.max_bytes = group_of(group), max_bytes
        self._group.run_now("AllReduce", lambda: self._group.core().call(_lib.SYNC))

    def should_use(self, tensor):
        """Whether all_reduce takes such a tensor. Follows from type, size and device alone, so that all ranks say the
        same; layout and alignment do not matter."""
        return (self._group is not None and tensor.is_cpu and tensor.layout is torch.strided and
                tensor.dtype in TYPES and 0 < tensor.nbytes <= self.max_bytes)

    def all_reduce(self, tensor, out=None):
        """The sum of all ranks' tensors, in `out` or in a new tensor; `out` may be the tensor. None where should_use
        says no: another way must be taken, as inference engines expect it."""
        if self._group is None:
            raise IsomerError("this AllReduce is closed")
        if not self.should_use(tensor):
            return None
        if out is None:
            out = torch.empty(tensor.shape, dtype=tensor.dtype)
        if out.shape != tensor.shape or out.dtype != tensor.dtype or not out.is_contiguous():
            raise ValueError(f"isomer: all_reduce: out is {out.dtype} of {tuple(out.shape)}; it must be contiguous, "
                             f"{tensor.dtype} of {tuple(tensor.shape)}")
        reduction, source = reduction_of(ReduceOp.SUM, tensor.dtype), flat(tensor)
        dest = plain(out)
        if source.data_ptr() != dest.data_ptr() and overlap(source, dest):
            source = source.clone()
        self._group.run_now("all_reduce", lambda: self._group.core().call(
            _lib.ALLREDUCE, dest.data_ptr(), source.data_ptr(), source.numel(), reduction.type, reduction.op))
        if dest.data_ptr() != out.data_ptr():
            out.copy_(dest)
        return out

    def all_reduce_rms_norm(self, tensor, residual, weight, eps=1e-6, out=None):
        """residual becomes residual + the sum of all ranks' tensors. Returns its RMS norm over the last dimension times
        weight, in `out` or a new tensor; None where should_use(tensor) says no, with nothing changed.

        On the CPU this is composed of the all-reduce and of torch's operations, and not one kernel. The norm is
        computed in float32 and rounded once."""
        total = self.all_reduce(tensor)
        if total is None:
            return None
        residual.add_(total)
        wide = residual.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()
        if out is None:
            return normed.to(residual.dtype)
        return out.copy_(normed)

    def capture(self):
        """A context for the capture of a graph. The CPU has no graphs: nothing is to be done."""
        return contextlib.nullcontext(self)

    def close(self):
        """No more calls. Not collective; the group goes on."""
        self._group = None
