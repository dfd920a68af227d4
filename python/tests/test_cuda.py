#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The backend on a GPU, which the ranks share where there are too few. By pytest, or alone:

    ISOMER_LIB=... python3 python/tests/test_cuda.py [names]     one line for each: PASS, FAIL or SKIP, and the time

Tests run in processes of their own, one behind the other, so that jobs end and begin again. A watchdog ends them, and
after a failure new ones go on. References are made by hand, or by one process on the CPU.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import timedelta

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), HERE]
from torch_names import all_gather_single, reduce_scatter_single  # noqa: E402
LIMIT_SECONDS = 100
RANKS = int(os.environ.get("ISOMER_TEST_RANKS", "2"))
SIZES = (1, 7, 1000, 70001)


class Skip(Exception):
    """With the reason."""


def start(seconds=60, backend="isomer", number=None):
    """(rank, size, device). The ranks take the GPUs in turn."""
    import torch
    import torch.distributed as dist

    import isomer_shmem  # noqa: F401
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank % torch.cuda.device_count() if number is None else number)
    dist.init_process_group(backend, init_method="file://" + os.environ["STORE"], rank=rank, world_size=size,
                            timeout=timedelta(seconds=seconds))
    return rank, size, torch.device("cuda", torch.cuda.current_device())


def end():
    import torch
    import torch.distributed as dist
    torch.cuda.synchronize()
    dist.destroy_process_group()


def values_of(rank, count, dtype, device):
    import torch
    return (torch.arange(count, device=device) * 3 + 5 * rank).remainder(11).to(dtype)


def check(what, got, expected):
    import torch
    if not torch.equal(got.cpu(), expected.cpu()):
        wrong = (got.cpu() != expected.cpu()).nonzero()
        raise AssertionError(f"{what}: {len(wrong)} of {got.numel()} are wrong, the first at {wrong[0].tolist()}: "
                             f"{got.flatten()[:8].tolist()} for {expected.flatten()[:8].tolist()}")


def run(call, *arguments, is_async):
    work = call(*arguments, async_op=is_async)
    if is_async:
        work.wait()


# ---- tests ----

def first_call():
    """One all_reduce, and what the process group says of itself."""
    import torch
    import torch.distributed as dist
    rank, size, device = start()
    tensor = torch.full((1000,), float(rank + 1), device=device)
    dist.all_reduce(tensor)
    check("all_reduce", tensor, torch.full((1000,), size * (size + 1) / 2))
    from isomer_shmem import _lib
    print(_lib.text_of(_lib.load().shmemx_device_text), flush=True)
    end()


def reductions(is_async=False):
    import torch
    import torch.distributed as dist
    rank, size, device = start()
    for count in SIZES:
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64,
                      torch.uint8, torch.bool, torch.complex64):
            name = f"{count} {dtype}"
            every = [values_of(member, count, dtype, device) for member in range(size)]
            total = torch.stack(every).any(0) if dtype == torch.bool else sum(every)
            mine = every[rank].clone()
            run(dist.all_reduce, mine, is_async=is_async)
            check("all_reduce " + name, mine, total)
            if dtype.is_complex or dtype == torch.bool:
                continue
            mine = every[rank].clone()
            run(dist.reduce, mine, size - 1, dist.ReduceOp.MAX, is_async=is_async)
            if rank == size - 1:
                check("reduce " + name, mine, torch.stack(every).amax(0))
            source = torch.cat([every[rank] + member for member in range(size)]).to(dtype)
            output = torch.zeros(count, dtype=dtype, device=device)
            run(reduce_scatter_single, output, source, is_async=is_async)
            check("reduce_scatter_single " + name, output, (total + size * rank).to(dtype))
            output.zero_()
            run(dist.reduce_scatter, output, list(source.split(count)), is_async=is_async)
            check("reduce_scatter " + name, output, (total + size * rank).to(dtype))
            if dtype == torch.float32:
                mine = every[rank].clone()
                run(dist.all_reduce, mine, dist.ReduceOp.AVG, is_async=is_async)
                check("avg " + name, mine, total / size)
                mine = every[rank].clone()
                run(dist.all_reduce, mine, dist._make_nccl_premul_sum(0.5), is_async=is_async)
                check("premul_sum " + name, mine, total * 0.5)
                wide = torch.zeros(2 * count, device=device)[::2].copy_(every[rank])
                run(dist.all_reduce, wide, is_async=is_async)
                check("strided all_reduce " + name, wide, total)
                odd = torch.zeros(count + 1, device=device)[1:].copy_(every[rank])
                run(dist.all_reduce, odd, is_async=is_async)
                check("odd all_reduce " + name, odd, total)
    end()


def reductions_async():
    reductions(True)


def moves(is_async=False):
    import torch
    import torch.distributed as dist
    rank, size, device = start()
    for count in SIZES:
        for dtype in (torch.float32, torch.bfloat16, torch.uint8):
            check_moves(rank, size, device, count, dtype, is_async)
    empty = torch.zeros(0, device=device)
    run(dist.all_reduce, empty, is_async=is_async)
    run(all_gather_single, torch.zeros(0, device=device), empty, is_async=is_async)
    dist.barrier()
    end()


def moves_async():
    moves(True)


