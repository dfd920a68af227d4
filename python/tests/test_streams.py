# SPDX-License-Identifier: MIT
"""Calls on streams, by CPU tensors and the CPU device's streams: each collective beside a reference, asynchronous
calls, order, messages, errors. tests/test_cuda.py runs the same on a GPU."""
import gc
import os
import re
import time
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import host_streams
from conftest import tell, wait_for
from host_streams import settle
from test_group import check_wrong_calls
from torch_names import all_gather_single, reduce_scatter_single

SIZES = (1, 7, 1000, 70001)
LARGE = (7, 1251, 9001)  # of `large`: up to 15 pieces


def values_of(rank, count, dtype):
    return (torch.arange(count) * 3 + 5 * rank).remainder(11).to(dtype)


def start(ends_badly=False, **options):
    from isomer_shmem import _device
    _device.for_tests, host_streams.HostStreams.ends_badly = host_streams.HostStreams, ends_badly
    dist.init_process_group("isomer", **options)
    return dist.get_rank(), dist.get_world_size()


def reductions(is_async, counts=SIZES):
    rank, size = start()
    with host_streams.on():
        for count in counts:
            for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.bool, torch.complex64):
                all_values = [values_of(member, count, dtype) for member in range(size)]
                total = torch.stack(all_values).any(0) if dtype == torch.bool else sum(all_values)
                mine = all_values[rank].clone()
                run(dist.all_reduce, mine, async_op=is_async)
                assert torch.equal(mine, total), (count, dtype)
                if dtype.is_complex or dtype == torch.bool:
                    continue
                if dtype == torch.float32:
                    mine = all_values[rank].clone()
                    run(dist.all_reduce, mine, dist._make_nccl_premul_sum(0.5), async_op=is_async)
                    assert torch.equal(mine, total * 0.5)
                mine = all_values[rank].clone()
                run(dist.reduce, mine, size - 1, dist.ReduceOp.MAX, async_op=is_async)
                if rank == size - 1:
                    assert torch.equal(mine, torch.stack(all_values).amax(0))
                source = torch.cat([all_values[rank] + member for member in range(size)]).to(dtype)
                output = torch.full((count,), -1, dtype=dtype)
                run(reduce_scatter_single, output, source, async_op=is_async)
                assert torch.equal(output, (total + size * rank).to(dtype))
                outputs = torch.full((count,), -1, dtype=dtype)
                run(dist.reduce_scatter, outputs, list(source.split(count)), async_op=is_async)
                assert torch.equal(outputs, output)
    dist.destroy_process_group()


def run(call, *arguments, async_op):
    work = call(*arguments, async_op=async_op)
    if async_op:
        work.wait()
    settle()


def moves(is_async, counts=SIZES):
    rank, size = start()
    with host_streams.on():
        for count in counts:
            for dtype in (torch.float32, torch.float16, torch.uint8):
                check_moves(rank, size, count, dtype, is_async)
        dist.barrier()
    dist.destroy_process_group()


def check_moves(rank, size, count, dtype, is_async):
    all_values = [values_of(member, count, dtype) for member in range(size)]
    joined = torch.cat(all_values)
    output = torch.zeros(size * count, dtype=dtype)
    run(all_gather_single, output, all_values[rank], async_op=is_async)
    assert torch.equal(output, joined)
    output = torch.zeros(size * count, dtype=dtype)
    own = output[rank * count:(rank + 1) * count].copy_(all_values[rank])
    run(all_gather_single, output, own, async_op=is_async)
    assert torch.equal(output, joined)
    wide = torch.zeros(2 * size * count, dtype=dtype)[::2]  # not contiguous
    run(all_gather_single, wide, all_values[rank], async_op=is_async)
    assert torch.equal(wide, joined)
    outputs = [torch.zeros(count + member, dtype=dtype) for member in range(size)]
    run(dist.all_gather, outputs, values_of(rank, count + rank, dtype), async_op=is_async)
    assert all(torch.equal(outputs[member], values_of(member, count + member, dtype)) for member in range(size))
    mine = all_values[rank].clone()
    run(dist.broadcast, mine, size - 1, async_op=is_async)
    assert torch.equal(mine, all_values[size - 1])
    output = torch.zeros(count, dtype=dtype)
    run(dist.scatter, output, [value + 1 for value in all_values] if rank == 0 else None, 0, async_op=is_async)
    assert torch.equal(output, all_values[rank] + 1)
    outputs = [torch.zeros(count, dtype=dtype) for _ in range(size)] if rank == 0 else None
    run(dist.gather, all_values[rank], outputs, 0, async_op=is_async)
    assert rank != 0 or torch.equal(torch.cat(outputs), joined)
    sends, receives = [rank + member for member in range(size)], [member + rank for member in range(size)]
    source = torch.full((sum(sends),), rank + 1, dtype=dtype)
    output = torch.zeros(sum(receives), dtype=dtype)
    work = dist.all_to_all_single(output, source, receives, sends, async_op=is_async)
    if is_async:
        work.wait()
    settle()
    assert torch.equal(output, torch.cat([torch.full((n,), member + 1, dtype=dtype)
                                          for member, n in enumerate(receives)]))
    outputs = [torch.zeros(count, dtype=dtype) for _ in range(size)]
    run(dist.all_to_all, outputs, [all_values[rank] + member for member in range(size)], async_op=is_async)
    assert all(torch.equal(outputs[member], all_values[member] + rank) for member in range(size))


