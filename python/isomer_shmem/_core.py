# SPDX-License-Identifier: MIT
"""Collectives of one group on tensors: kinds of elements, operators, layouts, and the calls of the library.

Each function of Core is the body of one call. It returns when the result is in place. Arguments that only this PE knows
(layout, alignment, overlap) are repaired by a local copy. All other choices follow from arguments that torch requires to
be equal on all ranks.
"""
from ctypes import byref, c_void_p

import torch
from torch.distributed import ReduceOp

from . import _lib
from ._lib import Coll, IsomerError

TYPES = {torch.bool: _lib.UINT8, torch.uint8: _lib.UINT8, torch.int8: _lib.INT8, torch.uint16: _lib.UINT16,
         torch.int16: _lib.INT16, torch.uint32: _lib.UINT32, torch.int32: _lib.INT32, torch.uint64: _lib.UINT64,
         torch.int64: _lib.INT64, torch.float32: _lib.FLOAT, torch.float64: _lib.DOUBLE, torch.float16: _lib.HALF,
         torch.bfloat16: _lib.BFLOAT16, torch.complex64: _lib.COMPLEXF, torch.complex128: _lib.COMPLEXD}
REAL = (_lib.FLOAT, _lib.DOUBLE, _lib.HALF, _lib.BFLOAT16)
COMPLEX = (_lib.COMPLEXF, _lib.COMPLEXD)
OPERATORS = {"SUM": _lib.SUM, "AVG": _lib.AVG, "PRODUCT": _lib.PROD, "MIN": _lib.MIN, "MAX": _lib.MAX,
             "BAND": _lib.AND, "BOR": _lib.OR, "BXOR": _lib.XOR, "PREMUL_SUM": _lib.SUM}
NAMES = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")


def is_plain(tensor):
    """Its memory holds its elements in their order, and at multiples of their parts."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg() and (
        tensor.data_ptr() % tensor.element_size() == 0 or tensor.is_complex())


def plain(tensor):
    """The tensor, or a copy that is plain."""
    if is_plain(tensor):
        return tensor
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    return copy.copy_(tensor.detach())


def copy_into(tensor, values):
    """values become the contents of the caller's tensor, whatever its layout, and inference tensors too."""
    if values is not tensor and tensor.numel():
        with torch.inference_mode(tensor.is_inference()):
            tensor.detach().copy_(values.view(tensor.shape))


def flat(tensor):
    """The elements in one dimension, by a view or a copy."""
    return plain(tensor.detach()).view(-1)


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def overlap(a, b):
    return a.data_ptr() < b.data_ptr() + bytes_of(b) and b.data_ptr() < a.data_ptr() + bytes_of(a)


class Reduction:
    """What the library does for one of torch's operators on one type, and what is left to do here."""

    def __init__(self, op, dtype):
        self.name = next((name for name in NAMES if op == getattr(ReduceOp, name)), str(op))
        if dtype not in TYPES or self.name not in OPERATORS:
            raise NotImplementedError(f"isomer: reductions by {self.name} do not take {dtype}; cast the tensor first")
        self.type, self.op, self.factor = TYPES[dtype], OPERATORS[self.name], None
        self.divides = False
        if self.name == "PREMUL_SUM":
            self.factor = op.factor
        if dtype == torch.bool:
            self._be_logical()
        if self.name == "AVG" and self.type in COMPLEX:
            self.op, self.divides = _lib.SUM, True
        if not self._is_possible():
            raise NotImplementedError(f"isomer: reductions by {self.name} do not take {dtype}")

    def _be_logical(self):
        """A sum of bools is their OR, a product their AND, as NCCL has it."""
        self.op = {"SUM": _lib.MAX, "PRODUCT": _lib.MIN}.get(self.name, self.op)

    def _is_possible(self):
        if self.name == "AVG":
            return self.type in REAL or self.divides
        if self.name == "PREMUL_SUM":
            return self.type in REAL or self.type in COMPLEX
        if self.type in COMPLEX:
            return self.op in (_lib.SUM, _lib.PROD)
        return self.type not in REAL or self.op not in (_lib.AND, _lib.OR, _lib.XOR)

    def source(self, values):
        """What is reduced: factors may differ between ranks, so each multiplies its own values."""
        return values if self.factor is None else (values * self.factor).to(values.dtype)

    def finish(self, values, members):
        if self.divides:
            values.div_(members)