def check_moves(rank, size, device, count, dtype, is_async):
    import torch
    import torch.distributed as dist

    def zeros(*shape):
        return torch.zeros(*shape, dtype=dtype, device=device)
    name = f" {count} {dtype}"
    every = [values_of(member, count, dtype, device) for member in range(size)]
    joined = torch.cat(every)
    output = zeros(size * count)
    run(all_gather_single, output, every[rank], is_async=is_async)
    check("all_gather_single" + name, output, joined)
    output = zeros(size * count)
    own = output[rank * count:(rank + 1) * count].copy_(every[rank])
    run(all_gather_single, output, own, is_async=is_async)
    check("in place" + name, output, joined)
    outputs = [zeros(count + member) for member in range(size)]
    run(dist.all_gather, outputs, values_of(rank, count + rank, dtype, device), is_async=is_async)
    check("all_gather" + name, torch.cat(outputs),
          torch.cat([values_of(member, count + member, dtype, device) for member in range(size)]))
    mine = every[rank].clone()
    run(dist.broadcast, mine, size - 1, is_async=is_async)
    check("broadcast" + name, mine, every[size - 1])
    output = zeros(count)
    run(dist.scatter, output, [value + 1 for value in every] if rank == 0 else None, 0, is_async=is_async)
    check("scatter" + name, output, every[rank] + 1)
    outputs = [zeros(count) for _ in range(size)] if rank == 0 else None
    run(dist.gather, every[rank], outputs, 0, is_async=is_async)
    if rank == 0:
        check("gather" + name, torch.cat(outputs), joined)
    sends, receives = [rank + member for member in range(size)], [member + rank for member in range(size)]
    source, output = zeros(sum(sends)) + rank + 1, zeros(sum(receives))
    work = dist.all_to_all_single(output, source, receives, sends, async_op=is_async)
    if is_async:
        work.wait()
    check("all_to_all_single" + name, output, torch.cat([zeros(n) + member + 1 for member, n in enumerate(receives)]))
    outputs = [zeros(count) for _ in range(size)]
    run(dist.all_to_all, outputs, [every[rank] + member for member in range(size)], is_async=is_async)
    check("all_to_all" + name, torch.cat(outputs), torch.cat([value + rank for value in every]))


def large():
    """Tensors of several pieces, in torch's memory and in the library's."""
    import torch
    import torch.distributed as dist

    import isomer_shmem as iso
    rank, size, device = start()
    count = 25_000_003
    for is_async in (False, True):
        every = [values_of(member, count, torch.float32, device) for member in range(size)]
        for memory in (torch.empty(count, device=device), iso.empty(count, device="cuda")):
            mine = memory.copy_(every[rank])
            run(dist.all_reduce, mine, is_async=is_async)
            check("all_reduce", mine, sum(every))
            run(dist.broadcast, mine.copy_(every[rank]), size - 1, is_async=is_async)
            check("broadcast", mine, every[size - 1])
            output = torch.zeros(size * count, device=device)
            run(all_gather_single, output, mine.copy_(every[rank]), is_async=is_async)
            check("all_gather", output, torch.cat(every))
            run(reduce_scatter_single, mine, output, is_async=is_async)
            check("reduce_scatter", mine, size * every[rank])
            own = output[rank * count:(rank + 1) * count]
            run(reduce_scatter_single, own, output, is_async=is_async)
            check("in place", own, size * every[rank])
        del memory, mine, output, own
    end()


def host_tensors():
    """CPU tensors and objects in the same group, between calls on the GPU."""
    import torch
    import torch.distributed as dist
    rank, size, device = start()
    for index in range(5):
        on_gpu = torch.full((1000,), float(rank + index), device=device)
        work = dist.all_reduce(on_gpu, async_op=True)
        on_cpu = torch.full((1000,), float(rank), dtype=torch.bfloat16)
        dist.all_reduce(on_cpu)
        check("cpu", on_cpu, torch.full((1000,), float(sum(range(size))), dtype=torch.bfloat16))
        objects = [None] * size
        dist.all_gather_object(objects, {"rank": rank, "tensor": on_gpu.shape})
        assert [each["rank"] for each in objects] == list(range(size))
        work.wait()
        check("gpu", on_gpu, torch.full((1000,), float(sum(range(size)) + index * size)))
    try:
        all_gather_single(torch.zeros(size), torch.zeros(1, device=device))
        raise AssertionError("a call with tensors on both was not refused")
    except ValueError as error:
        assert "is on cpu" in str(error), error
    end()


def streams():
    """Calls in several streams; a Work's wait, events, future, and timeouts."""
    import torch
    import torch.distributed as dist
    rank, size, device = start()
    tensor = torch.ones(1 << 20, device=device)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        other = torch.full((1 << 20,), 2.0, device=device)
        torch.cuda._sleep(50_000_000)
        dist.all_reduce(other)  # in the side stream
    work = dist.all_reduce(tensor, async_op=True)  # behind the other, as on all ranks
    begin = time.perf_counter()
    work.wait()
    assert time.perf_counter() - begin < 0.02, "wait() has blocked the host"
    tensor.add_(1)
    check("async", tensor, torch.full((1 << 20,), float(size * size + 1)))
    torch.cuda.current_stream().wait_stream(side)
    check("side", other, torch.full((1 << 20,), 2.0 * size))
    work = dist.all_reduce(tensor.fill_(1), async_op=True)
    future = work.get_future().then(lambda value: value.value()[0] * 2)
    check("future", future.wait(), torch.full((1 << 20,), 2.0 * size))
    assert work.wait(timedelta(seconds=30)) and work.is_completed() and work.is_success()
    for _ in range(50):  # memory of dropped tensors is not used again too soon
        dist.all_reduce(torch.full((100003,), 1.0, device=device), async_op=True)
    kept = [torch.full((100003,), float(index), device=device) for index in range(20)]
    works = [dist.all_reduce(each, async_op=True) for each in kept]
    works[-1].wait()  # the others were before it
    for index, each in enumerate(kept):
        check("kept", each, torch.full((100003,), float(index * size)))
    end()


