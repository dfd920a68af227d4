# SPDX-License-Identifier: MIT
"""Tensors in symmetric and local memory, views of peers, one-sided calls, groups of another backend, handles."""
import gc
import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402

import isomer_shmem as iso  # noqa: E402
from isomer_shmem import _lib  # noqa: E402

TYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint8)


def numbers(rank, shape, dtype):
    values = torch.arange(torch.Size(shape).numel()).reshape(shape) % 50 + rank
    return values % 2 == 0 if dtype == torch.bool else values.to(dtype)


def rings(make_group):
    """Each rank puts to its right by every way; sizes of none, one, and odd numbers of elements."""
    group = make_group()
    me, n = dist.get_rank(group), dist.get_world_size(group)
    right, left = (me + 1) % n, (me - 1) % n
    signals = iso.zeros(8, dtype=torch.int64, group=group)
    for round, (dtype, shape) in enumerate((dtype, shape) for dtype in TYPES for shape in ((), (0,), (3, 7), (1025,))):
        inbox = iso.empty(shape, dtype=dtype, group=group)
        assert inbox.shape == torch.Size(shape) and inbox.dtype == dtype
        inbox.copy_(numbers(me, shape, dtype))
        iso.barrier(group)
        copy = torch.empty_like(inbox)
        iso.get(copy, inbox, left)
        assert torch.equal(copy, numbers(left, shape, dtype))
        assert torch.equal(iso.peer(inbox, left), copy)
        iso.barrier(group)
        iso.put_signal(inbox, numbers(me + 5, shape, dtype), signals[0], round + 1, rank=right)
        assert iso.wait(signals[0], round + 1) == round + 1
        assert torch.equal(inbox, numbers(left + 5, shape, dtype))
        iso.barrier(group)
        iso.put(inbox, numbers(me + 9, shape, dtype), right)
        iso.signal(signals[1], 1, right, add=True)
        iso.barrier(group)
        assert torch.equal(inbox, numbers(left + 9, shape, dtype))
        iso.barrier(group)
        iso.peer(inbox, right).fill_(1)  # a plain store into the neighbour's memory
        iso.barrier(group)
        assert torch.equal(inbox, torch.ones_like(inbox))
        iso.free(inbox)
    assert iso.fetch(signals[1]) == len(TYPES) * 4
    if n > 1:
        slices(group, me, n)
    iso.free(signals)


def slices(group, me, n):
    table = iso.zeros(n, 4, 6, group=group)
    for other in range(n):
        iso.put(table[me], torch.full((4, 6), float(me + 1)), other)
    iso.quiet(group)
    iso.barrier(group)
    assert table.sum(dim=(1, 2)).tolist() == [24.0 * (m + 1) for m in range(n)]
    column = iso.peer(table[:, :, 2], (me + 1) % n)  # strides stay
    assert column.shape == (n, 4) and column[:, 1].tolist() == [m + 1.0 for m in range(n)]
    with pytest.raises(ValueError, match="contiguous"):
        iso.put(table[:, :, 2], torch.zeros(n, 4), 0)
    with pytest.raises(ValueError, match="96 bytes"):
        iso.put(table[0], torch.zeros(5), 0)
    with pytest.raises(ValueError, match=f"rank {n} is outside"):
        iso.put(table[0], torch.zeros(4, 6), n)
    with pytest.raises(ValueError, match="not in memory"):
        iso.put(torch.zeros(4), torch.zeros(4), 0)
    for call in (lambda: iso.put(table[0], torch.zeros(4, 6, dtype=torch.int32), 0),
                 lambda: iso.get(torch.zeros(4, 6, dtype=torch.int32), table[0], 0),
                 lambda: iso.put_signal(table[0], torch.zeros(4, 6, dtype=torch.int32),
                                        iso.empty(1, dtype=torch.int64, local=True), rank=0)):
        with pytest.raises(ValueError, match="has torch.int32 and the other rank's torch.float32"):
            call()
    nothing = table[:0]  # a view that has no address
    iso.put(nothing, torch.zeros(0, 4, 6), 0)
    iso.get(torch.zeros(0, 4, 6), iso.place(nothing))
    assert iso.peer(nothing, 0).shape == (0, 4, 6)
    with pytest.raises(ValueError, match="begin"):
        iso.free(table[1])
    iso.free(table)


