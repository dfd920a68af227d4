# SPDX-License-Identifier: MIT
"""All-reduces of tensor-parallel inference, in the form that inference engines plug in:

    reduce = AllReduce(group, "cuda", max_bytes=8 << 20)
    if reduce.should_use(hidden):
        hidden = reduce.all_reduce(hidden)

All ranks of the group make the same calls in the same order. Results are the same bits on all ranks and in every run.
On a GPU calls go into torch's current stream, and may be captured into graphs: nothing is registered.
"""
import contextlib

import torch
from torch.distributed import ReduceOp

from . import _lib
from ._core import TYPES, apart, flat, new_like, overlap, plain, plain_dest, reduction_of
from ._lib import IsomerError
from ._device import streams_of
from .memory import check_device
from .pg import group_of
from .pool import pool_of

# Up to the first, it does not matter where tensors lie. In groups that span nodes, larger ones are copied to memory that
# peers read; above the second the sum is made there, too, and copied back.
PACKET_BYTES, BOTH_BYTES = 256 << 10, 4 << 20


class AllReduce:
    """Sums over one group. Collective over the group when it is made. `max_bytes`: larger tensors are not taken."""

    def __init__(self, group=None, device="cpu", max_bytes=8 << 20):
        if max_bytes <= 0:
            raise ValueError(f"isomer: AllReduce: max_bytes is {max_bytes}; it must be 1 or more")
        check_device(device)
        self._group, self.max_bytes, self._queue, self._copy = group_of(group), max_bytes, None, None
        self.device, _ = check_device(device, self._group.lease.world)
        streams = streams_of(self._group.lease.world)
        self._in_stream = streams is not None and streams.takes(torch.empty(0, device=self.device))
        if self._in_stream:
            self._start_in_stream()
        else:
            self._group.run_now("AllReduce", lambda core: core.call(_lib.SYNC))

    def _start_in_stream(self):
        """Makes the slot, the copy's memory and the kernels ready, so that the first call may be in a capture."""
        self._queue = self._group.queue()
        self._queue.prepare()
        if self.max_bytes > PACKET_BYTES and not self._group.lease.pairs.is_near:
            nbytes = -(-self.max_bytes // 16) * 16
            self._copy = pool_of(self._group.lease.world, self.device).take((nbytes,), torch.uint8)
        sizes = {1, min(self.max_bytes, 2 * PACKET_BYTES)}
        values = [torch.zeros(size, dtype=torch.uint8, device=self._queue.streams.device) for size in sizes]
        for each in values:
            self.all_reduce(each, each)
        self._queue.synchronize()

    def should_use(self, tensor):
        """Whether all_reduce takes such a tensor. Follows from type, size and device alone, so that all ranks say the
        same; layout and alignment do not matter."""
        return (self._group is not None and self.device.type == tensor.device.type and
                tensor.layout is torch.strided and tensor.dtype in TYPES and 0 < tensor.nbytes <= self.max_bytes)

    def all_reduce(self, tensor, out=None):
        """The sum of all ranks' tensors, in `out` or in a new tensor; `out` may be the tensor. None where should_use
        says no: another way must be taken, as inference engines expect it. On a GPU, calls of one object are in one
        stream at a time: others wait for it (torch.cuda.Stream.wait_stream)."""
        if self._group is None:
            raise IsomerError("this AllReduce is closed")
        if not self.should_use(tensor):
            return None
        if out is None:
            out = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        if out.shape != tensor.shape or out.dtype != tensor.dtype or not out.is_contiguous():
            raise ValueError(f"isomer: all_reduce: out is {out.dtype} of {tuple(out.shape)}; it must be contiguous, "
                             f"{tensor.dtype} of {tuple(tensor.shape)}")
        reduction = reduction_of(ReduceOp.SUM, tensor.dtype)
        if self._in_stream:
            return self._enqueue(tensor, out, reduction)
        source, dest = flat(tensor), plain(out)
        if source.data_ptr() != dest.data_ptr() and overlap(source, dest):
            source = source.clone()
        self._group.run_now("all_reduce", lambda core: core.call(
            _lib.ALLREDUCE, dest.data_ptr(), source.data_ptr(), source.numel(), reduction.type, reduction.op))
        if dest.data_ptr() != out.data_ptr():
            out.copy_(dest)
        return out

    def _enqueue(self, tensor, out, reduction):
        """The way follows from the size alone, as on all ranks: large tensors are as peers do not reach them, or one is
        the copy. So tensors here may be anywhere; those that peers reach on all ranks go faster by the group."""
        self._queue.streams.check("all_reduce", tensor)
        self._queue.run("all_reduce", lambda core: self._call(core, tensor, out, reduction), [], None, False)
        return out

    def _call(self, core, tensor, out, reduction):
        is_large = tensor.nbytes > PACKET_BYTES
        if is_large and self._copy is not None:
            source = self._copy[:tensor.nbytes].view(tensor.dtype)
            source.view(tensor.shape).copy_(tensor)
            dest = source.view(out.shape) if tensor.nbytes > BOTH_BYTES else plain_dest(out, core.new)
        else:
            source, dest = plain(tensor, core.new), plain_dest(out, core.new)
            if source.data_ptr() != dest.data_ptr():
                source = apart(source, [out], core.new)
            if is_large and core.is_reachable(source):
                source = core.keep(source.clone())
            if is_large and core.is_reachable(dest):
                dest = core.keep(new_like(dest))
        core.call(_lib.ALLREDUCE, dest.data_ptr(), source.data_ptr(), source.numel(), reduction.type, reduction.op)
        core.put_back(out, dest)

    def all_reduce_rms_norm(self, tensor, residual, weight, eps=1e-6, out=None):
        """residual becomes residual + the sum of all ranks' tensors. Returns its RMS norm over the last dimension times
        weight, in `out` or a new tensor; None where should_use(tensor) says no, with nothing changed.

        This is composed of the all-reduce and of torch's operations, and not one kernel. The norm is computed in
        float32 and rounded once."""
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
        """A context for the capture of graphs. All is ready since this object was made, so that nothing is to be done;
        it raises where the job is broken."""
        if self._group is None:
            raise IsomerError("this AllReduce is closed")
        self._group.lease.world.check_usable()
        return contextlib.nullcontext(self)

    def close(self):
        """No more calls. Not collective; the group goes on. Graphs that were captured must not be launched any more."""
        self._group = self._queue = self._copy = None
