# SPDX-License-Identifier: MIT
"""Collectives of one group on tensors: kinds of elements, operators, layouts, and the calls of the library.

Each function of Core is the body of one call. It returns when the result is in place. Arguments that only this PE knows
(layout, alignment, overlap) are repaired by a local copy. All other choices follow from arguments that torch requires to
be equal on all ranks.
"""
from array import array
from ctypes import addressof

import torch
from torch.distributed import ReduceOp

from . import _lib
from ._lib import Coll, HostBlocks

TYPES = {torch.bool: _lib.BOOL, torch.uint8: _lib.UINT8, torch.int8: _lib.INT8, torch.uint16: _lib.UINT16,
         torch.int16: _lib.INT16, torch.uint32: _lib.UINT32, torch.int32: _lib.INT32, torch.uint64: _lib.UINT64,
         torch.int64: _lib.INT64, torch.float32: _lib.FLOAT, torch.float64: _lib.DOUBLE, torch.float16: _lib.HALF,
         torch.bfloat16: _lib.BFLOAT16, torch.complex64: _lib.COMPLEXF, torch.complex128: _lib.COMPLEXD,
         torch.float8_e4m3fn: _lib.FLOAT8_E4M3, torch.float8_e5m2: _lib.FLOAT8_E5M2}
FLOAT8 = (_lib.FLOAT8_E4M3, _lib.FLOAT8_E5M2)
REAL = (_lib.FLOAT, _lib.DOUBLE, _lib.HALF, _lib.BFLOAT16) + FLOAT8
COMPLEX = (_lib.COMPLEXF, _lib.COMPLEXD)
OPERATORS = {"SUM": _lib.SUM, "AVG": _lib.AVG, "PRODUCT": _lib.PROD, "MIN": _lib.MIN, "MAX": _lib.MAX,
             "BAND": _lib.AND, "BOR": _lib.OR, "BXOR": _lib.XOR, "PREMUL_SUM": _lib.SUM}
NAMES = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")


def is_plain(tensor):
    """Its memory holds its elements in their order, and at multiples of their parts."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg() and (
        tensor.data_ptr() % tensor.element_size() == 0 or tensor.is_complex())


def new_like(tensor, shape=None):
    """Memory on the tensor's device, with its type."""
    return torch.empty(tensor.shape if shape is None else shape, dtype=tensor.dtype, device=tensor.device)


def plain(tensor, new=new_like):
    """The tensor, without a gradient, or a copy that is plain."""
    if is_plain(tensor):
        return tensor.detach() if tensor.requires_grad else tensor
    return new(tensor).copy_(tensor.detach())


def copy_into(tensor, values):
    """values become the contents of the caller's tensor, whatever its layout, and inference tensors too."""
    if values is not tensor and values.data_ptr() != tensor.data_ptr() and tensor.numel():
        if values.shape != tensor.shape:
            values = values.view(tensor.shape)
        if tensor.is_inference():
            with torch.inference_mode():
                tensor.detach().copy_(values)
        else:
            (tensor.detach() if tensor.requires_grad else tensor).copy_(values)


def flat(tensor):
    """The elements in one dimension, by a view or a copy."""
    return plain(tensor.detach()).view(-1)


def overlap(a, b):
    return a.data_ptr() < b.data_ptr() + b.nbytes and b.data_ptr() < a.data_ptr() + a.nbytes


class Reduction:
    """What the library does for one of torch's operators on one type, and what is left to do here."""

    def __init__(self, op, dtype):
        self.name = next((name for name in NAMES if op == getattr(ReduceOp, name)), str(op))
        if dtype not in TYPES or self.name not in OPERATORS:
            raise NotImplementedError(f"isomer: reductions by {self.name} do not take {dtype}; cast the tensor first")
        self.type, self.op, self.factor = TYPES[dtype], OPERATORS[self.name], None
        self.divides = False
        if self.name == "PREMUL_SUM":
            self.factor = op.__getstate__()[1]  # torch before 2.12 has no op.factor
        if self.name == "AVG" and self.type in COMPLEX:
            self.op, self.divides = _lib.SUM, True
        if not self._is_possible():
            raise NotImplementedError(f"isomer: reductions by {self.name} do not take {dtype}")

    def _is_possible(self):
        if self.name == "AVG":
            return self.type in REAL or self.divides
        if self.name == "PREMUL_SUM":
            return (self.type in REAL and self.type not in FLOAT8) or self.type in COMPLEX
        if self.type in COMPLEX:
            return self.op in (_lib.SUM, _lib.PROD)
        return self.type not in REAL or self.op not in (_lib.AND, _lib.OR, _lib.XOR)


