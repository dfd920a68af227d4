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
NORM_TYPES, NORM_HIDDEN = (torch.float32, torch.float16, torch.bfloat16), 16384  # of the kernel with the norm


def check_norm(tensor, residual, weight, out, scale, scales):
    def refuse(name, value, allowed):
        what = f"{value.dtype} of {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
        raise ValueError(f"isomer: all_reduce_rms_norm: {name} is {what}; it must be {allowed}")

    if tensor.dim() == 0:
        refuse("tensor", tensor, "of one dimension or more")
    if residual.shape != tensor.shape or residual.device != tensor.device:
        refuse("residual", residual, f"of {tuple(tensor.shape)}, as the tensor, on its device")
    if weight.shape != tensor.shape[-1:] or weight.device != tensor.device:
        refuse("weight", weight, f"of {tuple(tensor.shape[-1:])}, on the tensor's device")
    short = out.dtype is torch.float8_e4m3fn
    if out.shape != tensor.shape or out.device != tensor.device or not (short or out.dtype is residual.dtype):
        refuse("out", out, f"{residual.dtype} or torch.float8_e4m3fn of {tuple(tensor.shape)}, on the tensor's device")
    if short == (scale is None and scales is None) or (scale is not None and scales is not None):
        refuse("scale", scale, "given, or scales, for an out of torch.float8_e4m3fn alone")
    for name, value, count in (("scale", scale, 1), ("scales", scales, tensor.numel() // tensor.shape[-1])):
        if value is not None and (value.dtype is not torch.float32 or value.numel() != count or
                                  value.device != tensor.device or not value.is_contiguous()):
            refuse(name, value, f"contiguous, torch.float32 of {count} elements, on the tensor's device")
    if overlap(out, residual):
        raise ValueError("isomer: all_reduce_rms_norm: out and residual share memory; each must have its own")


def fits_kernel(tensor, residual, weight, out):
    """By types and shapes, so that all ranks say the same."""
    return (tensor.dtype in NORM_TYPES and tensor.dtype is residual.dtype and tensor.dtype is weight.dtype and
            out.dtype in (tensor.dtype, torch.float8_e4m3fn) and tensor.shape[-1] % 8 == 0 and
            tensor.shape[-1] <= NORM_HIDDEN)


def call_kernel(core, tensors, eps, scale, scales):
    def aligned(values):
        return values if values.data_ptr() % 16 == 0 else core.keep(values.clone())

    tensor, residual, weight, out = tensors
    kept, dest = aligned(plain(residual, core.new)), plain_dest(out, core.new)
    dest = dest if dest.data_ptr() % 16 == 0 else core.keep(new_like(dest))
    source, weight = aligned(plain(tensor, core.new)), aligned(plain(weight, core.new))
    if source.data_ptr() != dest.data_ptr() or source.dtype is not dest.dtype:
        source = apart(source, [dest, kept], core.new)
    weight = apart(weight, [dest, kept], core.new)
    norm = _lib.RmsNorm(kept.data_ptr(), weight.data_ptr(), tensor.shape[-1], eps, TYPES[dest.dtype],
                        scale.data_ptr() if scale is not None else None,
                        scales.data_ptr() if scales is not None else None,
                        core.keep(torch.empty_like(source)).data_ptr() if dest.dtype is not source.dtype else None)
    core.call_with_norm(norm, dest.data_ptr(), source.data_ptr(), source.numel(), TYPES[tensor.dtype])
    core.put_back(residual, kept)
    core.put_back(out, dest)


def put_norm(normed, out, scale, scales):
    """As shmemx_rms_norm_t rounds."""
    if out.dtype is not torch.float8_e4m3fn:
        return out.copy_(normed)
    if scales is not None:
        scale = scales.copy_((normed.abs().amax(-1) / 448).clamp_min(1 / (448 * 512)).view(scales.shape))
        scale = scale.view(normed.shape[:-1]).unsqueeze(-1)
    return out.copy_((normed * scale.reciprocal()).clamp(-448, 448))


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

    def all_reduce_rms_norm(self, tensor, residual, weight, eps=1e-6, out=None, scale=None, scales=None):
        """residual becomes residual + the sum of all ranks' tensors. Returns its RMS norm over the last dimension times
        weight, in `out` or a new tensor; None where should_use(tensor) says no, with nothing changed. residual and
        weight are equal on all ranks.

        An out of torch.float8_e4m3fn gets the norm / scale, which is one float32, or with `scales` the norm / what that
        gets, a float32 for each token: its largest value / 448. Norms are computed in float32 and rounded once.

        On a GPU it is one call of the library (shmemx_rms_norm_t), an all-reduce and one kernel behind it, where all are
        of one type, float32, float16 or bfloat16, and rows have a multiple of 8 elements, at most 16384. The bits of a
        token are then the same in every batch. Elsewhere it is composed of the all-reduce and of torch's operations."""
        if self._group is None:
            raise IsomerError("this AllReduce is closed")
        if not self.should_use(tensor):
            return None
        if out is None:
            out = torch.empty(tensor.shape, dtype=residual.dtype, device=tensor.device)
        check_norm(tensor, residual, weight, out, scale, scales)
        if self._in_stream and fits_kernel(tensor, residual, weight, out):
            self._queue.streams.check("all_reduce_rms_norm", tensor)
            self._queue.run("all_reduce_rms_norm", lambda core: call_kernel(
                core, (tensor, residual, weight, out), eps, scale, scales), [], None, False)
            return out
        residual.add_(self.all_reduce(tensor))
        wide = residual.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()
        return put_norm(normed, out, scale, scales)

    def capture(self):
        """A context for the capture of graphs. All is ready since this object was made, so that nothing is to be done;
        it raises where the group is broken."""
        if self._group is None:
            raise IsomerError("this AllReduce is closed")
        self._group.lease.check_usable()
        return contextlib.nullcontext(self)

    def close(self):
        """No more calls. Not collective; the group goes on. Graphs that were captured must not be launched any more."""
        self._group = self._queue = self._copy = None