BY_ENGINES = "stream.fcollect=engines_staged,stream.allreduce=engines:2x64,stream.reducescatter=engines:2x64"
BETWEEN_NODES = ("stream.fcollect=hier_staged,stream.allreduce=hier_staged,stream.reducescatter=hier_staged,"
                 "stream.broadcast=read_staged")


def large(is_async, stage_bytes=40 << 10, forced=BY_ENGINES):
    """The way of large tensors, in several pieces, by small ones."""
    from isomer_shmem import _stream
    _stream.STAGE_BYTES = stage_bytes
    os.environ["SHMEM_COLL"] = forced
    reductions(is_async, LARGE)
    moves(is_async, LARGE)
    rank, size = start()
    with torch.inference_mode():
        output = torch.zeros(500)
    with host_streams.on():
        run(reduce_scatter_single, output, torch.arange(500.0 * size), async_op=is_async)
    assert torch.equal(output, size * (torch.arange(500.0) + 500 * rank))
    dist.destroy_process_group()


def large_on_nodes():
    """The same where devices do not reach each other by pointers: no engines."""
    from isomer_shmem import _pairs, _stream
    os.environ["SHMEM_VIRTUAL_NODES"] = "0,1,0"
    large(True, forced=BETWEEN_NODES)
    _pairs.Pairs.is_near = property(lambda pairs: False, lambda pairs, value: None)
    _stream.FAR_STAGE_BYTES = 40 << 10
    large(False, 0, BETWEEN_NODES)


