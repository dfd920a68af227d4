# SPDX-License-Identifier: MIT
"""torch's collectives: a row for each name by which torch calls a group. torch up to 2.12 has other names for some.

The function of a row checks the operands, and says which tensors the call reads and writes, and what is to be done:
body(core). It returns None for what gloo does. Choices follow from the call and its types alone, as on all members.
"""
from collections import namedtuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ._core import reduction_of
from ._work import AllWork, CopiedWork

STRIDED = torch.strided
# `name` in works and sentences; `prepare`; the number of operands; torch's options, which may be missing; those of
# their fields that the caller may give in their place; gloo's method, which takes the same lists, or one tensor of each.
Row = namedtuple("Row", "name prepare operands options fields gloo")


def options_of(row, given):
    """torch's options, from what stands behind the operands."""
    if given and isinstance(given[0], row.options):
        return given[0]
    options = row.options()
    for field, value in zip(row.fields, given):
        if value is not None:
            setattr(options, field, value)
    return options


def in_lists(operands):
    """Lists, where the caller gives one tensor in the place of a list."""
    if not any(isinstance(each, torch.Tensor) for each in operands):
        return operands
    return [[each] if isinstance(each, torch.Tensor) or each else [] for each in operands]


_OF_TENSOR = torch.Tensor.__torch_dispatch__


def is_wrapper(tensor):
    """Whether its elements lie in tensors that only its class knows."""
    return type(tensor).__torch_dispatch__ is not _OF_TENSOR


def unwrapped(operand):
    """What functional collectives have returned becomes the tensor that it waits for, in lists too."""
    if isinstance(operand, (list, tuple)):
        return [unwrapped(each) for each in operand]
    if not isinstance(operand, torch.Tensor) or not is_wrapper(operand):
        return operand
    if hasattr(operand, "trigger_wait"):  # AsyncCollectiveTensor, whose module starts slowly
        return operand.trigger_wait()
    raise TypeError(f"isomer: a call of a group takes no {type(operand).__name__}; give it the tensor of this rank, "
                    "to_local() of a DTensor")


def by_gloo(row, gloo, operands, options):
    """The call of a row by a gloo group, as its members do it where they have no team."""
    call = getattr(gloo, row.gloo)
    if row.prepare not in (reduce_scatter_single, all_gather_single):
        return call(*operands, options)
    return AllWork([call(*tensors, options) for tensors in zip(*operands)])


def message_by_gloo(call, receives, tensors, *where):
    """gloo takes contiguous tensors only."""
    tensor, = tensors
    if tensor.is_contiguous():
        return call(tensors, *where)
    if not receives:
        return call([tensor.contiguous()], *where)
    received = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    return CopiedWork(call([received], *where), received, tensor)


def is_sparse(tensor):
    return tensor.layout is not STRIDED


def each(name, *lists):
    """A body: the core's method for each of the lists' elements."""
    rows = list(zip(*lists))

    def body(core):
        for arguments in rows:
            getattr(core, name)(*arguments)
    return body


# ---- checks ----

def check_alike(name, first, tensors):
    for tensor in tensors:
        if tensor.dtype != first.dtype:
            raise ValueError(f"isomer: {name}: all tensors have one type; {tensor.dtype} is not {first.dtype}")


def check_count(name, tensors, size):
    if len(tensors) != size:
        raise ValueError(f"isomer: {name}: the list has {len(tensors)} tensors; the group has {size} ranks")


def check_size(name, nelems, expected):
    if nelems != expected:
        raise ValueError(f"isomer: {name} has {nelems} elements; it must have {expected}")


def check_rank(name, rank, size):
    if not 0 <= rank < size:
        raise ValueError(f"isomer: {name} {rank} is outside 0..{size - 1}")


def check_rooted(name, group, root, one, what, tensors):
    """One tensor on each rank, and at the root a list of its like, one for each rank."""
    check_rank(f"{name}: root", root, group.size())
    if group.rank() == root:
        check_count(name, tensors, group.size())
        check_alike(name, one, tensors)
        for tensor in tensors:
            check_size(f"{name}: {what}", tensor.numel(), one.numel())