class Core:
    """A team, a stream and the calls on them. Only the group's Sequence calls it, one call at a time."""

    def __init__(self, lease):
        self.lease, self.world, self.lib = lease, lease.world, lease.world.lib
        self.n = len(lease.pes)
        self.me = lease.pes.index(self.world.pe)
        self.stream = c_void_p()
        _lib.check(self.lib.shmemx_stream_create(byref(self.stream)), "shmemx_stream_create")

    def close(self):
        if self.stream is not None:
            self.lib.shmemx_stream_destroy(self.stream)
            self.stream = None

    def call(self, kind, dest=None, source=None, nelems=0, type=_lib.UINT8, op=0, root=0):
        """One call of the library, to its end."""
        self.world.check_usable()
        call = Coll(kind=kind, team=self.lease.team, dest=dest.data_ptr() if dest is not None else None,
                    source=source.data_ptr() if source is not None else None, nelems=nelems, type=type, op=op,
                    root=root, scale=1.0)
        status = self.lib.shmemx_coll_on_stream(byref(call), self.stream) or self.lib.shmemx_stream_synchronize(self.stream)
        if status != 0:
            self.lib.shmemx_status(self.lease.team, call.slot, None)  # its sentence has the reason
            sentence = self.world.broken or _lib.text_of(self.lib.shmemx_error_text) or "a wait gave up"
            self.world.abort(sentence)
            raise IsomerError(sentence)

    # ---- moves: bytes, whatever the type ----

    def broadcast(self, tensor, root):
        values = plain(tensor)
        self.call(_lib.BROADCAST, values, values, bytes_of(values), root=root)
        copy_into(tensor, values)

    def gathered(self, values):
        """All members' values, one row for each. All have equally many."""
        rows = torch.empty((self.n, values.numel()), dtype=values.dtype)
        self.call(_lib.FCOLLECT, rows, values, bytes_of(values))
        return rows

    def all_gather_single(self, output, tensor):
        values, result = plain(tensor), plain_dest(output)
        own = result.data_ptr() + self.me * bytes_of(values)
        if overlap(values, result) and values.data_ptr() != own:
            values = values.clone()
        self.call(_lib.FCOLLECT, result, values, bytes_of(values))
        copy_into(output, result)

    def all_gather(self, outputs, tensor):
        """outputs[m] has the size of member m's tensor; sizes may differ between members."""
        most = max(output.numel() for output in outputs)
        rows = self.gathered(padded(flat(tensor), most))
        for output, row in zip(outputs, rows):
            copy_into(output, row[:output.numel()])

    def gather(self, outputs, tensor, root):
        rows = self.gathered(flat(tensor))
        if self.me == root:
            for output, row in zip(outputs, rows):
                copy_into(output, row)

    def scatter(self, output, tensors, root):
        rows = torch.empty((self.n, output.numel()), dtype=output.dtype)
        if self.me == root:
            for row, tensor in zip(rows, tensors):
                row.copy_(flat(tensor))
        self.call(_lib.BROADCAST, rows, rows, bytes_of(rows), root=root)
        copy_into(output, rows[self.me])

    def all_to_all(self, outputs, tensors):
        """Flat blocks for each member, of any sizes. The members first agree on the largest and the smallest block."""
        sizes = [tensor.numel() for tensor in (*tensors, *outputs)]
        limits = torch.tensor([max(sizes), -min(sizes)])
        self.call(_lib.ALLREDUCE, limits, limits, 2, _lib.INT64, _lib.MAX)
        most = int(limits[0])
        source = torch.empty((self.n, most), dtype=tensors[0].dtype)
        for row, tensor in zip(source, tensors):
            row[:tensor.numel()] = tensor
        dest = torch.empty_like(source)
        self.call(_lib.ALLTOALL, dest, source, most * source.element_size())
        for row, output in zip(dest, outputs):
            copy_into(output, row[:output.numel()])

    # ---- reductions ----

    def _reduced(self, values, reduction):
        """values, which no one else sees, become their reduction over the members."""
        self.call(_lib.ALLREDUCE, values, values, values.numel(), reduction.type, reduction.op)
        reduction.finish(values, self.n)

    def all_reduce(self, tensor, reduction):
        values = reduction.source(plain(tensor))
        self._reduced(values, reduction)
        copy_into(tensor, values)

    def reduce(self, tensor, reduction, root):
        values = reduction.source(plain(tensor))
        values = values.clone() if values is tensor else values
        self._reduced(values, reduction)
        if self.me == root:
            copy_into(tensor, values)

    def reduce_scatter_single(self, output, tensor, reduction):
        values, result = reduction.source(plain(tensor)), plain_dest(output)
        own = values.data_ptr() + self.me * bytes_of(result)
        if overlap(values, result) and result.data_ptr() != own:
            values = values.clone()
        self.call(_lib.REDUCESCATTER, result, values, result.numel(), reduction.type, reduction.op)
        reduction.finish(result, self.n)
        copy_into(output, result)

    def reduce_scatter(self, output, tensors, reduction):
        """tensors[m] has the size of member m's output; sizes may differ between members."""
        most = max(tensor.numel() for tensor in tensors)
        source = torch.zeros((self.n, most), dtype=output.dtype)
        for row, tensor in zip(source, tensors):
            row[:tensor.numel()] = flat(tensor)
        result = torch.empty(most, dtype=output.dtype)
        self.reduce_scatter_single(result, source, reduction)
        copy_into(output, result[:output.numel()])

    def barrier(self):
        self.call(_lib.SYNC)


def plain_dest(tensor):
    """The tensor, or new memory for its contents."""
    return tensor if is_plain(tensor) else torch.empty(tensor.shape, dtype=tensor.dtype)


def padded(values, nelems):
    if values.numel() == nelems:
        return values
    longer = torch.zeros(nelems, dtype=values.dtype)
    longer[:values.numel()] = values
    return longer