def by_engines():
    """FSDP2's all-gathers in buffers at one place: contents, turns, a view that is kept, a later group, another one."""
    from isomer_shmem import _lib, fsdp
    from isomer_shmem.pg import group_of
    os.environ["SHMEM_COLL"] = "stream.fcollect=engines"
    rank, size = start()
    evens = dist.new_group(list(range(0, size, 2)))
    with host_streams.on():
        gather = fsdp.AllGather(dist.group.WORLD)
        kept = [check_gather(gather, rank, size, 1000, step) for step in range(3)]
        places = {tensor.data_ptr() for tensor in kept}
        rings = group_of(None).lease.pairs.rings
        assert len(places) == 3 and [ring.buffers for ring in rings.values()] == [3]
        for step, tensor in enumerate(kept):
            assert torch.equal(tensor, gathered(size, 1000, step))
        del kept, tensor
        gc.collect()
        turns = [check_gather(gather, rank, size, 1000 - step, step).data_ptr() for step in range(6)]
        assert set(turns) == places and turns[:3] == turns[3:]  # in turn, and smaller ones too
        kept = check_gather(gather, rank, size, 1000, 7)[5:9]
        for step in range(7):
            assert check_gather(gather, rank, size, 1000, step).data_ptr() != kept.data_ptr() - 20
        assert torch.equal(kept, gathered(size, 1000, 7)[5:9]) and gather.by_engines == 17
        assert [ring.buffers for ring in rings.values()] == [3]  # the one that is kept is passed over
        core = group_of(None).queue().core
        values = torch.zeros(100 * size)
        assert not core.says_engines(_lib.FCOLLECT, values.data_ptr(), values.data_ptr() + 4000, 8, _lib.UINT8)
        again = fsdp.AllGather(dist.group.WORLD)
        assert check_gather(again, rank, size, 1000, 0).data_ptr() in group_of(None).lease.pairs.at_one_place
        if rank % 2 == 0 and size > 2:
            check_gather(fsdp.AllGather(evens), rank // 2, (size + 1) // 2, 5000, 1, evens)
        kept = None
        settle()
    dist.destroy_process_group()


def gathered(size, count, step):
    return torch.cat([values_of(member + step, count, torch.float32) for member in range(size)])


def check_gather(gather, rank, size, count, step, group=None):
    output = gather.allocate((size * count,), dtype=torch.float32, device=torch.device("cpu")).fill_(-1)
    own = output[rank * count:(rank + 1) * count].copy_(values_of(rank + step, count, torch.float32))
    gather(output, own, group)
    settle()
    assert torch.equal(output, gathered(size, count, step)), (count, step)
    return output


def works():
    """An asynchronous call behind one that waits for a peer; what its Work says; what keeps tensors alive."""
    rank, size = start()
    with host_streams.on():
        mine = torch.ones(1000)
        dist.all_reduce(mine)  # makes the slot
        settle()
        if rank == 0:
            wait_for("asked", range(1, size))
        held = torch.full((1000,), float(rank))
        work, alive = dist.all_reduce(held, async_op=True), weakref.ref(held)
        del held
        if rank != 0:
            assert not work.is_completed() and not work.is_success()
            with pytest.raises(dist.DistBackendError, match="not done after 0.05 s"):
                work.wait(timedelta(seconds=0.05))
            tell("asked")
        future = work.get_future()
        work.wait(timedelta(seconds=20))
        assert work.is_completed() and work.is_success() and work.exception() is None
        assert future.value()[0].eq(sum(range(size))).all()
        work.synchronize()
        del work, future
        last = torch.zeros(1)
        dist.all_reduce(last, async_op=True).wait()
        settle()
        dist.all_reduce(last, async_op=True).wait()
        gc.collect()
        assert alive() is None
        settle()
    dist.destroy_process_group()


def order():
    """Calls of one slot in turn in two streams; a chain of dependent calls without the host."""
    rank, size = start()
    with host_streams.on():
        streams = host_streams.streams()
        other, mine = streams.new(), torch.full((5000,), 1.0)
        for index in range(20):
            if index % 2 == rank % 2:
                dist.all_reduce(mine, async_op=True).wait()
            else:
                event = streams.event(streams.current())
                other.wait_event(event)
                with streams.use(other):
                    dist.all_reduce(mine)
                streams.current().wait_event(streams.event(other))
            if index % 4 == 3:
                dist.all_reduce(mine, dist.ReduceOp.AVG)
        settle()
        assert mine.eq(float(size) ** 20).all(), mine[0]
    dist.destroy_process_group()


def messages():
    rank, size = start()
    right, left = (rank + 1) % size, (rank - 1) % size
    with host_streams.on():
        for count in (0, 1, 1000, 300000):
            for tag in (0, 3, 11):
                mine, theirs = values_of(rank, count, torch.float32), torch.full((count,), -1.0)
                sent = dist.isend(mine, right, tag=tag)  # all send first
                received = dist.irecv(theirs, left, tag=tag)
                received.wait()
                sent.wait()
                settle()
                assert torch.equal(theirs, values_of(left, count, torch.float32))
        mine, theirs = values_of(rank, 100000, torch.float32), torch.zeros(200000)[::2]
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, theirs, left)]):
            work.wait()
        settle()
        assert torch.equal(theirs, values_of(left, 100000, torch.float32))
        theirs.zero_()
        with dist._coalescing_manager(device=mine.device, async_ops=True) as manager:
            dist.isend(mine, right)
            dist.irecv(theirs, left)
        manager.wait()
        settle()
        assert torch.equal(theirs, values_of(left, 100000, torch.float32))
        theirs = [torch.zeros(20000)[::2] for _ in range(3)]
        with dist._coalescing_manager(device=mine.device, async_ops=True) as manager:
            for index, each in enumerate(theirs):
                dist.isend((mine[:20000] + index)[::2], right)  # its copy, and the tensor itself, are gone at once
                dist.irecv(each, left)
        manager.wait()
        settle()
        for index, each in enumerate(theirs):
            assert torch.equal(each, (values_of(left, 20000, torch.float32) + index)[::2])
        with pytest.raises(NotImplementedError, match="name the source"):
            dist.recv(mine)
    dist.destroy_process_group()


def prepared():
    """After prepare(), no call waits for the other ranks on the host."""
    import isomer_shmem as iso
    rank, size = start()
    with host_streams.on():
        iso.prepare()
        settle()
        if rank == 0:
            wait_for("has called", range(1, size))
        values, output = torch.full((100,), 1.0), torch.zeros(100 * size)
        dist.all_reduce(values)
        all_gather_single(output, values)
        dist.broadcast(output, 0)
        reduce_scatter_single(values, output)
        tell("has called")
        settle()
        assert values.eq(size * size).all()
    dist.destroy_process_group()


def coalesced():
    rank, size = start()
    with host_streams.on():
        tensors = [torch.full((count,), float(rank)) for count in SIZES]
        with dist._coalescing_manager(device=tensors[0].device, async_ops=True) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        manager.wait()
        settle()
        assert all(tensor.eq(sum(range(size))).all() for tensor in tensors)
        outputs = [torch.zeros(size * count) for count in SIZES]
        with dist._coalescing_manager(device=tensors[0].device):
            for output, count in zip(outputs, SIZES):
                all_gather_single(output, torch.full((count,), float(rank)))
        settle()
        assert all(torch.equal(output, torch.arange(float(size)).repeat_interleave(count))
                   for output, count in zip(outputs, SIZES))
    dist.destroy_process_group()