def graphs():
    """Collectives in a CUDA graph that is launched again with other values."""
    import torch
    import torch.distributed as dist

    import isomer_shmem
    rank, size, device = start()
    mine, gathered = torch.zeros(5000, device=device), torch.zeros(size * 5000, device=device)
    scattered, wide = torch.zeros(100, device=device), torch.zeros(size * 100, device=device)

    def body():
        dist.all_reduce(mine)
        mine.mul_(2)
        all_gather_single(gathered, mine)
        reduce_scatter_single(scattered, wide)
        work = dist.all_reduce(scattered, async_op=True)
        work.wait()
    isomer_shmem.prepare()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    for index in range(5):
        mine.fill_(rank + index)
        wide.fill_(index)
        graph.replay()
        total = float(sum(range(size)) + size * index)
        check("graph all_gather", gathered, torch.full((size * 5000,), 2 * total))
        check("graph reduce_scatter", scattered, torch.full((100,), float(size * size * index)))
        dist.all_reduce(mine)
        check("beside", mine, torch.full((5000,), 2 * total * size))
    end()


def messages():
    import torch
    import torch.distributed as dist
    rank, size, device = start()
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 1000, 300000):
        for tag in (0, 11):
            mine, theirs = values_of(rank, count, torch.float32, device), torch.full((count,), -1.0, device=device)
            works = [dist.isend(mine, right, tag=tag), dist.irecv(theirs, left, tag=tag)]
            for work in works:
                work.wait()
            check("isend", theirs, values_of(left, count, torch.float32, device))
    mine, theirs = values_of(rank, 100000, torch.float32, device), torch.zeros(200000, device=device)[::2]
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, theirs, left)]):
        work.wait()
    check("batch", theirs, values_of(left, 100000, torch.float32, device))
    theirs.zero_()
    with dist._coalescing_manager(device=device, async_ops=True) as manager:
        dist.isend(mine, right)
        dist.irecv(theirs, left)
    manager.wait()
    check("coalesced", theirs, values_of(left, 100000, torch.float32, device))
    strided = [torch.zeros(20000, device=device)[::2] for _ in range(3)]
    with dist._coalescing_manager(device=mine.device, async_ops=True) as manager:
        for index, each in enumerate(strided):
            dist.isend((mine[:20000] + index)[::2], right)  # its copy, and the tensor itself, are gone at once
            dist.irecv(each, left)
    manager.wait()
    for index, each in enumerate(strided):
        check("strided", each, (values_of(left, 20000, torch.float32, device) + index)[::2])
    if rank == 0:
        dist.send(mine, 1)
    elif rank == 1:
        dist.recv(theirs, 0)
        check("recv", theirs, values_of(0, 100000, torch.float32, device))
    end()


def memory():
    """Symmetric tensors, peer views, puts with signals, local memory by its place."""
    import torch
    import torch.distributed as dist

    import isomer_shmem as iso
    rank, size, device = start()
    right, left = (rank + 1) % size, (rank - 1) % size
    inbox = iso.zeros(1000, dtype=torch.bfloat16, device="cuda")
    flag = iso.zeros(1, dtype=torch.int64, device="cuda")
    assert inbox.device == device and inbox.is_cuda
    mine = torch.full((1000,), 1.0 + rank, dtype=torch.bfloat16, device=device)
    for index in range(1, 4):
        iso.put_signal(inbox, mine * index, flag, index, rank=right)
        iso.wait(flag, index)
        check("put_signal", inbox, torch.full((1000,), (1.0 + left) * index, dtype=torch.bfloat16))
        iso.barrier()
    view = iso.peer(inbox, left)
    if view is None:
        print("pointers do not reach the other rank", flush=True)
    else:
        torch.cuda.synchronize()
        dist.barrier()
        check("peer", view, torch.full((1000,), (1.0 + (left - 1) % size) * 3, dtype=torch.bfloat16))
    dist.barrier()
    iso.put(inbox[5:10], mine[5:10], rank=right)
    iso.signal(flag, 10, rank=right, add=True)
    iso.wait(flag, 13, "==")
    assert iso.fetch(flag) == 13
    got = torch.zeros(1000, dtype=torch.bfloat16, device=device)
    iso.barrier()
    iso.get(got, inbox, rank=right)
    check("get", got[5:10], torch.full((5,), 1.0 + rank, dtype=torch.bfloat16))
    local = iso.empty(100 + rank, device="cuda", local=True).fill_(rank)
    places = [None] * size
    torch.cuda.synchronize()
    dist.all_gather_object(places, iso.place(local))
    theirs = torch.zeros(100 + right, device=device)
    iso.get(theirs, places[right])
    check("place", theirs, torch.full((100 + right,), float(right)))
    iso.synchronize()
    dist.barrier()
    del local
    iso.empty(1000, device="cuda", local=True)
    values = iso.zeros(100000, device="cuda").fill_(rank + 1)  # collectives in the library's memory
    dist.all_reduce(values)
    check("symmetric all_reduce", values, torch.full((100000,), size * (size + 1) / 2))
    iso.free(values, inbox, flag)
    end()