def split_sizes(name, tensor, splits, size):
    """Elements for each member: splits count rows; none means equal parts."""
    rows = tensor.size(0) if tensor.dim() else 1
    if not splits:
        if rows % size != 0:
            raise ValueError(f"isomer: all_to_all_single: {name} has {rows} rows, which {size} ranks do not divide; "
                             "give split sizes")
        return [tensor.numel() // size] * size
    if len(splits) != size or sum(splits) != rows or min(splits) < 0:
        raise ValueError(f"isomer: all_to_all_single: {name} has {rows} rows; the {len(splits)} split sizes must be "
                         f"{size} numbers from 0 with that sum")
    return [split * (tensor.numel() // max(rows, 1)) for split in splits]


# ---- reductions ----

def all_reduce(group, options, tensors):
    op, first = options.reduceOp, tensors[0]
    if len(tensors) == 1 and first.layout is STRIDED:  # most are small: a list of them takes longer
        reduction = reduction_of(op, first.dtype)
        return tensors, tensors, lambda core: core.all_reduce(first, reduction)
    if any(map(is_sparse, tensors)):
        return None
    return tensors, tensors, each("all_reduce", tensors, [reduction_of(op, tensor.dtype) for tensor in tensors])


def reduce(group, options, tensors):
    tensor, root = tensors[0], options.rootRank
    reduction = reduction_of(options.reduceOp, tensor.dtype)
    return tensors, tensors, lambda core: core.reduce(tensor, tensor, reduction, root)


def reduce_scatter(group, options, outputs, inputs):
    output, tensors = outputs[0], list(inputs[0])
    check_count("reduce_scatter", tensors, group.size())
    check_alike("reduce_scatter", output, tensors)
    check_size("reduce_scatter: output", output.numel(), tensors[group.rank()].numel())
    reduction = reduction_of(options.reduceOp, output.dtype)
    return tensors, outputs, lambda core: core.reduce_scatter(output, tensors, reduction)


def reduce_scatter_single(group, options, outputs, inputs):
    size, op = group.size(), options.reduceOp
    for output, tensor in zip(outputs, inputs):
        check_alike("reduce_scatter_single", output, [tensor])
        check_size("reduce_scatter_single: input", tensor.numel(), size * output.numel())
    reductions = [reduction_of(op, output.dtype) for output in outputs]
    return inputs, outputs, each("reduce_scatter_single", outputs, inputs, reductions)


# ---- moves ----

def broadcast(group, options, tensors):
    if any(map(is_sparse, tensors)):
        raise NotImplementedError("isomer: broadcast: sparse tensors are not supported; broadcast their parts")
    return tensors, tensors, each("broadcast", tensors, [options.rootRank] * len(tensors))


def all_gather(group, options, outputs, inputs):
    for tensors, tensor in zip(outputs, inputs):
        check_count("all_gather", tensors, group.size())
        check_alike("all_gather", tensor, tensors)
        check_size("all_gather: input", tensor.numel(), tensors[group.rank()].numel())
    return inputs, [tensor for tensors in outputs for tensor in tensors], each("all_gather", outputs, inputs)


def all_gather_by_rank(group, options, outputs, inputs):
    """torch gives one list for each rank here, not for each tensor."""
    return all_gather(group, options, [list(column) for column in zip(*outputs)], inputs)


def all_gather_single(group, options, outputs, inputs):
    size = group.size()
    for output, tensor in zip(outputs, inputs):
        check_alike("all_gather_single", output, [tensor])
        check_size("all_gather_single: output", output.numel(), size * tensor.numel())
    return inputs, outputs, each("all_gather_single", outputs, inputs)


def gather(group, options, outputs, inputs):
    tensor, tensors, root = inputs[0], list(outputs[0]) if outputs else [], options.rootRank
    check_rooted("gather", group, root, tensor, "output", tensors)
    return inputs, tensors, lambda core: core.gather(tensors, tensor, root)


def scatter(group, options, outputs, inputs):
    output, tensors, root = outputs[0], list(inputs[0]) if inputs else [], options.rootRank
    check_rooted("scatter", group, root, output, "input", tensors)
    return tensors, outputs, lambda core: core.scatter(output, tensors, root)


def all_to_all(group, options, outputs, inputs):
    for tensors in (outputs, inputs):
        check_count("all_to_all", tensors, group.size())
        check_alike("all_to_all", inputs[0], tensors)
    check_size("all_to_all: this rank's output from itself", outputs[group.rank()].numel(),
               inputs[group.rank()].numel())
    return inputs, outputs, lambda core: core.lists(outputs, inputs)


def all_to_all_single(group, options, output, tensor, output_splits, input_splits):
    check_alike("all_to_all_single", tensor, [output])
    output_sizes = split_sizes("output", output, output_splits, group.size())
    input_sizes = split_sizes("input", tensor, input_splits, group.size())
    check_size("all_to_all_single: this rank's output from itself", output_sizes[group.rank()],
               input_sizes[group.rank()])
    return [tensor], [output], lambda core: core.all_to_all_single(output, tensor, output_sizes, input_sizes)


def barrier(group, options):
    """All ranks have come, and what was in this rank's current stream is done."""
    event = group.event_here()

    def body(core):
        if event is not None:
            event.synchronize()
        core.barrier()
    return [], [], body


_OP, _ROOT = ("reduceOp",), ("rootRank",)
_reduce_scatter_single = Row("reduce_scatter_single", reduce_scatter_single, 2, dist.ReduceScatterOptions, _OP,
                             "_reduce_scatter_base")
_all_gather_single = Row("all_gather_single", all_gather_single, 2, c10d.AllgatherOptions, (),
                         "_allgather_base")
_all_to_all_single = Row("all_to_all_single", all_to_all_single, 4, dist.AllToAllOptions, (), "alltoall_base")
CALLS = {
    "allreduce": Row("all_reduce", all_reduce, 1, dist.AllreduceOptions, _OP, "allreduce"),
    "allreduce_coalesced": Row("all_reduce", all_reduce, 1, dist.AllreduceCoalescedOptions, _OP, "allreduce_coalesced"),
    "reduce": Row("reduce", reduce, 1, dist.ReduceOptions, _ROOT + _OP, "reduce"),
    "reduce_scatter": Row("reduce_scatter", reduce_scatter, 2, dist.ReduceScatterOptions, _OP, "reduce_scatter"),
    "reduce_scatter_single": _reduce_scatter_single,
    "reduce_scatter_single_coalesced": _reduce_scatter_single,
    "reduce_scatter_tensor_coalesced": _reduce_scatter_single,
    "_reduce_scatter_base": _reduce_scatter_single,
    "broadcast": Row("broadcast", broadcast, 1, dist.BroadcastOptions, _ROOT, "broadcast"),
    "allgather": Row("all_gather", all_gather, 2, c10d.AllgatherOptions, (), "allgather"),
    "allgather_coalesced": Row("all_gather", all_gather_by_rank, 2, c10d.AllgatherOptions, (), "allgather_coalesced"),
    "all_gather_single": _all_gather_single,
    "all_gather_single_coalesced": _all_gather_single,
    "allgather_into_tensor_coalesced": _all_gather_single,
    "_allgather_base": _all_gather_single,
    "gather": Row("gather", gather, 2, c10d.GatherOptions, _ROOT, "gather"),
    "scatter": Row("scatter", scatter, 2, c10d.ScatterOptions, _ROOT, "scatter"),
    "alltoall": Row("all_to_all", all_to_all, 2, dist.AllToAllOptions, (), "alltoall"),
    "all_to_all_single": _all_to_all_single,
    "alltoall_base": _all_to_all_single,
    "barrier": Row("barrier", barrier, 0, dist.BarrierOptions, (), "barrier"),
}