def mixed():
    """Groups of some ranks; host calls of the same groups between those on streams; wrong arguments."""
    rank, size = start()
    with host_streams.on():
        check_wrong_calls(rank, size, settle)
        expanded = torch.ones(1).expand(4) if rank == 1 else torch.zeros(4)  # the root only reads its tensor
        dist.broadcast(expanded, 1)
        settle()
        assert expanded.eq(1).all()
    pair = dist.new_group([0, 1])
    for index in range(10):
        values = torch.full((100,), 1.0 + rank)
        with host_streams.on():
            dist.all_reduce(values)
            if rank < 2:
                dist.all_reduce(values, group=pair)
        gathered = [None] * size
        dist.all_gather_object(gathered, (rank, index))
        assert gathered == [(member, index) for member in range(size)]
        settle()
        total = sum(range(1, size + 1))
        assert values.eq(total * 2 if rank < 2 else total).all()
    dist.destroy_process_group()


def one_sided():
    """Puts, gets and signals on memory of the device, in the current stream."""
    import isomer_shmem as iso
    rank, size = start()
    right, left = (rank + 1) % size, (rank - 1) % size
    with host_streams.on():
        streams = host_streams.streams()
        inbox, flag = iso.empty(1000, for_kernels=True), iso.empty(1, dtype=torch.int64, for_kernels=True)
        seen, mine = torch.zeros(1000), torch.arange(1000.0)
        flag.zero_()
        iso.barrier(device="cpu")
        for index in range(1, 6):
            streams.settle()
            mine += rank
            iso.put_signal(inbox, mine, flag, index, rank=right)
            assert iso.wait(flag, index) is None
            iso.get(seen, iso.place(inbox))  # a copy of my own, in the stream's order
            iso.barrier()
            settle()
            assert torch.equal(seen, torch.arange(1000.0) + index * left)
        iso.put(inbox[:10], mine[:10], rank=right)
        iso.signal(flag, 7, rank=right, add=True)
        iso.wait(flag, 12, "==")
        assert iso.fetch(flag) == 12  # behind the wait
        iso.quiet()
        iso.synchronize()
        assert torch.equal(inbox[:10], torch.arange(10.0) + 5 * left)
        iso.barrier(device="cpu")
        local = iso.empty(100, local=True, for_kernels=True)
        del local
        assert iso.empty(100, local=True, for_kernels=True).numel() == 100
        iso.free(inbox, flag)
    dist.destroy_process_group()


def inference():
    from isomer_shmem.inference import AllReduce
    rank, size = start()
    with host_streams.on():
        reduce = AllReduce(None, "cpu", 4 << 20)
        with reduce.capture():
            for count in (1, 1001, 100000, 1 << 20):
                for dtype in (torch.bfloat16, torch.float32):
                    values = [values_of(member, count, dtype) for member in range(size)]
                    assert reduce.should_use(values[rank]) == (values[rank].nbytes <= 4 << 20)
                    settle()
                    out = reduce.all_reduce(values[rank])
                    settle()
                    assert torch.equal(out, sum(values)), (count, dtype)
                    settle()
                    assert reduce.all_reduce(values[rank], out=values[rank]) is values[rank]
                    settle()
                    assert torch.equal(out, values[rank])
        import isomer_shmem as iso
        mixed = torch.empty(100000)  # peers reach that of rank 0 alone
        if rank == 0:
            mixed = iso.empty(100000, local=True, for_kernels=True)
            assert reduce._queue.core.is_reachable(mixed)
        values = [values_of(member, 100000, torch.float32) for member in range(size)]
        for out in (mixed, torch.empty(100000)):
            mixed.copy_(values[rank])
            settle()
            reduce.all_reduce(mixed, out=out)
            settle()
            assert torch.equal(out, sum(values))
    dist.destroy_process_group()


def norm_by_torch(residual, weight, eps):
    wide = residual.double()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.double()