def pool():
    """Tensors of torch's allocator over the library's memory, in collectives, in several streams."""
    import torch
    import torch.distributed as dist

    import isomer_shmem as iso
    from isomer_shmem import _lib
    from ctypes import byref
    rank, size, device = start()
    mem_pool, lib, info = iso.mem_pool(), dist.group.WORLD.lease.world.lib, _lib.AddressInfo()
    for index in range(20):
        with torch.cuda.use_mem_pool(mem_pool):
            tensors = [torch.full((1000 * (each + 1),), float(rank + index), device=device) for each in range(5)]
        assert all(lib.shmemx_address_info(each.data_ptr(), byref(info)) == 0 for each in tensors)
        works = [dist.all_reduce(each, async_op=index % 2 == 0) for each in tensors]
        for work in works:
            if work is not None:
                work.wait()
        for each in tensors:
            check("pool", each, torch.full((each.numel(),), float(sum(range(size)) + size * index)))
        values = tensors[0].fill_(rank).view(10, 100)
        values = values.t() if rank == 0 else values  # of another layout on one rank: its copy is reachable, too
        dist.all_reduce(values)
        check("layouts", values, torch.full((100, 10) if rank == 0 else (10, 100), float(sum(range(size)))))
    try:
        with torch.cuda.use_mem_pool(mem_pool):
            torch.empty(1 << 42, dtype=torch.uint8, device=device)
        raise AssertionError("4 TiB were found")
    except torch.OutOfMemoryError:
        pass
    dist.all_reduce(values)
    check("after it", values, torch.full(values.shape, float(size * sum(range(size)))))
    end()