def conjugates():
    """What a view by conj() or of an imaginary part shows is not what its memory holds."""
    me = dist.get_rank()
    values, inbox = torch.tensor([1 + 2j, 3 - 4j]), iso.zeros(2, dtype=torch.complex64)
    parts, window = iso.zeros(2), iso.new_window(iso.zeros(2, dtype=torch.complex64))
    iso.put(inbox, values.conj(), 1 - me)
    iso.put(parts, values.conj().imag.contiguous()[:2], 1 - me)
    window.put(values.conj(), 1 - me)
    iso.quiet()
    iso.barrier()
    assert inbox.tolist() == window.get_tensor().tolist() == [1 - 2j, 3 + 4j] and parts.tolist() == [-2, 4]
    for call in (lambda: iso.put(inbox.conj(), values, 1 - me), lambda: iso.get(values.conj(), inbox, 1 - me),
                 lambda: iso.place(inbox.conj())):
        with pytest.raises(ValueError, match=r"no views by conj\(\)"):
            call()
    with pytest.raises(ValueError, match="not contiguous memory of the library"):
        iso.new_window(inbox.conj())
    window.tensor_deregister()
    iso.free(inbox, parts)


def test_views_that_conjugate(ranks):
    ranks(2, conjugates)


def world():
    return dist.group.WORLD


def odd_ranks_descending():
    return dist.new_group(list(range(dist.get_world_size() - 1, -1, -1)), sort_ranks=False)


@pytest.mark.parametrize("size", (1, 2, 3))
def test_rings_of_every_way(ranks, size):
    ranks(size, rings, world)


def test_ranks_in_another_order(ranks):
    ranks(3, rings, odd_ranks_descending)


def test_beside_gloo(ranks):
    ranks(2, rings, world, backend="gloo")