def norms():
    """One kernel: beside torch in double, and token by token with the same bits."""
    from isomer_shmem.inference import AllReduce
    rank, size = start()
    generator = torch.Generator().manual_seed(3)
    with host_streams.on():
        reduce = AllReduce(None, "cpu", 4 << 20)
        for dtype, hidden, tokens in ((torch.float32, 1000, 5), (torch.bfloat16, 8192, 3), (torch.float16, 4104, 17),
                                      (torch.bfloat16, 1024, 0)):
            parts = [torch.randn(tokens, hidden, generator=generator).to(dtype) for _ in range(size)]
            before, weight = (torch.randn(*shape, generator=generator).to(dtype)
                              for shape in ((tokens, hidden), (hidden,)))
            total = parts[0].float()
            for part in parts[1:]:
                total = total + part.float()
            expected, within = (before.float() + total.to(dtype).float()).to(dtype), {"rtol": 1e-2, "atol": 1e-3}
            residual, out = before.clone(), torch.full((tokens, hidden), -1, dtype=dtype)
            if tokens == 0:
                assert reduce.all_reduce_rms_norm(parts[rank], residual, weight) is None
                continue
            assert reduce.all_reduce_rms_norm(parts[rank], residual, weight, 1e-5, out) is out
            settle()
            assert torch.equal(residual, expected)
            exact = norm_by_torch(expected, weight, 1e-5)
            torch.testing.assert_close(out.double(), exact, **within)
            for shift in (0, 1):  # at any address, in part of a larger tensor
                again = torch.empty(tokens * hidden + 8, dtype=dtype)[shift:shift + tokens * hidden].view(tokens, hidden)
                again.copy_(before)
                for token in range(tokens):
                    row = reduce.all_reduce_rms_norm(parts[rank][token], again[token], weight, 1e-5)
                    settle()
                    assert torch.equal(row, out[token]) and torch.equal(again[token], residual[token])
            short, scales = torch.empty(tokens, hidden, dtype=torch.float8_e4m3fn), torch.empty(tokens, 1)
            residual.copy_(before)
            reduce.all_reduce_rms_norm(parts[rank], residual, weight, 1e-5, short, scales=scales)
            settle()
            torch.testing.assert_close(scales.double(), exact.abs().amax(-1, keepdim=True) / 448, rtol=1e-5, atol=0)
            torch.testing.assert_close(short.double() * scales, exact, rtol=0.07, atol=float(scales.max()))
            fixed = torch.tensor([0.01])
            residual.copy_(before)
            reduce.all_reduce_rms_norm(parts[rank], residual, weight, 1e-5, short, scale=fixed)
            settle()
            torch.testing.assert_close(short.double() * 0.01, exact.clamp(-4.48, 4.48), rtol=0.07, atol=0.01)
        wrong_norms(reduce)
    dist.destroy_process_group()


def wrong_norms(reduce):
    hidden, weight, e4m3 = torch.ones(2, 16), torch.ones(16), torch.empty(2, 16, dtype=torch.float8_e4m3fn)
    for match, options in (
            ("residual is torch.float32 of (3, 16)", {"residual": torch.ones(3, 16)}),
            ("weight is torch.float32 of (8,)", {"weight": torch.ones(8)}),
            ("out is torch.int32", {"out": torch.empty(2, 16, dtype=torch.int32)}),
            ("out is torch.float32 of (4, 8)", {"out": torch.empty(4, 8)}),
            ("scale is None", {"out": e4m3}), ("scale is torch.float32", {"scale": torch.ones(1)}),
            ("scale is torch.float32", {"out": e4m3, "scale": torch.ones(1), "scales": torch.ones(2)}),
            ("scale is torch.float32 of (2,)", {"out": e4m3, "scale": torch.ones(2)}),
            ("scales is torch.float64", {"out": e4m3, "scales": torch.ones(2, dtype=torch.float64)}),
            ("share memory", {"residual": hidden, "out": hidden})):
        options = {"residual": torch.ones(2, 16), "weight": weight, **options}
        with pytest.raises(ValueError, match=f"all_reduce_rms_norm: .*{re.escape(match)}"):
            reduce.all_reduce_rms_norm(hidden, **options)


def late():
    """The other rank does not come: the call ends after the group's time, and later ones raise."""
    start(True, timeout=timedelta(seconds=3))
    with host_streams.on():
        values = torch.zeros(100)
        dist.all_reduce(values)
        settle()
        if dist.get_rank() == 0:
            begin = time.monotonic()
            work = dist.all_reduce(values, async_op=True)
            with pytest.raises(dist.DistBackendError, match="has waited|gave up|given up"):
                work.wait(timedelta(seconds=60))
            assert time.monotonic() - begin < 50
            with pytest.raises(dist.DistBackendError):
                dist.all_reduce(values)
            assert work.exception() is not None and not work.is_success()
            tell("has raised")
        else:
            wait_for("has raised", [0])


def pass_on(group):
    """Each rank's number to the next one, around a ring."""
    rank, size = dist.get_rank(), dist.get_world_size()
    values, received = torch.full((100,), rank), torch.full((100,), -1)
    for work in [dist.isend(values, (rank + 1) % size, group), dist.irecv(received, (rank - 1) % size, group)]:
        work.wait(timedelta(seconds=50))
    assert received.eq((rank - 1) % size).all()