def of_other_allocator(settings):
    """Tensors of another allocator of torch, in collectives and beside memory of the library."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = settings
    import torch
    import torch.distributed as dist

    import isomer_shmem as iso
    rank, size, device = start()
    for count in SIZES + (25_000_003,):
        for index in range(3):  # the same addresses again, with other pages
            tensor = torch.full((count,), float(rank + index), device=device)
            dist.all_reduce(tensor)
            check(f"all_reduce {count}", tensor, torch.full((count,), float(sum(range(size)) + size * index)))
            output = torch.zeros(size * count, device=device)
            all_gather_single(output, tensor.fill_(rank))
            check(f"all_gather {count}", output, torch.arange(float(size)).repeat_interleave(count))
            del tensor, output
            torch.cuda.empty_cache()
    inbox, flag = iso.zeros(1000, device="cuda"), iso.zeros(1, dtype=torch.int64, device="cuda")
    iso.put_signal(inbox, torch.full((1000,), 1.0 + rank, device=device), flag, rank=(rank + 1) % size)
    iso.wait(flag)
    check("put_signal", inbox, torch.full((1000,), 1.0 + (rank - 1) % size))


def expandable_segments():
    of_other_allocator("expandable_segments:True")
    end()


def malloc_async():
    of_other_allocator("backend:cudaMallocAsync")
    import isomer_shmem as iso
    try:
        iso.mem_pool()
        raise AssertionError("mem_pool was not refused")
    except iso.IsomerError as error:
        assert "torch allocates by cudaMallocAsync" in str(error), error
    end()


def inference():
    """All-reduces in graphs of ten calls."""
    import torch

    from isomer_shmem.inference import AllReduce
    rank, size, device = start()
    reduce = AllReduce(None, device, 8 << 20)
    for tokens in (1, 16, 64, 512):
        hidden = torch.full((tokens, 8192), float(rank + 1), dtype=torch.bfloat16, device=device)
        if not reduce.should_use(hidden):
            raise AssertionError(f"{tokens} tokens are not taken")
        check("eager", reduce.all_reduce(hidden), torch.full(hidden.shape, size * (size + 1) / 2, dtype=torch.bfloat16))
        graph, outputs = torch.cuda.CUDAGraph(), []
        with reduce.capture(), torch.cuda.graph(graph):
            for index in range(10):
                outputs.append(reduce.all_reduce(hidden + index))
        for step in range(3):
            hidden.fill_(rank + step)
            graph.replay()
            for index, output in enumerate(outputs):
                check(f"graph {tokens} {index}", output, torch.full(
                    hidden.shape, float(sum(range(size)) + size * (step + index)), dtype=torch.bfloat16))
    residual, weight = torch.ones(16, 8192, device=device), torch.full((8192,), 2.0, device=device)
    out = reduce.all_reduce_rms_norm(torch.full((16, 8192), float(rank), device=device), residual, weight)
    check("residual", residual, torch.full((16, 8192), 1.0 + sum(range(size))))
    assert (out - 2).abs().max() < 1e-4
    for dtype, tokens, hidden in ((torch.bfloat16, 1, 8192), (torch.bfloat16, 67, 8192), (torch.float16, 9, 16384)):
        norms(reduce, dtype, tokens, hidden)
    assert not reduce.should_use(torch.zeros(4))
    end()


def norms(reduce, dtype, tokens, hidden):
    """One kernel in a graph: beside torch's norm, and each token with the bits that it has alone."""
    import torch
    rank, size = reduce._group.rank(), reduce._group.size()
    generator = torch.Generator().manual_seed(tokens)

    def values(*shape):
        return torch.randn(*shape, generator=generator).to(dtype)
    parts, before, weight = [values(tokens, hidden) for _ in range(size)], values(tokens, hidden), values(hidden).cuda()
    total = parts[0].float()
    for part in parts[1:]:
        total = total + part.float()
    expected = (before.float() + total.to(dtype).float()).to(dtype)
    mine, residual, out = parts[rank].cuda(), before.cuda(), torch.empty(tokens, hidden, dtype=dtype, device="cuda")
    short = torch.empty(tokens, hidden, dtype=torch.float8_e4m3fn, device="cuda")
    scales, start, graph = torch.empty(tokens, device="cuda"), residual.clone(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        residual.copy_(start)
        reduce.all_reduce_rms_norm(mine, residual, weight, out=out)
        residual.copy_(start)
        reduce.all_reduce_rms_norm(mine, residual, weight, out=short, scales=scales)
    graph.replay()
    check("residual of a norm", residual, expected)
    exact = torch.nn.functional.rms_norm(expected.double(), (hidden,), weight.cpu().double(), 1e-6)
    torch.testing.assert_close(out.cpu().double(), exact, rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(short.cpu().double() * scales.cpu()[:, None], exact, rtol=0.07, atol=float(scales.max()))
    for token in range(0, tokens, 7):
        again = before[token].cuda()
        row = reduce.all_reduce_rms_norm(mine[token], again, weight)
        check("a token alone", row, out[token].cpu())


def first_in_capture():
    """The first call of an AllReduce is in a graph, as vLLM may have it; between launches, larger tensors."""
    import torch

    from isomer_shmem.inference import AllReduce
    rank, size, device = start()
    reduce = AllReduce(None, device, 8 << 20)
    hidden = torch.zeros(16, 8192, dtype=torch.bfloat16, device=device)
    large = torch.full((512, 8192), 1.0 + rank, dtype=torch.bfloat16, device=device)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out = reduce.all_reduce(reduce.all_reduce(hidden) + 1)
    for step in range(3):
        hidden.fill_(rank + step)
        graph.replay()
        check("graph", out, torch.full(out.shape, float(size * (sum(range(size)) + size * step + 1)),
                                       dtype=torch.bfloat16))
        check("eager", reduce.all_reduce(large), torch.full(large.shape, size * (size + 1) / 2, dtype=torch.bfloat16))
    reduce.close()
    end()


def beside_gloo():
    """The default group is gloo's; FSDP2 by install(), and tensors and all-reduces of a group beside it."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    import isomer_shmem as iso
    from isomer_shmem.inference import AllReduce
    rank, size, device = start(backend="gloo")
    assert dist.get_backend() == "gloo"
    expected, model = reference_losses(size, torch), model_of(torch, device)
    mesh = init_device_mesh("cuda", (size,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    installed = iso.fsdp.install(model)
    for step, loss in enumerate(losses_of(model, rank, size, device, torch)):
        assert abs(loss - expected[step][rank]) < 1e-4, (step, loss, expected[step])
    assert installed.stats()["reduce_scatters"] >= 6
    reduce = AllReduce(None, device, 1 << 20)
    check("all_reduce", reduce.all_reduce(torch.full((1000,), 1.0 + rank, device=device)),
          torch.full((1000,), size * (size + 1) / 2))
    del model, installed, reduce
    torch.cuda.synchronize()
    dist.destroy_process_group()


def few_queues():
    """CUDA_DEVICE_MAX_CONNECTIONS=1: one sequence for all collectives, with a warning."""
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    import warnings

    import torch
    import torch.distributed as dist
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rank, size, device = start()
        for _ in range(3):
            tensor = torch.full((1000,), 1.0 + rank, device=device)
            output = torch.zeros(1000 * size, device=device)
            first = all_gather_single(output, tensor, async_op=True)
            second = dist.all_reduce(tensor, async_op=True)
            second.wait()
            first.wait()
            check("all_reduce", tensor, torch.full((1000,), size * (size + 1) / 2))
            check("all_gather", output, torch.arange(1.0, size + 1).repeat_interleave(1000))
    assert sum("CUDA_DEVICE_MAX_CONNECTIONS" in str(each.message) for each in caught) == 1
    end()


def model_of(torch, device):
    torch.manual_seed(3)
    layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), torch.nn.GELU(),
              torch.nn.Linear(64, 8)]
    return torch.nn.Sequential(*layers).to(device)


def losses_of(model, rank, size, device, torch, steps=6):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for step in range(steps):
        generator = torch.Generator().manual_seed(100 * step + rank)
        data = torch.randn(16, 64, generator=generator).to(device)
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def reference_losses(size, torch):
    """One process: the mean of all ranks' losses has the mean gradient."""
    model = model_of(torch, "cpu")
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for step in range(6):
        parts = []
        for rank in range(size):
            data = torch.randn(16, 64, generator=torch.Generator().manual_seed(100 * step + rank))
            parts.append(model(data).square().mean())
        (sum(parts) / size).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append([part.item() for part in parts])
    return losses


def fsdp(install=False):
    """FSDP2 of a small model: losses of one process on the CPU."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    import isomer_shmem
    if install:  # small calls by copy engines, too
        os.environ["SHMEM_COLL"] = "stream.fcollect=engines,stream.reducescatter=engines:8x128"
    rank, size, device = start()
    expected = reference_losses(size, torch)
    for reshard in (True, False):
        model, mesh = model_of(torch, device), init_device_mesh("cuda", (size,))
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
        installed = isomer_shmem.fsdp.install(model) if install else None
        losses = losses_of(model, rank, size, device, torch)
        for step, loss in enumerate(losses):
            assert abs(loss - expected[step][rank]) < 1e-4, (step, loss, expected[step])
        if installed:
            assert installed.stats()["all_gathers"] >= 6 and installed.stats()["reduce_scatters"] >= 6
            assert installed.stats()["by_engines"] > 0, installed.stats()
            print(installed.stats(), flush=True)
            installed.remove()
        torch.cuda.synchronize()
    end()


def fsdp_installed():
    fsdp(True)


def fsdp_parts():
    """Parameters and gradients without FSDP2's copies: the bits of the same steps with them, and of torch's own. The
    host waits for no step, so memory is used again while the GPU is behind."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    import isomer_shmem
    rank, size, device = start()
    mesh = init_device_mesh("cuda", (size,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

    def steps(reshard, way):
        torch.manual_seed(3)
        with device:
            model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(1024, 3001), torch.nn.ReLU(),
                                                              torch.nn.Linear(3001, 1024)) for _ in range(6)))
        for layer in model:
            fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
        installed = isomer_shmem.fsdp.install(model, copies=way == "copies") if way != "torch" else None
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        torch.manual_seed(rank)
        values, losses = torch.randn(512, 1024, device=device, dtype=torch.bfloat16), []
        for _ in range(12):
            loss = model(values).float().square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        if way == "parts":
            stats = installed.stats()
            assert stats["by_parts"] >= 12 * 6 * 2, stats
            print(stats, flush=True)
        if installed is not None:
            installed.remove()
        return torch.cat([torch.stack(losses), *(parameter.full_tensor().flatten() for parameter in model.parameters())])
    for reshard in (True, False):
        expected = steps(reshard, "torch")
        for way in ("copies", "parts", "parts"):
            check(f"{way}, reshard {reshard}", steps(reshard, way), expected)
    end()


def ddp():
    import torch
    rank, size, device = start()
    expected = reference_losses(size, torch)
    model = torch.nn.parallel.DistributedDataParallel(model_of(torch, device), device_ids=[device.index])
    for step, loss in enumerate(losses_of(model, rank, size, device, torch)):
        assert abs(loss - expected[step][rank]) < 1e-4, (step, loss, expected[step])
    del model
    end()


def functional():
    """Collectives as torch.compile and DTensor call them."""
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol
    rank, size, device = start()
    mine = values_of(rank, 1000, torch.float32, device)
    every = [values_of(member, 1000, torch.float32, device) for member in range(size)]
    check("all_reduce", funcol.all_reduce(mine, "sum", dist.group.WORLD) + 0, sum(every))
    check("all_gather", funcol.all_gather_tensor(mine, 0, dist.group.WORLD) + 0, torch.cat(every))
    check("reduce_scatter", funcol.reduce_scatter_tensor(torch.cat(every), "sum", 0, dist.group.WORLD) + 0,
          every[rank] * size)
    end()


def compiled():
    """Collectives and products in functions that torch.compile takes whole; and DDP of a compiled model."""
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol
    rank, size, device = start()
    weight = torch.full((8, 8), 0.5, device=device)

    def layer(x):
        total = funcol.all_reduce(x @ weight, "sum", dist.group.WORLD)
        every = funcol.all_gather_tensor(torch.relu(total) + 1, 0, dist.group.WORLD)
        return funcol.reduce_scatter_tensor(every * 2, "sum", 0, dist.group.WORLD)
    whole = torch.compile(layer, fullgraph=True)
    for step in range(3):
        mine = torch.full((16, 8), float(rank + step), device=device)
        total = 8 * 0.5 * (sum(range(size)) + size * step)
        expected = torch.full((16, 8), 2.0 * size * (total + 1))
        check("eager", layer(mine), expected)
        check("compiled", whole(mine), expected)
    losses = reference_losses(size, torch)
    model = torch.nn.parallel.DistributedDataParallel(model_of(torch, device), device_ids=[device.index])
    for step, loss in enumerate(losses_of(torch.compile(model), rank, size, device, torch)):
        assert abs(loss - losses[step][rank]) < 1e-4, (step, loss, losses[step])
    del model
    end()


def split():
    """dist.split_group by the default group's device, and a split of a split."""
    import torch
    import torch.distributed as dist
    rank, size, device = start()
    dist.group.WORLD.bound_device_id = device
    for _ in range(2):
        every = dist.split_group(split_ranks=[list(range(size))])
        tensor = torch.full((1000,), float(rank + 1), device=device)
        dist.all_reduce(tensor, group=every)
        check("all", tensor, torch.full((1000,), size * (size + 1) / 2))
        alone = dist.split_group(split_ranks=[[member] for member in range(size)])
        assert dist.get_process_group_ranks(alone) == [rank] and dist.get_backend(alone) == "isomer"
        dist.all_reduce(tensor, group=alone)
        check("alone", tensor, torch.full((1000,), size * (size + 1) / 2))
        dist.broadcast(tensor, size - 1, group=every)
        dist.barrier(every)
        dist.destroy_process_group(alone)
        dist.destroy_process_group(every)
    end()


def triton_signal():
    """A kernel of Triton puts with a signal and waits for one."""
    import torch
    try:
        import triton
        import triton.language as tl  # noqa: F401

        import isomer_shmem.triton as shmem
        shmem.bitcode("cuda")
    except Exception as error:
        raise Skip(f"{type(error).__name__}: {error}") from None
    import isomer_shmem as iso
    import triton_kernels
    rank, size, device = start()
    inbox = iso.zeros(4096, dtype=torch.float32, device="cuda")
    flag = iso.zeros(1, dtype=torch.int64, device="cuda")
    handle = shmem.handle(None)
    for index in range(1, 4):
        mine = torch.full((4096,), float(100 * rank + index), device=device)
        triton_kernels.ring[(1,)](handle, inbox, mine, flag, 4096, index, **shmem.options())
        check("put_signal", inbox, torch.full((4096,), float(100 * ((rank - 1) % size) + index)))
        iso.barrier()
    del triton
    end()


def device_zero():
    """All ranks on GPU 0, whatever LOCAL_RANK says."""
    import torch
    import torch.distributed as dist
    os.environ["LOCAL_RANK"] = os.environ["RANK"]
    rank, size, device = start(number=0)
    assert device.index == 0 and dist.group.WORLD.lease.world.device_number == 0
    tensor = torch.full((10,), float(rank), device=device)
    dist.all_reduce(tensor)
    check("all_reduce", tensor, torch.full((10,), float(sum(range(size)))))
    end()


def device_id():
    """init_process_group(device_id=...)."""
    import torch
    import torch.distributed as dist

    import isomer_shmem  # noqa: F401
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("isomer", init_method="file://" + os.environ["STORE"], rank=rank, world_size=size,
                            device_id=device)
    tensor = torch.full((10,), float(rank), device=device)
    dist.all_reduce(tensor)
    check("all_reduce", tensor, torch.full((10,), float(sum(range(size)))))
    dist.barrier()
    end()


def groups():
    """Groups of some ranks, and a group beside one of gloo."""
    import torch
    import torch.distributed as dist
    rank, size, device = start()
    alone = [dist.new_group([member]) for member in range(size)]
    back = dist.new_group(list(range(size)))
    for _ in range(3):
        tensor = torch.full((1000,), float(rank), device=device)
        dist.all_reduce(tensor, group=alone[rank])
        check("alone", tensor, torch.full((1000,), float(rank)))
        dist.all_reduce(tensor, group=back)
        check("again", tensor, torch.full((1000,), float(sum(range(size)))))
    dist.destroy_process_group(back)
    end()


def late_peer():
    """A rank that does not come: an error after the group's time."""
    import torch
    import torch.distributed as dist
    rank, size, device = start(seconds=4)
    tensor = torch.zeros(100, device=device)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    if rank == 0:
        begin = time.monotonic()
        work = dist.all_reduce(tensor, async_op=True)
        try:
            work.wait(timedelta(seconds=60))
            raise AssertionError("no error")
        except dist.DistBackendError as error:
            print(f"after {time.monotonic() - begin:.1f} s: {error}", flush=True)
        try:
            dist.all_reduce(tensor)
            raise AssertionError("no error at the next call")
        except dist.DistBackendError:
            pass
    else:
        time.sleep(10)

def killed_peer():
    """A rank that is killed: an error for the other one within seconds."""
    import torch
    import torch.distributed as dist
    rank, size, device = start()
    tensor = torch.zeros(100, device=device)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    if rank == size - 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    work = dist.all_reduce(tensor, async_op=True)
    try:
        work.wait(timedelta(seconds=50))
        raise AssertionError("no error")
    except dist.DistBackendError as error:
        print(f"after {time.monotonic() - begin:.1f} s: {error}", flush=True)
    assert time.monotonic() - begin < 40


TESTS = [first_call, reductions, reductions_async, moves, moves_async, large, host_tensors, streams, graphs,
         messages, memory, pool, inference, fsdp, fsdp_installed, fsdp_parts, ddp, functional, compiled, triton_signal,
         split, device_zero, device_id, groups, first_in_capture, beside_gloo, few_queues, expandable_segments,
         malloc_async, late_peer, killed_peer]
# In processes of their own, which end with the test.
ALONE = ("few_queues", "expandable_segments", "malloc_async", "late_peer", "killed_peer")
DIES = {"killed_peer": -signal.SIGKILL}  # how the last rank ends


# ---- the processes ----

def why_not():
    """Why nothing can run here; None where it can."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "torch has no GPU here"
    import isomer_shmem
    try:
        isomer_shmem.load()
    except isomer_shmem.IsomerError as error:
        return str(error)
    if isomer_shmem._lib.flavour() == "cpu":
        return "ISOMER_LIB names the CPU flavour of the library"
    return None


class Ranks:
    """Processes that run tests one after the other. Each writes a line into its file at the end of a test."""

    def __init__(self, names):
        self._folder = tempfile.TemporaryDirectory()
        self._processes, self._outputs = [], []
        for rank in range(RANKS):
            self._outputs.append(open(os.path.join(self._folder.name, str(rank)), "w+"))
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
                           "STORES": self._folder.name}
            self._processes.append(subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "--rank", *names], env=environment,
                stdout=self._outputs[-1], stderr=subprocess.STDOUT, start_new_session=True))

    def _text(self, rank, name):
        """What a rank has printed in one test."""
        with open(os.path.join(self._folder.name, str(rank)), errors="replace") as file:
            return file.read().partition(f"== begin {name}\n")[2].partition("== begin ")[0]

    def wait(self, name, seconds):
        """(PASS, FAIL or SKIP, text) of the next test. After FAIL, no test is left running."""
        limit, failing, codes = time.monotonic() + seconds, False, []
        while time.monotonic() < limit:
            codes = [process.poll() for process in self._processes]
            texts = [self._text(rank, name) for rank in range(RANKS)]
            ends = [next((line[7:] for line in text.splitlines() if line.startswith("== end ")), None)
                    for text in texts]
            ended = [end or (f"ended with {code}" if code is not None else None) for end, code in zip(ends, codes)]
            expected = ["PASS"] * (RANKS - 1) + [f"ended with {DIES[name]}" if name in DIES else "PASS"]
            if ended == expected:
                return "PASS", "\n".join(texts)
            if ended == ["SKIP"] * RANKS:
                return "SKIP", texts[0]
            if not failing and any(end not in (None, wanted, "SKIP") for end, wanted in zip(ended, expected)):
                limit, failing = min(limit, time.monotonic() + 10), True  # the others may still tell why
            if all(code is not None for code in codes):
                break
            time.sleep(0.05)
        texts = [self._text(rank, name) for rank in range(RANKS)]
        self.kill()
        return "FAIL", "\n".join(f"rank {rank}, {'has not ended' if codes[rank] is None else codes[rank]}:\n"
                                 f"{text[-5000:]}" for rank, text in enumerate(texts))

    def kill(self):
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait(20)
        for output in self._outputs:
            output.close()
        self._folder.cleanup()


def results(names):
    """(name, outcome, seconds, text) of each test. A test that fails behind others is tried again alone."""
    left = list(names)
    while left:
        batch = [left[0]] if left[0] in ALONE else left[:next((i for i, name in enumerate(left) if name in ALONE),
                                                              len(left))]
        ranks, outcome = Ranks(batch), "PASS"
        for index, name in enumerate(batch):
            begin = time.monotonic()
            outcome, text = ranks.wait(name, LIMIT_SECONDS)
            if outcome == "FAIL" and index > 0:
                alone = Ranks([name])
                outcome, again = alone.wait(name, LIMIT_SECONDS)
                alone.kill()
                text = f"behind {batch[index - 1]} it has failed:\n{text}\nalone, {outcome}:\n{again}"
                outcome = "PASS alone, FAIL behind others" if outcome == "PASS" else outcome
            left.pop(0)
            yield name, outcome, time.monotonic() - begin, text
            if "FAIL" in outcome:
                break
        ranks.kill()


def run_ranks(names):
    """The life of one rank."""
    import faulthandler
    for name in names:
        print(f"== begin {name}", flush=True)
        os.environ["STORE"] = os.path.join(os.environ["STORES"], "store_" + name)
        faulthandler.dump_traceback_later(LIMIT_SECONDS - 15, exit=False)
        outcome = "PASS"
        try:
            next(test for test in TESTS if test.__name__ == name)()
        except Skip as reason:
            print(reason, flush=True)
            outcome = "SKIP"
        except BaseException:
            traceback.print_exc()
            outcome = "FAIL"
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.flush()
        sys.stderr.flush()
        print(f"== end {outcome}", flush=True)
        if outcome == "FAIL" or name in ALONE:
            os._exit(outcome == "FAIL")
    os._exit(0)


def main(names):
    reason = why_not()
    if reason:
        print(f"SKIP all: {reason}")
        return 0
    known = [test.__name__ for test in TESTS]
    unknown = set(names) - set(known)
    if unknown:
        print(f"there are no tests {', '.join(sorted(unknown))}")
        return 2
    failed = 0
    for name, outcome, seconds, text in results([name for name in known if not names or name in names]):
        print(f"{outcome} {name} {seconds:.1f} s", flush=True)
        if outcome != "PASS" or os.environ.get("ISOMER_TEST_VERBOSE"):
            print(text, flush=True)
        failed += "FAIL" in outcome
    print(f"{failed} failed")
    return 1 if failed else 0


try:
    import pytest
except ImportError:
    pytest = None
if pytest is not None:
    @pytest.mark.parametrize("name", [test.__name__ for test in TESTS])
    def test_on_gpu(name):
        reason = why_not()
        if reason:
            pytest.skip(reason)
        (_, outcome, _, text), = results([name])
        if outcome == "SKIP":
            pytest.skip(text)
        assert outcome == "PASS", text


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        run_ranks(sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