def halves():
    """A team's allocations concern its members alone."""
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine, me = groups[dist.get_rank() // 2], dist.get_rank() % 2
    tensors = [iso.zeros(100 * (1 + dist.get_rank() // 2), group=mine) for _ in range(1 + dist.get_rank() // 2)]
    iso.put(tensors[-1], torch.full(tensors[-1].shape, float(dist.get_rank())), 1 - me)
    iso.barrier(mine)
    assert tensors[-1][0].item() == dist.get_rank() ^ 1
    whole = iso.zeros(10)
    iso.put(whole, torch.full((10,), 7.0), (dist.get_rank() + 1) % 4)
    iso.barrier()
    assert whole.sum().item() == 70
    iso.free(whole)
    iso.free(*tensors)


def test_memory_of_two_groups(ranks):
    ranks(4, halves)


def locals_by_place():
    me, n = dist.get_rank(), dist.get_world_size()
    mine = iso.empty(3, 5 + me, dtype=torch.int32, local=True)
    mine.fill_(me)
    places = [None] * n
    dist.all_gather_object(places, iso.place(mine))
    for rank, where in enumerate(places):
        view = iso.peer(where)
        assert view.shape == (3, 5 + rank) and view.eq(rank).all()
    dist.barrier()
    iso.put(places[(me + 1) % n], torch.full((3, 5 + (me + 1) % n), 40 + me, dtype=torch.int32))
    iso.quiet()
    dist.barrier()
    assert mine.eq(40 + (me - 1) % n).all()
    dist.all_reduce(mine.view(-1)[:15])  # collectives take it as any tensor; of equal length on all ranks
    with pytest.raises(ValueError, match="local"):
        iso.peer(mine, 0)
    for strange in (places[me]._replace(pe=n), places[me]._replace(pe=-1), places[me]._replace(offset=1 << 60),
                    places[me]._replace(shape=(1 << 40,))):
        dest = torch.empty(strange.shape, dtype=torch.int32, device="meta")
        for call in (lambda: iso.peer(strange), lambda: iso.get(dest, strange)):
            with pytest.raises(iso.IsomerError, match="rank is|is not of shmemx_offset_of"):
                call()
    address = mine.data_ptr()
    row = mine[1]
    del mine, view
    gc.collect()
    assert iso.place(row).pe == me  # a view keeps it
    del row
    gc.collect()
    again = iso.empty(3, 5 + me, dtype=torch.int32, local=True)
    assert again.data_ptr() == address  # it was given back


def kernels_later():
    world, half = dist.group.WORLD.lease.world, dist.new_group([0, 1])
    before = len(os.listdir("/proc/self/task"))
    assert _lib.text_of(world.lib.shmemx_device_text) == "no device in use"
    if dist.get_rank() < 2:
        with pytest.raises(iso.IsomerError, match="empty: .* call isomer_shmem.prepare\\(\\) on all ranks first"):
            iso.empty(3, for_kernels=True, group=half)
    with pytest.raises(iso.IsomerError, match="call isomer_shmem.prepare"):
        iso.empty(3, for_kernels=True, local=True)
    iso.prepare()
    assert _lib.text_of(world.lib.shmemx_device_text).startswith("cpu device")
    assert len(os.listdir("/proc/self/task")) > before
    if dist.get_rank() < 2:
        tensor = iso.empty(3, for_kernels=True, group=half)
        iso.Handle(half)
        iso.free(tensor)
    assert iso.empty(3, for_kernels=True, local=True).numel() == 3


def test_the_cpu_becomes_a_device_when_kernels_need_it(ranks):
    ranks(3, kernels_later)


def lent_back():
    """Groups, sends and windows go on with right answers, and nearly all memory of tensors is free meanwhile."""
    me, n = dist.get_rank(), dist.get_world_size()
    after, before = (me + 1) % n, (me - 1) % n
    half = dist.new_group([0, 1])
    nbytes = 4 << 20
    symmetric, own = iso.zeros(nbytes, dtype=torch.uint8), iso.empty(nbytes, dtype=torch.uint8, local=True)
    kept = iso.zeros(5)
    iso.keep(kept)
    window = iso.new_window(iso.zeros(3))
    with pytest.raises(iso.IsomerError, match="is not the start of an object"):
        iso.keep(kept[1:])

    def check(turn):
        values = torch.full((30_000,), me + turn)
        works = [dist.all_reduce(values, async_op=True),
                 dist.all_gather_into_tensor(torch.empty(n), torch.ones(1), async_op=True)]
        for work in works:
            work.wait()
        assert values.eq(n * (n - 1) // 2 + n * turn).all()
        if me < 2:
            dist.broadcast(small := torch.full((9,), me), 0, group=half)
            assert small.eq(0).all()
        got = [torch.empty(length) for length in (3, 200_000)]
        sends = [dist.isend(torch.full((length,), float(me + turn)), after) for length in (3, 200_000)]
        for each in got:
            dist.recv(each, before)
            assert each.eq(before + turn).all()
        for send in sends:
            send.wait()
        window.signal(after)
        window.wait_signal(before)
        dist.barrier()

    for turn, keep in enumerate([True, False, False, True, False]):
        for tensor in (symmetric, own):
            tensor.fill_(turn)
        kept += 1
        check(turn)
        unread = torch.full((7,), float(me))
        dist.send(unread, after)  # a short message that has been sent and not received
        held = iso.memory_stats()["reserved_bytes.host.current"]
        iso.suspend(keep)
        left = iso.memory_stats()["reserved_bytes.host.current"]
        assert left >= 2 * nbytes if keep else left < held - 2 * nbytes * 0.95
        assert kept.eq(turn + 1).all()
        dist.recv(unread, before)
        assert unread.eq(before).all()
        check(turn + 10)  # calls on the host work
        with pytest.raises(iso.IsomerError, match="lent back"):
            iso.suspend(keep)
        if not keep:
            with pytest.raises(iso.IsomerError, match="lent back"):
                iso.keep(symmetric)
        iso.resume()
        assert not keep or (symmetric.eq(turn).all() and own.eq(turn).all())
        with pytest.raises(iso.IsomerError, match="not lent back"):
            iso.resume()
        check(turn + 20)
    for _ in range(100):
        iso.suspend(keep=False)
        iso.resume()
    check(30)
    window.tensor_deregister()


def tensors_of_a_backend():
    """As torch's own code asks for them, on CPUs; there is no allocator for torch.cuda.MemPool."""
    group, me, n = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    backend = group._get_backend(torch.device("cpu"))
    assert [backend.supports_tensor_alloc(torch.device(kind)) for kind in ("cpu", "cuda")] == [True, False]
    before = iso.memory_stats()["allocated_bytes.host.current"]
    tensor = backend.allocate_tensor(5000, dtype=torch.float32, device=torch.device("cpu"))
    assert tensor.shape == (5000,) and iso.memory_stats()["allocated_bytes.host.current"] - before >= tensor.nbytes
    tensor.fill_(me + 1)
    dist.all_reduce(tensor)
    assert tensor.eq(n * (n + 1) // 2).all()
    for call in (lambda: backend.mem_allocator, lambda: group.mem_allocator, iso.mem_pool):
        with pytest.raises(iso.IsomerError, match="mem_.*: this job has no GPU; isomer_shmem.empty and"):
            call()


def test_memory_of_a_backend(ranks):
    ranks(2, tensors_of_a_backend)


def counted():
    """What a group costs: the table of docs/pytorch.md."""
    me, n = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(n))) for _ in range(3)]
    dist.barrier()
    before = iso.memory_stats(groups[0])
    dist.barrier()  # a member that goes on sends to this one
    idle = {key: nbytes for key, nbytes in before.items()
            if key.split("_")[0] not in ("allocated", "reserved") and nbytes}
    assert idle == {"slot_bytes.host.current": 4096, "stage_bytes.host.current": 4096 * (n - 1),
                    "pair_bytes.host.current": 128 * n, "group_bytes.host.current": (4096 + 128) * n}
    front, stages = -(-(256 + 512 * n) // 4096) * 4096 + 8192, 16384 * n
    for length in (3, 100_000):
        dist.all_reduce(torch.ones(length), group=groups[0])
        stats = iso.memory_stats(groups[0])
        assert 4096 <= stats["slot_bytes.host.current"] <= front and 4096 <= stats["stage_bytes.host.current"] <= stages
    if me < 2:
        (dist.send if me == 0 else dist.recv)(torch.ones(3), 1 - me, group=groups[1])
    assert iso.memory_stats(groups[1])["ring_bytes.host.current"] == (262_656 if me < 2 else 0)
    tensor = iso.zeros(4 << 20, dtype=torch.uint8, group=groups[2])
    stats = iso.memory_stats(groups[2])
    assert stats["symmetric_bytes.host.current"] == 4 << 20 <= stats["reserved_bytes.host.current"]
    assert stats["allocated_bytes.host.current"] - before["allocated_bytes.host.current"] >= 4 << 20
    assert stats["group_bytes.host.current"] == sum(nbytes for key, nbytes in stats.items() if ".host." in key and
                                                    key.split("_")[0] in ("slot", "stage", "pair", "ring", "symmetric"))
    assert not any(nbytes for key, nbytes in stats.items() if ".device." in key)
    iso.free(tensor)
    assert iso.memory_stats(groups[2])["symmetric_bytes.host.current"] == 0
    iso.prepare()
    handle, tensor = iso.Handle(groups[2]), iso.zeros(1000, for_kernels=True, group=groups[2])
    stats = iso.memory_stats(groups[2])
    assert stats["slot_bytes.device.current"] > 0 and stats["symmetric_bytes.device.current"] == 4000
    assert stats["reserved_bytes.device.current"] >= stats["slot_bytes.device.current"] + 4000
    assert iso.memory_stats(groups[1])["group_bytes.device.current"] == 0
    iso.suspend()
    assert iso.memory_stats(groups[2])["reserved_bytes.device.current"] == 0
    iso.resume()
    again = groups[2].memory_stats()
    assert again["stage_bytes.host.current"] == 0  # they have memory again when a call uses them
    assert {key: nbytes for key, nbytes in again.items() if ".device." in key} == {
        key: nbytes for key, nbytes in stats.items() if ".device." in key}
    del handle


def test_memory_is_counted_by_purpose(ranks):
    ranks(3, counted)


@pytest.mark.parametrize("n", [2, 3])
def test_memory_is_lent_back(ranks, n):
    ranks(n, lent_back)


def test_local_memory(ranks):
    ranks(3, locals_by_place)


def waits_end():
    signal = iso.zeros(1, dtype=torch.int64)
    with pytest.raises(iso.IsomerError, match="the signal is 0, not >= 1"):
        iso.wait(signal, 1, timeout=0.3)
    with pytest.raises(ValueError, match="one element"):
        iso.put_signal(signal, signal, iso.zeros(2), 1, 0)
    for call in (lambda: iso.empty(3, device="cuda"),
                 lambda: dist.group.WORLD.allocate_tensor(3, dtype=torch.float32, device="cuda")):
        with pytest.raises(NotImplementedError, match="no tensors on cuda"):
            call()
    part = dist.new_group([0])
    if dist.get_rank() == 1:
        with pytest.raises(ValueError, match="this rank is not a member"):
            iso.empty(3, group=part)
    with pytest.raises(ValueError, match="negative size"):
        iso.empty(2, -3)
    for call in (lambda word: iso.wait(word), lambda word: iso.fetch(word), lambda word: iso.signal(word, 1, rank=0)):
        with pytest.raises(ValueError, match="a signal is one element"):
            call(torch.zeros(2))
    for call in (lambda: iso.wait(signal, 2**64), lambda: iso.signal(signal, 2**64, rank=0),
                 lambda: iso.put_signal(signal, signal, signal, -2**63 - 1, 0)):
        with pytest.raises(ValueError, match="is outside"):
            call()
    iso.signal(signal, -1, rank=1 - dist.get_rank())
    assert iso.wait(signal, -1, "==") == 2**64 - 1
    iso.barrier()
    iso.signal(signal, 2**40, rank=1 - dist.get_rank())
    assert iso.wait(signal, 2**40, "==") == 2**40
    iso.barrier()
    handle = iso.Handle(slot=3)
    assert handle.nbytes > 0 and any(handle._memory.raw)
    kernels = iso.zeros(100, for_kernels=True)
    assert iso.peer(kernels, 1 - dist.get_rank()) is None
    iso.free(signal, kernels)


def test_ends_of_waits_and_handles(ranks):
    ranks(2, waits_end)


def waits_alone():
    """A wait for a word of local memory is no call of the other ranks, whatever the default group is."""
    group = dist.new_group([0, 1], backend="isomer")
    if dist.get_rank() == 0:
        word = iso.empty(1, dtype=torch.int64, group=group, local=True).zero_()
        with pytest.raises(iso.IsomerError, match="the signal is 0, not >= 1"):
            iso.wait(word, 1, timeout=0.3)
    dist.barrier()
    dist.destroy_process_group(group)


def test_a_wait_for_local_memory_is_of_one_rank(ranks):
    ranks(2, waits_alone, backend="gloo")


def left_over():
    tensor = iso.zeros(4)
    with pytest.warns(UserWarning, match="1 symmetric tensors are alive"):
        dist.destroy_process_group()
    del tensor


def test_tensors_that_outlive_the_job_are_named(ranks):
    ranks(2, left_over)


def test_tensors_over_memory_live_as_long_as_it_is_used():
    """The way for GPUs, over memory of the CPU."""
    import ctypes
    import gc
    import weakref

    import torch
    memory_module = pytest.importorskip("isomer_shmem._views")
    room = (ctypes.c_ubyte * 64)(*range(64))
    flat, owner = memory_module.tensor_over(ctypes.addressof(room), 64, torch.int16, torch.device("cpu"))
    assert flat.data_ptr() == ctypes.addressof(room) and flat.shape == (32,) and flat[1] == 0x0302
    flat[0] = 5
    assert room[0] == 5 and room[1] == 0
    alive, view = weakref.ref(owner), flat[3:].view(torch.uint8)
    del flat, owner
    gc.collect()
    assert alive() is not None and view[0] == 6
    del view
    gc.collect()
    assert alive() is None and not memory_module._lent
