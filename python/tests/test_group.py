# SPDX-License-Identifier: MIT
"""The backend's collectives, each beside a reference that is computed from all ranks' inputs."""
import contextlib
import os
import time
from datetime import timedelta
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402
from torch._C._distributed_c10d import ErrorType  # noqa: E402
from torch.distributed import ReduceOp  # noqa: E402

from conftest import tell, wait_for  # noqa: E402
from torch_names import all_gather_single, reduce_scatter_single  # noqa: E402

SIZES = (2, 3, 4)
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
SHAPES = ((), (0,), (1,), (7,), (3, 5), (1000, 37))
MOVED = (torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float64,
         torch.complex64, torch.float8_e4m3fn)
REDUCED = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
           torch.float32, torch.float64, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def values(rank, shape, dtype):
    """Small integers that differ between ranks and places: sums are exact in every type."""
    numbers = torch.arange(torch.Size(shape).numel()).reshape(shape) * 7 + rank * 3
    return (numbers % 3 + 1).to(torch.float32).to(dtype) if dtype != torch.bool else numbers % 3 == 1


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))


def reference(name, inputs):
    if inputs[0].dtype in FLOAT8:
        return reference(name, [tensor.to(torch.float32) for tensor in inputs]).to(inputs[0].dtype)
    if inputs[0].dtype == torch.bool:
        name = {"SUM": "BOR", "PRODUCT": "BAND", "MAX": "BOR", "MIN": "BAND"}.get(name, name)
    result = inputs[0].clone()
    for other in inputs[1:]:
        result = {"SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
                  "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}[name](result, other)
    return result


def everyone(shape, dtype):
    return [values(rank, shape, dtype) for rank in range(dist.get_world_size())]


def reductions():
    rank = dist.get_rank()
    for dtype in REDUCED:
        for shape in SHAPES:
            for name in ("SUM", "PRODUCT", "MIN", "MAX") + (() if dtype.is_floating_point else ("BAND", "BOR", "BXOR")):
                tensor = values(rank, shape, dtype)
                dist.all_reduce(tensor, getattr(ReduceOp, name))
                same(tensor, reference(name, everyone(shape, dtype)))


@pytest.mark.parametrize("size", SIZES)
def test_reductions_of_all_types(ranks, size):
    ranks(size, reductions)


def float8():
    """Sums that round, that overflow, and of infinities, compared with torch's own rounding of the sum in float."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in FLOAT8:
        largest = torch.finfo(dtype).max
        inputs = []
        for other in range(size):
            generator = torch.Generator().manual_seed(other)
            scale = 10.0 ** torch.randint(-4, 3, (5000,), generator=generator)
            numbers = torch.randn(5000, generator=generator) * scale
            numbers[:3] = torch.tensor([largest, -largest, torch.inf])
            inputs.append(numbers.clamp(-largest, largest).to(dtype) if other % 2 else numbers.to(dtype))
        total = inputs[0].to(torch.float32)
        for other in inputs[1:]:
            total = total + other.to(torch.float32)
        for op, wanted in ((ReduceOp.SUM, total), (ReduceOp.AVG, total / size)):
            tensor = inputs[rank].clone()
            dist.all_reduce(tensor, op)
            wanted = wanted.to(dtype)
            numbers = ~wanted.to(torch.float32).isnan()
            assert torch.equal(tensor.to(torch.float32).isnan(), ~numbers)
            same(tensor[numbers], wanted[numbers])


@pytest.mark.parametrize("size", SIZES)
def test_float8_as_torch_rounds(ranks, size):
    ranks(size, float8)


def scaled():
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64):
        tensor = values(rank, (9,), dtype)
        dist.all_reduce(tensor, ReduceOp.AVG)
        torch.testing.assert_close(tensor, reference("SUM", everyone((9,), dtype)) / size)
        tensor = values(rank, (9,), dtype)
        dist.all_reduce(tensor, ReduceOp.PREMUL_SUM(0.5 + rank))  # factors may differ
        inputs = everyone((9,), dtype)
        torch.testing.assert_close(tensor, sum(inputs[r] * (0.5 + r) for r in range(size)))
        out = torch.empty(2, dtype=dtype)
        reduce_scatter_single(out, values(rank, (2 * size,), dtype), ReduceOp.AVG)
        torch.testing.assert_close(out, (reference("SUM", everyone((2 * size,), dtype)) / size)[2 * rank:2 * rank + 2])


@pytest.mark.parametrize("size", SIZES)
def test_averages_and_premultiplied_sums(ranks, size):
    ranks(size, scaled)


def logical():
    flags = torch.tensor([dist.get_rank() == 0, True, False])
    either, both = flags.clone(), flags.clone()
    dist.all_reduce(either)
    dist.all_reduce(both, ReduceOp.PRODUCT)
    same(either, torch.tensor([True, True, False]))
    same(both, torch.tensor([False, True, False]))


def test_bools_are_or_and_and(ranks):
    ranks(3, logical)


def moves():
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in MOVED:
        for shape in SHAPES:
            inputs = everyone(shape, dtype)
            outputs = [torch.empty(shape, dtype=dtype) for _ in range(size)]
            dist.all_gather(outputs, inputs[rank])
            for output, expected in zip(outputs, inputs):
                same(output, expected)
            tensor = inputs[rank].clone()
            dist.broadcast(tensor, size - 1)
            same(tensor, inputs[size - 1])
            outputs = [torch.empty(shape, dtype=dtype) for _ in range(size)] if rank == 1 else None
            dist.gather(inputs[rank], outputs, 1)
            for output, expected in zip(outputs or [], inputs):
                same(output, expected)
            output = torch.empty(shape, dtype=dtype)
            dist.scatter(output, inputs if rank == 1 else None, 1)
            same(output, inputs[rank])


@pytest.mark.parametrize("size", SIZES)
def test_moves_of_all_types(ranks, size):
    ranks(size, moves)


def single():
    rank, size = dist.get_rank(), dist.get_world_size()
    for rows in (0, 1, 5, 4096):
        inputs = everyone((rows, 3), torch.float32)
        output = torch.full((size * rows, 3), -1.0)
        all_gather_single(output, inputs[rank])
        same(output, torch.cat(inputs))
        output[rank * rows:(rank + 1) * rows] = inputs[rank] + 1
        all_gather_single(output, output[rank * rows:(rank + 1) * rows])  # in place
        same(output, torch.cat(inputs) + 1)
        whole = everyone((size * rows, 3), torch.float32)
        expected = reference("SUM", whole)[rank * rows:(rank + 1) * rows]
        out = torch.full((rows, 3), -1.0)
        reduce_scatter_single(out, whole[rank])
        same(out, expected)
        out.fill_(-1)
        dist.reduce_scatter(out, list(whole[rank].chunk(size)) if rows else [whole[rank]] * size)
        same(out, expected)
        whole[rank] = whole[rank].clone()
        mine = whole[rank][rank * rows:(rank + 1) * rows]
        reduce_scatter_single(mine, whole[rank])  # in place
        same(mine, expected)


@pytest.mark.parametrize("size", SIZES)
def test_single_tensors_and_in_place(ranks, size):
    ranks(size, single)


def exchanges():
    rank, size = dist.get_rank(), dist.get_world_size()
    for splits in (lambda a, b: 2, lambda a, b: (a + 1) * (b + 2) % 4, lambda a, b: 0, lambda a, b: int(a == 0)):
        sends, receives = [splits(rank, b) for b in range(size)], [splits(a, rank) for a in range(size)]
        blocks = [[torch.full((splits(a, b), 5), 10.0 * a + b) for b in range(size)] for a in range(size)]
        output = torch.full((sum(receives), 5), -1.0)
        dist.all_to_all_single(output, torch.cat(blocks[rank]), receives, sends)
        same(output, torch.cat([blocks[a][rank] for a in range(size)]))
        outputs = [torch.full((n, 5), -1.0) for n in receives]
        dist.all_to_all(outputs, blocks[rank])
        for a, output in enumerate(outputs):
            same(output, blocks[a][rank])
    output = torch.empty(2 * size)
    dist.all_to_all_single(output, torch.arange(2.0 * size) + 100 * rank)
    same(output, torch.cat([torch.arange(2.0 * rank, 2 * rank + 2) + 100 * a for a in range(size)]))


@pytest.mark.parametrize("size", SIZES)
def test_all_to_all_with_splits(ranks, size):
    ranks(size, exchanges)


def layouts():
    rank, size = dist.get_rank(), dist.get_world_size()
    expected = reference("SUM", everyone((6, 4), torch.float32))
    tensor = values(rank, (6, 4), torch.float32).t().contiguous().t() if rank else values(rank, (6, 4), torch.float32)
    dist.all_reduce(tensor)  # strides differ between ranks
    same(tensor, expected)
    wide = torch.full((6, 8), -1.0)
    all_gather_single(torch.empty(size * 6, 4), values(rank, (6, 4), torch.float32))
    outputs = [wide[:, ::2]] + [torch.empty(6, 4) for _ in range(size - 1)]
    dist.all_gather(outputs, values(rank, (6, 4), torch.float32))
    same(wide[:, ::2], values(0, (6, 4), torch.float32))
    assert torch.all(wide[:, 1::2] == -1)
    tensor = torch.zeros(12)[1:][::2].fill_(rank)
    dist.broadcast(tensor, 1)
    assert torch.all(tensor == 1)
    tensor = torch.conj(torch.tensor([1 + 2j, 3j]) * (rank + 1))
    dist.group.WORLD.allreduce([tensor]).wait()  # torch.distributed.all_reduce itself refuses it
    assert torch.equal(tensor.resolve_conj(), torch.conj(torch.tensor([1 + 2j, 3j]) * (size * (size + 1) / 2)))
    leaf = torch.ones(4, requires_grad=True)
    dist.all_reduce(leaf)
    assert leaf.requires_grad and torch.all(leaf == size)
    with torch.inference_mode():
        tensor = torch.ones(4, 4).t()[::2]
    dist.all_reduce(tensor)
    assert torch.all(tensor == size)


def test_layouts_are_repaired_on_each_rank(ranks):
    ranks(3, layouts)


def rooted():
    rank, size = dist.get_rank(), dist.get_world_size()
    for root in range(size):
        tensor = values(rank, (33,), torch.int32)
        dist.reduce(tensor, root)
        inputs = everyone((33,), torch.int32)
        same(tensor, reference("SUM", inputs) if rank == root else inputs[rank])


def test_reduce_leaves_other_ranks_alone(ranks):
    ranks(3, rooted)


def uneven():
    rank, size = dist.get_rank(), dist.get_world_size()
    outputs = [torch.empty(r + 1) for r in range(size)]
    dist.all_gather(outputs, torch.full((rank + 1,), float(rank)))
    for r, output in enumerate(outputs):
        assert torch.all(output == r)
    out = torch.empty(rank + 1)
    dist.reduce_scatter(out, [torch.full((r + 1,), float(r)) for r in range(size)])
    assert torch.all(out == rank * size)


def test_lists_of_different_sizes(ranks):
    ranks(3, uneven)


def asynchronous():
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = [torch.full((100,), float(i + rank)) for i in range(50)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    seen = []
    works[-1].get_future().then(lambda future: seen.append(future.value()[0]))
    for i in reversed(range(50)):
        assert isinstance(works[i], dist.Work) and works[i].wait()
        assert works[i].is_completed() and works[i].exception() is None
        assert torch.all(tensors[i] == i * size + size * (size - 1) / 2)
    deadline = time.monotonic() + 20
    while not seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert seen[0] is tensors[-1]
    out, tensor = torch.empty(2 * size), torch.ones(2)
    with dist._coalescing_manager(async_ops=True) as manager:
        all_gather_single(out, tensor)
    manager.wait()
    assert torch.all(out == 1)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.broadcast(tensor.fill_(rank), 1)
        dist.all_reduce(tensor)
    manager.wait()
    assert torch.all(tensor == size)


def test_asynchronous_calls_and_futures(ranks):
    ranks(3, asynchronous)


def wrappers():
    import torch.distributed._functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size

    def given(value):
        tensor = functional.all_reduce(torch.full((3,), float(value)), "max", dist.group.WORLD)
        assert type(tensor) is functional.AsyncCollectiveTensor
        return tensor
    for profiled in (False, True):
        with torch.profiler.profile() if profiled else contextlib.nullcontext():
            tensor = given(2)
            dist.all_reduce(tensor)
            assert tensor.tolist() == [2 * size] * 3
            lists = [torch.empty(3) for _ in range(size)]
            dist.all_gather(lists, given(5))
            assert torch.stack(lists).eq(5).all()
            out = torch.empty(3 * size)
            all_gather_single(out, given(6))
            assert out.eq(6).all()
            receipt, works = given(0), [dist.isend(given(rank), right)]
            works.append(dist.irecv(receipt, left))
            for work in works:
                work.wait()
            assert receipt.tolist() == [size - 1] * 3
    with pytest.raises(TypeError, match="takes no DTensor.*to_local"):
        dist.all_reduce(distribute_tensor(torch.ones(size), init_device_mesh("cpu", (size,)), [Shard(0)]))


def test_what_functional_collectives_return_is_an_operand(ranks):
    ranks(2, wrappers)


def objects():
    rank, size = dist.get_rank(), dist.get_world_size()
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank * 1000})
    assert [one["rank"] for one in everything] == list(range(size))
    received = [None]
    dist.scatter_object_list(received, list("abcd")[:size] if rank == 0 else None, 0)
    assert received == ["abcd"[rank]]
    shared = [rank]
    dist.broadcast_object_list(shared, 1)
    assert shared == [1]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank, gathered, 0)
    assert rank or gathered == list(range(size))


def test_objects(ranks):
    ranks(3, objects)


def wrong_calls(rank, size):
    """(name, call): wrong arguments, on all ranks that make the call. None: this rank does not make it."""
    one, other, meta = torch.ones(1), torch.ones(1, dtype=torch.int32), torch.ones(1, device="meta")
    ones, wide, root = [torch.ones(1)] * size, torch.ones(size), rank == 0
    for far in (size, -1):
        for name, call in (("broadcast", lambda: dist.broadcast(one, far)), ("reduce", lambda: dist.reduce(one, far)),
                           ("gather", lambda: dist.gather(one, None, far)),
                           ("scatter", lambda: dist.scatter(one, None, far)),
                           ("send", lambda: dist.send(one, far)), ("recv", lambda: dist.recv(one, far)),
                           ("isend", lambda: dist.isend(one, far)), ("irecv", lambda: dist.irecv(one, far))):
            yield f"{name}: rank {far}", call
    for name, call in (
            ("all_reduce", lambda t: dist.all_reduce(t)), ("broadcast", lambda t: dist.broadcast(t, 0)),
            ("reduce", lambda t: dist.reduce(t, 0)), ("all_gather", lambda t: dist.all_gather(ones, t)),
            ("all_gather_single", lambda t: all_gather_single(wide, t)),
            ("reduce_scatter_single", lambda t: reduce_scatter_single(t, wide)),
            ("reduce_scatter", lambda t: dist.reduce_scatter(t, ones)),
            ("all_to_all", lambda t: dist.all_to_all([t] * size, ones)),
            ("all_to_all_single", lambda t: dist.all_to_all_single(torch.cat([t] * size), wide)),
            ("gather", lambda t: dist.gather(t, ones if root else None)),
            ("scatter", lambda t: dist.scatter(t, ones if root else None)),
            ("send", lambda t: dist.send(t, 1 - rank)), ("recv", lambda t: dist.recv(t, 1 - rank))):
        yield f"{name}: meta", partial(call, meta)
        if name in ("gather", "scatter"):  # the root alone sees what is wrong
            yield f"{name}: types", partial(call, other) if root else None
            yield f"{name}: sizes", partial(call, torch.ones(3)) if root else None
        elif "gather" in name or "scatter" in name or "to_all" in name:
            yield f"{name}: types", partial(call, other)
            yield f"{name}: sizes", partial(call, torch.ones(3))
    for name, call in (("all_gather", lambda: dist.all_gather(ones[1:], one)),
                       ("reduce_scatter", lambda: dist.reduce_scatter(one, ones[1:])),
                       ("all_to_all", lambda: dist.all_to_all(ones, ones[1:])),
                       ("gather", lambda: dist.gather(one, ones[1:] if root else None)),
                       ("scatter", lambda: dist.scatter(one, ones[1:] if root else None))):
        yield f"{name}: a list that is too short", call if root or name not in ("gather", "scatter") else None
    from_itself, to_the_next = ([size if m == to else 0 for m in range(size)] for to in (rank, (rank + 1) % size))
    for outputs, inputs in (([1] * (size + 1), None), (None, [2] * size), (from_itself, to_the_next)):
        yield f"all_to_all_single: splits {outputs} {inputs}", partial(dist.all_to_all_single, wide.clone(), wide,
                                                                       outputs, inputs)
    yield "all_to_all_single: twice the size", lambda: dist.all_to_all_single(wide, torch.ones(2 * size))
    for op, dtype in ((ReduceOp.BAND, torch.float32), (ReduceOp.AVG, torch.int32),
                      (ReduceOp.SUM, torch.float8_e4m3fnuz)):
        values = torch.ones(size).to(dtype)
        for name, call in (("all_reduce", partial(dist.all_reduce, values, op)),
                           ("reduce", partial(dist.reduce, values, 0, op)),
                           ("reduce_scatter_single", partial(reduce_scatter_single, values[:1], values, op)),
                           ("reduce_scatter", partial(dist.reduce_scatter, values[:1], list(values.split(1)), op))):
            yield f"{name}: {op} of {dtype}", call


def check_wrong_calls(rank, size, settle=lambda: None):
    for name, call in wrong_calls(rank, size):
        if call is not None:
            with pytest.raises((NotImplementedError, ValueError, RuntimeError)) as caught:
                work = call()
                if work is not None:
                    work.wait()
            assert "shmem" not in str(caught.value), (name, caught.value)
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        settle()
        assert tensor == size, name


def refusals():
    rank, size = dist.get_rank(), dist.get_world_size()
    check_wrong_calls(rank, size)
    expanded = torch.ones(1).expand(4) if rank == 1 else torch.zeros(4)  # the root only reads its tensor
    dist.broadcast(expanded, 1)
    assert expanded.eq(1).all()
    for call, sentence in (
            (lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fnuz)), "do not take torch.float8_e4m3fnuz"),
            (lambda: dist.all_reduce(torch.ones(2), ReduceOp.BAND), "BAND do not take torch.float32"),
            (lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), ReduceOp.AVG), "AVG do not take torch.int32"),
            (lambda: all_gather_single(torch.ones(2), torch.ones(2)), "has 2 elements"),
            (lambda: dist.all_to_all_single(torch.ones(size + 1), torch.ones(size + 1)), "give split sizes"),
            (lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size), [-1] + [1] * (size - 2) + [3],
                                            [1] * size), f"must be {size} numbers from 0 with that sum")):
        with pytest.raises((NotImplementedError, ValueError), match=sentence):
            call()
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor == size


def test_wrong_arguments_get_sentences_and_the_group_goes_on(ranks):
    ranks(2, refusals)


def late():
    dist.init_process_group("isomer", timeout=timedelta(seconds=4))
    dist.barrier()
    if dist.get_rank() == 0:
        begin = time.monotonic()
        with pytest.raises(dist.DistBackendError, match="all_reduce of group 0/1 has passed its timeout of 4 s"):
            dist.all_reduce(torch.ones(4))
        assert 3 < time.monotonic() - begin < 60
        with pytest.raises(dist.DistBackendError, match="barrier of group 0/1: all_reduce .* timeout of 4 s"):
            dist.barrier()
        tell("has raised")
    else:
        wait_for("has raised", [0])
    dist.destroy_process_group()


def test_a_call_that_lasts_longer_than_the_timeout_raises(ranks):
    ranks(2, late, backend=None)


def one_group_times_out(nodes):
    """The last rank is late in group a, and later none sends in c; the other groups go on with right numbers, and so do
    threads that are in calls of b meanwhile."""
    if nodes:
        os.environ["SHMEM_VIRTUAL_NODES"] = nodes
    dist.init_process_group("isomer")
    me, size = dist.get_rank(), dist.get_world_size()
    everyone = list(range(size))
    names = "/".join(map(str, everyone))
    a, b, c = (dist.new_group(everyone, timeout=timedelta(seconds=60)) for _ in range(3))
    dist.barrier()
    hooks = []
    a.register_abort_hook(1, lambda: hooks.append("a"))
    b.register_abort_hook(1, lambda: hooks.append("b"))
    a.set_timeout(timedelta(seconds=2))  # and of no other group
    below = [dist.all_reduce(torch.full((200_000,), me + 1.0), group=b, async_op=True) for _ in range(3)]
    if me != size - 1:
        begin = time.monotonic()
        with pytest.raises(dist.DistBackendError, match="timeout of 2 s"):
            dist.all_reduce(torch.ones(100_000), group=a)
        assert 1.5 < time.monotonic() - begin < 30
        with pytest.raises(dist.DistBackendError, match=f"barrier of group {names}: all_reduce of .*timeout of 2 s"):
            dist.barrier(group=a)
        assert a.get_error() == ErrorType.TIMEOUT and b.get_error() == ErrorType.SUCCESS
        tell("has raised")
    else:
        wait_for("has raised", everyone[:-1])
        with pytest.raises(dist.DistBackendError, match=f"all_reduce of group {names} has passed its timeout of 2 s"):
            dist.all_reduce(torch.ones(100_000), group=a)  # late: it learns why, and at once
    assert hooks == ["a"]
    for work in below:
        work.wait()
    for group in (b, c, None):
        for length in (1, 1000, 300_000):
            values = torch.arange(length, dtype=torch.float64) * (me + 1)
            dist.all_reduce(values, group=group)
            assert torch.equal(values, torch.arange(length, dtype=torch.float64) * (size * (size + 1) // 2))
        gathered = [torch.zeros(1) for _ in everyone]
        dist.all_gather(gathered, torch.full((1,), float(me)), group=group)
        assert [int(each) for each in gathered] == everyone
    c.set_timeout(timedelta(seconds=2))
    if nodes:  # messages are gloo's
        c.abort()
    elif me == 0:  # messages: the receiver's channel and its group end, on the late sender, too
        with pytest.raises(dist.DistBackendError, match="recv of group 1/0 has passed its timeout of 2 s"):
            dist.recv(torch.ones(1), 1, group=c)
        tell("has received nothing")
    else:
        wait_for("has received nothing", [0])
        with pytest.raises(dist.DistBackendError, match="recv of group 1/0 has passed its timeout of 2 s on rank 0"):
            dist.all_reduce(torch.ones(1), group=c)
    dist.destroy_process_group(a)
    again = dist.new_group(everyone)  # the same ranks as the broken ones
    for group in (again, b, None):
        values = torch.full((3,), me + 1)
        dist.all_reduce(values, group=group)
        assert values.eq(size * (size + 1) // 2).all()
        if me < 2:
            message = torch.full((2,), 7.0 + me)
            (dist.send if me == 0 else dist.recv)(message, 1 - me, group=group)
            assert message.eq(7).all()


@pytest.mark.parametrize("size, nodes", ((3, None), (2, "0,1"), (4, "0,0,1")))
def test_a_timeout_of_one_group_leaves_the_others(ranks, size, nodes):
    ranks(size, one_group_times_out, nodes, backend=None)


def filled(count, dtype=torch.float32):
    return torch.full((count,), dist.get_rank() + 1, dtype=dtype)


def sent(sizes):
    dist.all_to_all_single(torch.empty(4), filled(4), sizes, sizes)


OTHERWISE = {  # which argument differs: the calls of rank 0 and of rank 1
    "nelems": (lambda: dist.all_reduce(filled(1)), lambda: dist.all_reduce(filled(100000))),
    "type": (lambda: dist.all_reduce(filled(4)), lambda: dist.all_reduce(filled(4, torch.int64))),
    "op": (lambda: dist.all_reduce(filled(4)), lambda: dist.all_reduce(filled(4), ReduceOp.MAX)),
    "root": (lambda: dist.broadcast(filled(4), 0), lambda: dist.broadcast(filled(4), 1)),
    "kind": (dist.barrier, lambda: dist.broadcast(filled(4), 0))}


def disagreements():
    rank = dist.get_rank()
    for what, calls in OTHERWISE.items():
        with pytest.raises(Exception, match=f"mismatch of {what}: rank {rank} calls .*, rank {1 - rank} calls "):
            calls[rank]()
        dist.all_reduce(tensor := torch.ones(1))  # the group goes on
        assert tensor == 2
    with pytest.raises(dist.DistBackendError, match="is .*, but rank [01] "):  # of the first to say it
        sent([2, 2] if rank == 0 else [3, 1])


def test_ranks_that_disagree_all_raise_and_name_the_difference(ranks):
    ranks(2, disagreements)


def allocated():
    from ctypes import byref

    from isomer_shmem import _lib
    device, lib = torch.device("cpu"), dist.group.WORLD.lease.world.lib
    backend = dist.group.WORLD._get_backend(device)
    assert backend.supports_tensor_alloc(device) and not backend.supports_tensor_alloc(torch.device("cuda", 0))
    tensor = backend.allocate_tensor(1000, dtype=torch.bfloat16, device=device).fill_(1)
    assert lib.shmemx_address_info(tensor.data_ptr(), byref(_lib.AddressInfo())) == 0 and tensor.shape == (1000,)
    dist.all_reduce(tensor)
    assert torch.all(tensor == dist.get_world_size())


def test_a_group_allocates_memory_of_the_library(ranks):
    ranks(2, allocated)


def splits(monkeypatch):
    """torch splits groups where there is an accelerator: here is said to be one, and its group is the CPU's."""
    from isomer_shmem import pg
    monkeypatch.setattr(pg, "has_gpu", lambda: True)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: torch.device("cuda", 0))
    dist.init_process_group("isomer")
    world, rank = dist.group.WORLD, dist.get_rank()
    order = list if VERSION >= (2, 14) else sorted  # torch sorted the ranks before
    with pytest.raises(RuntimeError, match="No device associated"):
        dist.split_group(split_ranks=[[0, 1]])
    world.bound_device_id = torch.device("cuda", 0)
    for count, parts in enumerate(([[0, 1], [2, 3]], [[3, 0], [1, 2]], [[0, 1], [2, 3]], [[1, 2, 3]])):
        part = next((ranks for ranks in parts if rank in ranks), None)
        group = dist.split_group(split_ranks=parts)
        is_member = group not in (None, dist.GroupMember.NON_GROUP_MEMBER)  # torch 2.14 says the latter
        assert is_member == (part is not None) and world.splits == count + 1
        if not is_member:
            continue
        tensor = torch.tensor([rank])
        dist.all_reduce(tensor, group=group)
        assert tensor == sum(part) and dist.get_process_group_ranks(group) == order(part)
        assert group.group_desc == f"default_pg:split:{count}" and dist.get_backend(group) == "isomer"
        if count == 0:  # and a part of a part
            single = dist.split_group(group, split_ranks=[[1], [0]])
            assert dist.get_process_group_ranks(single) == [rank]
        dist.barrier(group)
        dist.destroy_process_group(group)
    pair = dist.new_group([1, 2])  # the others have nothing to split
    if rank in (1, 2):
        dist.barrier(pair)
    half = world.split_group([0, 1] if rank < 2 else [2, 3])  # without torch's lists
    half.allreduce([tensor := torch.tensor([rank])]).wait()
    assert tensor == (1 if rank < 2 else 5) and half.size() == 2
    half.shutdown()
    dist.destroy_process_group()


def patched(function):
    with pytest.MonkeyPatch.context() as monkeypatch:
        function(monkeypatch)


def test_split_groups(ranks):
    ranks(4, patched, splits, backend=None)