_made = {hash(getattr(ReduceOp, name)): {} for name in NAMES[:-1]}  # by operator, whose hash is its number, and type


def reduction_of(op, dtype):
    """The Reduction, made once for operators without a factor."""
    try:
        return _made[hash(op)][dtype]
    except KeyError:
        return _made.get(hash(op), {}).setdefault(dtype, Reduction(op, dtype))


class Core:
    """A team (its lease, or a Pair) and the calls on it. Only its Sequence calls it, one call at a time."""

    def __init__(self, lease):
        self.lease, self.world = lease, lease.world
        self.n = len(lease.pes)
        self.me = lease.pes.index(self.world.pe)
        self._coll_on_host = lease.world.lib.shmemx_coll_on_host
        self._args = Coll(team=lease.team, scale=1.0)  # one call at a time
        self._args_address, self._team = addressof(self._args), self._args.team or 0
        self._write = _lib.COLL_HEAD.pack_into
        self._lists = array("Q", bytes(4 * 8 * self.n))  # what _blocks points to, one behind the other
        start, step = self._lists.buffer_info()[0], 8 * self.n
        self._blocks = HostBlocks(start, start + step, start + 2 * step, start + 3 * step)

    def call(self, kind, dest=0, source=0, nelems=0, type=_lib.UINT8, op=0, root=0):
        """One call of the library, to its end. dest and source are addresses."""
        if self.lease.broken is not None:
            self.lease.check_usable()
        self._write(self._args, 0, kind, self._team, dest, source, nelems, type, op, root)
        status = self._coll_on_host(self._args_address)
        if status:
            self.lease.check_call(status)

    new = staticmethod(new_like)  # memory for copies

    def _plain(self, tensor):
        """plain(), without the alignment, which the library does not need on the host."""
        if tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj():
            return tensor.detach() if tensor.requires_grad else tensor
        return plain(tensor, self.new)

    def settle(self):
        """The results of call() are there for torch's operations."""

    def put_back(self, tensor, values):
        """values, that a call has made, become the contents of the caller's tensor."""
        if values is not tensor:
            self.settle()
            copy_into(tensor, values)

    def keep(self, tensor):
        """Memory that a call uses, and no one else has."""
        return tensor

    def _copy(self, values):
        return self.new(values).copy_(values)

    def _source(self, reduction, tensor):
        """What is reduced: factors may differ between ranks, so each multiplies its own values."""
        values = self._plain(tensor)
        return values if reduction.factor is None else self.keep((values * reduction.factor).to(values.dtype))

    def _finish(self, reduction, values):
        if reduction.divides:
            self.settle()
            values.div_(self.n)

    # ---- moves: bytes, whatever the type ----

    def broadcast(self, tensor, root):
        values = plain(tensor, self.new)
        self.call(_lib.BROADCAST, values.data_ptr(), values.data_ptr(), values.nbytes, root=root)
        if self.me != root:  # which only reads, so its tensor may be an expanded one
            self.put_back(tensor, values)

    def exchange(self, outputs, tensors):
        """tensors[m] goes to outputs[this member] of member m, in one call without a copy in between. Lists of plain
        tensors with one entry for each member; None: nothing goes or comes."""
        source, dest = self._list(tensors, 0), self._list(outputs, 2 * self.n)
        self._exchange(dest, source)

    def _exchange(self, dest, source):
        self._args.host_blocks = addressof(self._blocks)
        try:
            self.call(_lib.ALLTOALLV, dest, source)
        finally:
            self._args.host_blocks = None

    def _list(self, tensors, at):
        """Writes the sizes of the tensors and their places behind the lowest one, whose address it returns."""
        blocks = [(tensor.data_ptr(), tensor.nbytes) if tensor is not None else (0, 0) for tensor in tensors]
        base = min((address for address, nbytes in blocks if nbytes), default=0)
        for index, (address, nbytes) in enumerate(blocks, at):
            self._lists[index] = nbytes
            self._lists[index + self.n] = address - base if nbytes else 0
        return base

    def all_gather_single(self, output, tensor):
        values, result = plain(tensor, self.new), plain_dest(output, self.new)
        own = result.data_ptr() + self.me * values.nbytes
        if values.data_ptr() != own and overlap(values, result):
            values = self._copy(values)
        self.call(_lib.FCOLLECT, result.data_ptr(), values.data_ptr(), values.nbytes)
        self.put_back(output, result)

    def lists(self, outputs, tensors):
        """exchange() of tensors of any layout, which may overlap."""
        results = [plain_dest(output, self.new) if output is not None else None for output in outputs]
        values = [plain(tensor, self.new) if tensor is not None else None for tensor in tensors]
        values = [apart(value, results, self.new) for value in values]
        self.exchange(results, values)
        for output, result in zip(outputs, results):
            if output is not None:
                self.put_back(output, result)

    def all_gather(self, outputs, tensor):
        """outputs[m] has the size of member m's tensor; sizes may differ between members."""
        self.lists(outputs, [apart(plain(tensor, self.new), outputs, self.new)] * self.n)

    def gather(self, outputs, tensor, root):
        self.lists(outputs if self.me == root else [None] * self.n,
                   [tensor if member == root else None for member in range(self.n)])

    def scatter(self, output, tensors, root):
        self.lists([output if member == root else None for member in range(self.n)],
                   tensors if self.me == root else [None] * self.n)

    def all_to_all_single(self, output, tensor, output_sizes, input_sizes):
        """Elements for each member, of any numbers."""
        result = plain_dest(output, self.new)
        values = apart(plain(tensor, self.new), [result], self.new)
        self._ranges(values, input_sizes, 0)
        self._ranges(result, output_sizes, 2 * self.n)
        self._exchange(result.data_ptr(), values.data_ptr())
        self.put_back(output, result)

    def _ranges(self, tensor, sizes, at):
        """As _list, for ranges of a tensor's elements, one behind the other."""
        place, elem_bytes = 0, tensor.element_size()
        for index, size in enumerate(sizes, at):
            self._lists[index], self._lists[index + self.n] = size * elem_bytes, place
            place += size * elem_bytes

    # ---- reductions ----

    def all_reduce(self, tensor, reduction):
        values = self._source(reduction, tensor)
        address = values.data_ptr()
        self.call(_lib.ALLREDUCE, address, address, values.numel(), reduction.type, reduction.op)
        if reduction.divides:
            self._finish(reduction, values)
        if values is not tensor:
            self.put_back(tensor, values)

    def reduce(self, output, tensor, reduction, root):
        """The root's output, which may be its tensor, becomes the reduction of all members' tensors."""
        values = self._source(reduction, tensor)
        if self.me != root:
            self.call(_lib.REDUCE, 0, values.data_ptr(), values.numel(), reduction.type, reduction.op, root)
            return
        result = plain_dest(output, self.new)
        if overlap(values, result) and values.data_ptr() != result.data_ptr():
            values = self._copy(values)
        self.call(_lib.REDUCE, result.data_ptr(), values.data_ptr(), values.numel(), reduction.type, reduction.op, root)
        self._finish(reduction, result)
        self.put_back(output, result)

    def reduce_scatter_single(self, output, tensor, reduction):
        values, result = self._source(reduction, tensor), plain_dest(output, self.new)
        own = values.data_ptr() + self.me * result.nbytes
        if result.data_ptr() != own and overlap(values, result):
            values = self._copy(values)
        self.call(_lib.REDUCESCATTER, result.data_ptr(), values.data_ptr(), result.numel(), reduction.type,
                  reduction.op)
        self._finish(reduction, result)
        self.put_back(output, result)

    def reduce_scatter(self, output, tensors, reduction):
        """tensors[m] has the size of member m's output; sizes may differ between members."""
        if all(tensor.numel() == output.numel() for tensor in tensors):
            self.reduce_scatter_single(output, joined(tensors, self.new), reduction)
            return
        values = [apart(plain(tensor, self.new), [output], self.new) for tensor in tensors]
        for member, tensor in enumerate(values):
            self.reduce(output, tensor, reduction, member)

    def barrier(self):
        self.call(_lib.SYNC)


def plain_dest(tensor, new=new_like):
    """The tensor, without a gradient, or new memory for its contents."""
    if is_plain(tensor):
        return tensor.detach() if tensor.requires_grad else tensor
    return new(tensor)


def apart(values, others, new=new_like):
    """values, or a copy where memory of one of the others is touched."""
    if any(other is not None and values is not None and overlap(values, other) for other in others):
        return new(values).copy_(values)
    return values


def joined(tensors, new=new_like):
    """The tensors of one size, one behind the other: a view where they lie so."""
    first = tensors[0]
    step, storage = first.nbytes, first.untyped_storage().data_ptr()
    if all(is_plain(tensor) and tensor.data_ptr() == first.data_ptr() + index * step and
           tensor.untyped_storage().data_ptr() == storage for index, tensor in enumerate(tensors)):
        return first.detach().as_strided((len(tensors) * first.numel(),), (1,))
    rows = new(first, (len(tensors), first.numel()))
    for row, tensor in zip(rows, tensors):
        row.copy_(flat(tensor))
    return rows