def late_alone(has_messages, nodes):
    """The other ranks do not come to a call of one group, whose error is raised once by a stream, too. The default group
    goes on in streams. has_messages: the call is a receive, and both groups have messages in streams."""
    from isomer_shmem import synchronize
    if nodes:
        os.environ["SHMEM_VIRTUAL_NODES"] = nodes
    rank, size = start(True, timeout=timedelta(seconds=60))
    part = dist.new_group(list(range(size)), timeout=timedelta(seconds=3))
    with host_streams.on():
        values = torch.ones(100)
        for group in (None, part):
            dist.all_reduce(values, group=group)
            if has_messages:
                pass_on(group)
        settle()
        why = rf"{'recv' if has_messages else 'all_reduce'} on a stream has waited .* on rank 0$"
        if rank == 0:
            work = (dist.irecv(values, size - 1, part) if has_messages else
                    dist.all_reduce(values, group=part, async_op=True))
            with pytest.raises(dist.DistBackendError, match=why):
                work.wait(timedelta(seconds=50))
            tell("has raised")
        else:
            wait_for("has raised", [0])
            with pytest.raises(dist.DistBackendError, match=why):  # the others may hear of it a little later
                for _ in range(1000):
                    dist.all_reduce(values, group=part)
                    time.sleep(0.01)
        for _ in range(2):
            with pytest.raises(dist.DistBackendError, match=why):
                dist.all_reduce(values, group=part)
        with pytest.raises(RuntimeError, match=why):
            synchronize()
        for count in (10, 70001):
            values = torch.full((count,), rank + 1.0)
            dist.all_reduce(values)
            dist.all_reduce(values, async_op=True).wait(timedelta(seconds=50))
            synchronize()
            assert values.eq(size * size * (size + 1) / 2).all()
        again = dist.new_group(list(range(size)))
        if has_messages:
            for group in (None, again):
                pass_on(group)
        dist.all_reduce(values.fill_(1), group=again)
        synchronize()
        assert values.eq(size).all()
    dist.destroy_process_group()


def unsignalled():
    """A signal does not come. The wait in a stream ends the group of its tensor and no other one; of local memory it
    belongs to no group, and ends the job."""
    import isomer_shmem as iso
    rank, size = start(True, timeout=timedelta(seconds=2))
    part = dist.new_group(list(range(size)), timeout=timedelta(seconds=1))
    with host_streams.on():
        flags = iso.zeros(1, dtype=torch.int64, for_kernels=True, group=part), iso.zeros(
            1, dtype=torch.int64, for_kernels=True, local=True)
        for flag, group, whose in zip(flags, (part, None), ("its group", "the job")):
            why = f"wait on a stream has waited .*, the timeout of {whose}, on rank 0$"
            if rank == 0:
                iso.wait(flag)
                with pytest.raises(iso.IsomerError, match=why):
                    iso.synchronize()
                tell(whose)
            else:
                wait_for(whose, [0])
            with pytest.raises(dist.DistBackendError, match=why):
                dist.barrier(group)
            if group is part:
                values = torch.ones(1000)
                dist.all_reduce(values)
                iso.synchronize()
                assert values.eq(size).all()
                with pytest.raises(iso.IsomerError, match=why):
                    iso.wait(flag)


def one_sided_alone():
    """A group has ended: one-sided calls on its tensors say so, and those on other groups' tensors go on."""
    import isomer_shmem as iso
    rank, size = start(True)
    right, part, why = (rank + 1) % size, dist.new_group(list(range(size))), "the process group was aborted on rank 0$"
    mine, theirs = torch.ones(100), torch.zeros(100)
    with host_streams.on():
        for kind in ({}, {"for_kernels": True}):
            inbox, flag = iso.empty(100, **kind), iso.empty(1, dtype=torch.int64, **kind).zero_()
            lost, late = iso.empty(100, group=part, **kind), iso.empty(1, dtype=torch.int64, group=part, **kind)
            window = iso.new_window(lost, part)
            iso.barrier(device="cpu")
            if rank == 0:
                part.abort()
            with pytest.raises(dist.DistBackendError, match=why):
                dist.barrier(part)
            for call in (lambda: iso.put(lost, mine, right), lambda: iso.get(theirs, lost, right),
                         lambda: iso.put_signal(lost, mine, late, rank=right), lambda: iso.signal(late, rank=right),
                         lambda: iso.wait(late), lambda: iso.peer(lost, right), lambda: iso.quiet(part),
                         lambda: iso.barrier(part), lambda: window.put(mine, right), lambda: window.signal(right),
                         lambda: window.wait_signal(right)):
                with pytest.raises(RuntimeError, match=why):
                    call()
            iso.put_signal(inbox, mine, flag, rank=right)
            iso.wait(flag)
            iso.get(theirs, inbox, rank)
            iso.synchronize()
            assert theirs.eq(1).all()
            theirs.zero_()
            part = dist.new_group(list(range(size)))
    dist.destroy_process_group()


