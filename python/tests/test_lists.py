# SPDX-License-Identifier: MIT
"""Calls with lists, roots and splits beside gloo's: odd and uneven sizes, types, layouts that differ between ranks."""
import random

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402
from torch.distributed import ReduceOp  # noqa: E402

from torch_names import all_gather_single, reduce_scatter_single  # noqa: E402

SIZES = (2, 3, 4)
DTYPES = (torch.float32, torch.int64, torch.uint8, torch.float64, torch.int8, torch.int32, torch.float16)
LENGTHS = (0, 1, 3, 7, 129, 1000, 8193, 20011)  # elements; the last ones are read where they lie
ROUNDS = 40


def laid_out(values, how):
    """A tensor with these values in memory of the layout `how`, and what lies around it, which must stay."""
    n = values.numel()
    if how == "strided":
        around = torch.full((2 * n + 1,), 77).to(values.dtype)
        tensor = around[1::2]
    elif how == "shifted":
        around = torch.full((n + 2,), 77).to(values.dtype)
        tensor = around[1:n + 1]
    elif how == "transposed" and n % 3 == 0:
        around = torch.full((3, n // 3), 77).to(values.dtype)
        tensor = around.t()
    else:
        around = tensor = torch.empty(n, dtype=values.dtype)
    tensor.copy_(values.view(tensor.shape))
    return tensor, around


class Case:
    """One call's inputs, on this rank. Choices that all ranks share come from `common`, the others from `own`."""

    def __init__(self, number):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.common, self.own = random.Random(number), random.Random(1000 * number + self.rank)
        self.dtype, self.length = self.common.choice(DTYPES), self.common.choice(LENGTHS)
        self.root = self.common.randrange(self.size)
        self.lengths = [[self.common.choice(LENGTHS) for _ in range(self.size)] for _ in range(self.size)]
        self.op = self.common.choice((ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT))
        self.number = number

    def values(self, length, rank, place=0):
        numbers = torch.arange(length) * 5 + 3 * rank + 7 * place + self.number
        return (numbers % 3 + 1).to(self.dtype)

    def tensor(self, length, place=0):
        return laid_out(self.values(length, self.rank, place), self.own.choice(("plain", "strided", "shifted",
                                                                                "transposed")))[0]

    def room(self, length):
        return laid_out(torch.full((length,), 55).to(self.dtype), self.own.choice(("plain", "strided", "shifted",
                                                                                   "transposed")))

    def run(self, call, lengths, wanted):
        """call(outputs) fills them; gloo's results on plain tensors are `wanted`."""
        rooms = [self.room(length) for length in lengths]
        around = [room[1].clone() for room in rooms]
        works = call([room[0] for room in rooms])
        if works is not None:
            works.wait()
        for (tensor, memory), before, expected in zip(rooms, around, wanted):
            assert torch.equal(tensor.reshape(-1), expected.reshape(-1)), (self.number, self.dtype, expected.shape)
            tensor.copy_(torch.full_like(tensor, 55))
            assert torch.equal(memory, before), "memory beside an output was written"


def gathers(case, gloo):
    mine, is_root = case.values(case.length, case.rank), case.rank == case.root
    wanted = [torch.empty_like(mine) for _ in range(case.size)] if is_root else []
    dist.gather(mine, wanted or None, case.root, group=gloo)
    tensor = case.tensor(case.length)
    flat = tensor if tensor.dim() == 1 else tensor.reshape(-1)
    case.run(lambda outputs: dist.group.WORLD.gather([outputs] if is_root else [], [flat],
                                                     rooted(dist.GatherOptions(), case)),
             [case.length] * len(wanted), wanted)
    inputs = [case.values(case.length, case.rank, place) for place in range(case.size)] if is_root else None
    wanted = torch.empty_like(mine)
    dist.scatter(wanted, inputs, case.root, group=gloo)
    layouts = [case.tensor(case.length, place) for place in range(case.size)] if is_root else []
    case.run(lambda outputs: dist.group.WORLD.scatter(outputs, [layouts] if is_root else [],
                                                      rooted(dist.ScatterOptions(), case)), [case.length], [wanted])


def rooted(options, case):
    options.rootRank = case.root
    options.asyncOp = case.own.random() < 0.5
    return options


def reductions(case, gloo):
    wanted = case.values(case.length, case.rank)
    if case.rank == case.root:
        wanted = wanted.clone()
    dist.reduce(wanted, case.root, case.op, group=gloo)
    tensor = case.tensor(case.length)
    dist.reduce(tensor, case.root, case.op)
    expected = wanted if case.rank == case.root else case.values(case.length, case.rank)
    assert torch.equal(tensor.reshape(-1), expected), (case.number, case.dtype)
    lengths = case.lengths[0] if case.number % 2 else [case.length] * case.size
    whole = [torch.empty(0)] * case.size
    for member, length in enumerate(lengths):  # gloo takes no lists of different sizes
        whole[member] = case.values(length, case.rank, member).clone()
        dist.all_reduce(whole[member], case.op, group=gloo)
    inputs = [case.tensor(length, member) for member, length in enumerate(lengths)]
    case.run(lambda outputs: dist.reduce_scatter(outputs[0], inputs, case.op), [lengths[case.rank]], [whole[case.rank]])
    joined = torch.cat([case.values(case.length, case.rank, member) for member in range(case.size)])
    wanted = joined.clone()
    dist.all_reduce(wanted, case.op, group=gloo)
    case.run(lambda outputs: dist.reduce_scatter(outputs[0], list(joined.chunk(case.size)) if case.length else
                                                 [joined] * case.size, case.op), [case.length],
             [wanted[case.rank * case.length:(case.rank + 1) * case.length]])


def all_gathers(case, gloo):
    lengths = case.lengths[0] if case.number % 2 else [case.length] * case.size
    wanted = []
    for member, length in enumerate(lengths):
        wanted.append(case.values(length, case.rank).clone())
        dist.broadcast(wanted[-1], member, group=gloo)
    tensor = case.tensor(lengths[case.rank])
    case.run(lambda outputs: dist.all_gather(outputs, tensor), lengths, wanted)
    outputs = [torch.full((length,), 55).to(case.dtype) for length in lengths]
    outputs[case.rank] = case.values(lengths[case.rank], case.rank)  # in place
    dist.all_gather(outputs, outputs[case.rank])
    assert all(torch.equal(a, b) for a, b in zip(outputs, wanted))


def exchanges(case, gloo):
    sent, comes = case.lengths[case.rank], [case.lengths[member][case.rank] for member in range(case.size)]
    source = torch.cat([case.values(length, case.rank, place) for place, length in enumerate(sent)])
    wanted = torch.empty(sum(comes), dtype=case.dtype)
    dist.all_to_all_single(wanted, source, comes, sent, group=gloo)
    how = case.own.choice(("plain", "strided", "shifted"))
    tensor = laid_out(source, how)[0]
    output = laid_out(torch.full((sum(comes),), 55).to(case.dtype), case.own.choice(("plain", "strided")))[0]
    work = dist.all_to_all_single(output, tensor, comes, sent, async_op=case.own.random() < 0.5)
    if work is not None:
        work.wait()
    assert torch.equal(output, wanted), (case.number, case.dtype, how)
    inputs = [case.tensor(length, place) for place, length in enumerate(sent)]
    case.run(lambda outputs: dist.all_to_all(outputs, inputs), comes, wanted.split(comes))
    memory = torch.zeros(1 + max(source.numel(), wanted.numel()), dtype=case.dtype)
    memory[:source.numel()] = source
    dist.all_to_all_single(memory[1:1 + wanted.numel()], memory[:source.numel()], comes, sent)  # they overlap
    assert torch.equal(memory[1:1 + wanted.numel()], wanted)


def all_cases():
    gloo = dist.new_group(backend="gloo")
    for number in range(ROUNDS):
        for body in (gathers, reductions, all_gathers, exchanges):
            body(Case(number), gloo)


@pytest.mark.parametrize("size", SIZES)
def test_lists_roots_and_splits_beside_gloo(ranks, size):
    ranks(size, all_cases)


def coalesced():
    """The manager's short ways (one kind of call), and calls of several kinds in one, beside gloo."""
    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend="gloo")
    lengths = (1, 0, 77, 9000)
    sums = [torch.arange(n) + rank for n in lengths]
    wanted = [tensor.clone() for tensor in sums]
    for tensor in wanted:
        dist.all_reduce(tensor, group=gloo)
    with dist._coalescing_manager():
        for tensor in sums:
            dist.all_reduce(tensor)
    assert all(torch.equal(a, b) for a, b in zip(sums, wanted))
    gathered = [torch.full((size * n,), -1) for n in lengths]
    with dist._coalescing_manager(async_ops=True) as manager:
        for n, output in zip(lengths, gathered):
            all_gather_single(output, torch.arange(n) + rank)
    manager.wait()
    for n, output in zip(lengths, gathered):
        assert torch.equal(output, torch.cat([torch.arange(n) + member for member in range(size)]))
    scattered = [torch.full((n,), -1) for n in lengths]
    with dist._coalescing_manager(async_ops=True) as manager:
        for n, output in zip(lengths, scattered):
            reduce_scatter_single(output, torch.arange(size * n) + rank)
    manager.wait()
    for n, output in zip(lengths, scattered):
        assert torch.equal(output, torch.arange(size * n)[rank * n:(rank + 1) * n] * size + size * (size - 1) // 2)
    source, dest, root = torch.full((5,), rank), torch.full((5,), -1), torch.full((3,), rank)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.isend(source, (rank + 1) % size)
        dist.irecv(dest, (rank - 1) % size)
        dist.reduce(root, 1)
    manager.wait()
    assert torch.all(dest == (rank - 1) % size)
    assert torch.all(root == (size * (size - 1) // 2 if rank == 1 else rank))


@pytest.mark.parametrize("size", (2, 3))
def test_coalescing_manager_beside_gloo(ranks, size):
    ranks(size, coalesced)