def reduce_first(group, rank, size):
    values = torch.full((5000,), rank + 1.0)
    dist.all_reduce(values, group=group)
    settle()
    assert values.eq(size * (size + 1) / 2).all()


def gather_first(group, rank, size):
    output, values = torch.zeros(5000 * size), torch.full((5000,), float(rank))
    all_gather_single(output, values, group=group)
    settle()
    assert output.view(size, 5000).eq(torch.arange(float(size))[:, None]).all()


def scatter_first(group, rank, size):
    values, output = torch.full((70001 * size,), float(rank)), torch.zeros(70001)
    reduce_scatter_single(output, values, group=group)
    settle()
    assert output.eq(size * (size - 1) / 2).all()


def barrier_first(group, rank, size):
    import isomer_shmem as iso
    iso.barrier(group)
    settle()


def prepare_first(group, rank, size):
    import isomer_shmem as iso
    iso.prepare(group)
    settle()


def handle_first(group, rank, size):
    import isomer_shmem as iso
    assert iso.Handle(group).nbytes > 0


def miss_first_call(nodes):
    """A rank stays away from the first call of a kind of one group, and comes late. First calls of the default group
    and of another one go on."""
    if nodes:
        os.environ["SHMEM_VIRTUAL_NODES"] = nodes
    rank, size = start(True, timeout=timedelta(seconds=60))
    beside, names = dist.new_group(list(range(size))), "/".join(map(str, range(size)))
    calls = {"all_reduce": reduce_first, "all_gather_single": gather_first, "reduce_scatter_single": scatter_first,
             "barrier": barrier_first, "Handle": handle_first, "prepare": prepare_first}
    with host_streams.on():
        for index, (name, call) in enumerate(calls.items()):
            part, absent = dist.new_group(list(range(size))), index % size
            part.set_timeout(timedelta(seconds=1))
            why = rf"{name} of group {names} has passed its timeout of 1 s on rank \d+$"
            if rank == absent:
                wait_for(f"{name} has raised", [each for each in range(size) if each != absent])
            with pytest.raises(dist.DistBackendError, match=why):
                call(part, rank, size)
            tell(f"{name} has raised")
            with pytest.raises(dist.DistBackendError, match=why):
                reduce_first(part, rank, size)
            with pytest.raises(dist.DistBackendError, match=why):
                dist.barrier(part)
            for group in (None, beside):
                call(group, rank, size)
            dist.destroy_process_group(part)
        for group in (None, beside):
            for call in calls.values():
                call(group, rank, size)
    dist.destroy_process_group()


def disagree():
    """Both ranks hear of the difference, also the one that has made its call already."""
    os.environ["ISOMER_CHECK"] = "1"
    start(True, timeout=timedelta(seconds=30))
    with host_streams.on():
        with pytest.raises(dist.DistBackendError, match="mismatch of nelems"):
            for _ in range(100):
                dist.all_reduce(torch.zeros(100 + dist.get_rank()))
                settle()


def disagree_beside():
    os.environ["ISOMER_CHECK"] = "1"
    import isomer_shmem as iso
    start(True, timeout=timedelta(seconds=30))
    with host_streams.on(), iso.background(on=dist.get_rank() == 0):
        with pytest.raises(dist.DistBackendError, match="mismatch of background"):
            for _ in range(100):
                dist.all_reduce(torch.zeros(100))
                settle()


def beside():
    """Which calls say that a computation runs beside them: those in the context, and FSDP2's."""
    import isomer_shmem as iso
    from isomer_shmem import _stream, fsdp
    call, said = _stream.StreamCore.call, []
    _stream.StreamCore.call = lambda core, *arguments, **more: (said.append(core._args.background),
                                                                 call(core, *arguments, **more))[1]
    rank, size = start()
    with iso.background():  # on the host nothing changes
        dist.all_reduce(torch.ones(10))
    with host_streams.on():
        values = torch.ones(10)
        dist.all_reduce(values)
        with iso.background():
            dist.all_reduce(values, async_op=True).wait()
            with iso.background(on=False):
                dist.all_reduce(values)
        dist.all_reduce(values)
        settle()
        assert said == [0, 1, 0, 0] and values.eq(size ** 4).all()
        for on in (True, False):
            gather, scatter = fsdp.AllGather(dist.group.WORLD, on), fsdp.ReduceScatter(dist.group.WORLD, on)
            check_gather(gather, rank, size, 100, 0)
            output, source = torch.zeros(100), torch.ones(100 * size)
            scatter(output, source, None, dist.ReduceOp.SUM)
            settle()
            assert output.eq(size).all()
        assert said[4:] == [1, 1, 0, 0], said
    dist.destroy_process_group()


class Stalled:
    """The event of a stream that stands still."""

    def query(self):
        return False


def no_room():
    """There is no symmetric memory for buffers: calls go on without, with a warning."""
    from isomer_shmem import _lib, fsdp
    os.environ["SHMEM_LOCAL_SIZE"] = "1M"
    large(False, 1 << 30)
    rank, size = start()
    with host_streams.on():
        queue = dist.group.WORLD.queue()
        for kind in (_lib.FCOLLECT, _lib.REDUCESCATTER):  # nor for stages, and the job goes on
            assert queue.core.has_engines() and not queue.begin_parts(kind)
        gather = fsdp.AllGather(dist.group.WORLD)
        with pytest.warns(UserWarning, match="no symmetric memory for a buffer"):
            kept = [check_gather(gather, rank, size, 1000, step) for step in range(3)]
        assert gather.by_engines < 3 and len(kept) == 3
    dist.destroy_process_group()


def kept_alone():
    """One rank alone keeps a view of a buffer that all give to engines: it waits for the others, and says so."""
    from isomer_shmem import fsdp
    rank, size = start(True, timeout=timedelta(seconds=3))
    with host_streams.on():
        gather = fsdp.AllGather(dist.group.WORLD)
        kept = check_gather(gather, rank, size, 1000, 0)
        if rank == 0:
            with pytest.raises(dist.DistBackendError, match="a buffer"):
                check_gather(gather, rank, size, 1000, 1)
        else:
            del kept
            with pytest.raises(AssertionError):  # its stream gave up
                check_gather(gather, rank, size, 1000, 1)


def killed():
    """Each way to wait tells who has died, also while the stream stands still."""
    from isomer_shmem import synchronize
    start(True, timeout=timedelta(seconds=60))
    with host_streams.on():
        values = torch.zeros(100)
        dist.all_reduce(values)
        settle()
        if dist.get_rank() == 1:
            os.kill(os.getpid(), 9)
        begin = time.monotonic()
        work = dist.all_reduce(values, async_op=True)
        host_streams.HostStreams.event = lambda streams, stream: Stalled()
        for call in (synchronize, lambda: work.wait(timedelta(seconds=50)), lambda: dist.all_reduce(values)):
            with pytest.raises(RuntimeError, match=r"^(isomer: all_reduce of group 0/1: )?rank 1 \(pid .*\) died$"):
                call()
        assert time.monotonic() - begin < 5


def one_slot():
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1" if os.environ["RANK"] == "0" else ""
    with pytest.warns(UserWarning, match="CUDA_DEVICE_MAX_CONNECTIONS"):
        rank, size = start()
        with host_streams.on():
            values, output = torch.ones(10), torch.zeros(10 * size)
            dist.all_reduce(values)
            all_gather_single(output, values)
            settle()
            assert output.eq(size).all()
            assert not dist.group.WORLD.queue().core.slots
    dist.destroy_process_group()


@pytest.mark.parametrize("size, is_async", ((2, False), (3, True)))
def test_collectives(ranks, size, is_async):
    ranks(size, reductions, is_async, backend=None)
    ranks(size, moves, is_async, backend=None)
    ranks(size, large, is_async, backend=None)


@pytest.mark.parametrize("function", (works, large_on_nodes, by_engines, no_room, order, messages, prepared,
                                      coalesced, mixed, beside, one_slot, one_sided, inference, norms))
def test_two_and_three(ranks, function):
    for size in (2, 3):
        ranks(size, function, backend=None)


def test_late_peer_is_an_error(ranks):
    ranks(2, late, backend=None)


def test_a_wait_in_a_stream_ends_its_group_after_its_timeout(ranks):
    ranks(2, unsignalled, backend=None)


def test_one_sided_calls_of_a_group_that_has_ended_say_so(ranks):
    for size in (2, 3):
        ranks(size, one_sided_alone, backend=None)


@pytest.mark.parametrize("size, has_messages, nodes",
                         ((2, False, None), (2, True, None), (4, True, "0,0,1"), (2, False, "0,1")))
def test_a_late_peer_ends_one_group_and_not_the_others(ranks, size, has_messages, nodes):
    ranks(size, late_alone, has_messages, nodes, backend=None)


@pytest.mark.parametrize("size, nodes", ((3, None), (4, "0,0,1"), (2, "0,1")))
def test_a_rank_that_misses_a_first_call_ends_one_group_and_not_the_others(ranks, size, nodes):
    ranks(size, miss_first_call, nodes, backend=None)


def test_ranks_that_disagree_on_streams_all_raise(ranks):
    ranks(2, disagree, backend=None)
    ranks(2, disagree_beside, backend=None)


def test_a_buffer_that_one_rank_keeps_is_an_error(ranks):
    ranks(2, kept_alone, backend=None)


def test_dead_peer_is_an_error(ranks):
    with pytest.raises(AssertionError) as caught:
        ranks(2, killed, backend=None)
    assert "rank 1 ended with -9" in str(caught.value)
