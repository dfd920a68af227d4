# SPDX-License-Identifier: MIT
"""Tensors in the library's memory, views of other ranks' tensors, and one-sided calls.

Calls on CPU tensors run at once. Those on tensors of a GPU are enqueued in torch's current stream: there wait() has the
stream wait, and not the host.

A symmetric tensor is the same object on all ranks of a group: any of its elements names the same place on each of them.
A local tensor belongs to one rank, and place() names it to others. Memory of a symmetric tensor lives until free(), a
collective call, or until the job ends; that of a local tensor until its last view has gone. No view of either may be
touched after the last group of the process was destroyed: the memory is unmapped then.
"""
import collections
import ctypes
import os
import time
import warnings
import weakref
from collections import namedtuple
from ctypes import byref, c_uint64

import torch

from . import _lib
from ._core import plain
from ._device import streams_of
from ._device import synchronize as wait_for_stream
from ._lib import IsomerError
from ._views import tensor_of
from .pg import group_of, has_gpu

COMPARE = {"==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
           ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}
CMP = {"==": 1, "!=": 2, "<": 3, "<=": 4, ">": 5, ">=": 6}  # SHMEM_CMP_
SPINS = 200  # polls of a wait before it yields the core

# Names memory of one rank of the job to all others; may be sent by any channel. `pe` is the number in the whole job.
Place = namedtuple("Place", "pe offset shape dtype")


class Block:
    """Memory of one empty() call. `group` is None for local memory."""

    def __init__(self, world, group, address, nbytes, kind):
        self.world, self.group, self.address, self.nbytes, self.kind = world, group, address, nbytes, kind


_blocks = {}  # start address: Block, of this process


def block_of(tensor):
    """The block that the whole tensor lies in."""
    first, last = tensor.data_ptr(), tensor.data_ptr() + extent(tensor)
    for block in _blocks.values():
        if block.address <= first and last <= block.address + block.nbytes and block.world.pid == os.getpid():
            block.world.check_usable()
            return block
    raise ValueError("isomer: the tensor is not in memory of isomer_shmem.empty or zeros; a copy of it is needed there")


def extent(tensor):
    """Bytes from the first element to the end of the last one."""
    if tensor.numel() == 0:
        return 0
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (steps + 1) * tensor.element_size()


def check_device(device, world=None):
    """(torch.device, whether it is the GPU of the job). Without a job, only the type is looked at."""
    device = torch.device(device)
    if device.type == "cpu":
        return device, False
    if device.type != "cuda" or not has_gpu():
        raise NotImplementedError(f"isomer: there are no tensors on {device} here; cpu" +
                                  (" and cuda are possible" if has_gpu() else " is possible"))
    if world is not None and world.device == "cpu":
        raise NotImplementedError(f"isomer: no tensors on {device}: the CPU flavour of libisomer.so runs")
    if world is not None and device.index not in (None, world.device_number):
        raise ValueError(f"isomer: no tensors on {device}: this process uses cuda:{world.device_number}; call "
                         "torch.cuda.set_device before the first process group is made")
    return device, True


def empty(*shape, dtype=None, device="cpu", group=None, local=False, for_kernels=False):
    """A tensor in memory of the library, with undefined contents. shape: numbers, or one tuple of them. device: "cpu",
    or "cuda", the GPU of this process, whose tensors kernels take.

    Symmetric, the default: collective over the group, with equal arguments. local: this rank's alone; `group` is not
    looked at beyond the job. for_kernels: memory of the CPU device, which kernels take, and which has no peer views; in
    groups that are not all of the job, and local, after prepare()."""
    _, on_gpu = check_device(device)
    shape = torch.Size(shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape)
    if any(size < 0 for size in shape):
        raise ValueError(f"isomer: empty: the shape {tuple(shape)} has a negative size")
    dtype = dtype or torch.get_default_dtype()
    nbytes = shape.numel() * dtype.itemsize
    if nbytes == 0:
        return torch.empty(shape, dtype=dtype, device=device)
    mine = group_of(group)
    world, kind = mine.lease.world, _lib.DEVICE_MEMORY if for_kernels or on_gpu else _lib.HOST_MEMORY
    check_device(device, world)
    world.check_usable()
    if for_kernels:
        world.need_device("empty", () if local else mine.lease.pes)
    if local:
        _free_idle(world)
        address = world.check_address(world.lib.shmemx_local_malloc(nbytes, kind))
    else:
        address = mine.run_now("empty", lambda _: world.check_address(
            world.lib.shmemx_team_malloc(mine.lease.team, nbytes, kind)))
    flat, memory = tensor_of(world, address, nbytes, dtype, kind)
    _blocks[address] = Block(world, None if local else mine, address, nbytes, kind)
    if local:
        weakref.finalize(memory, _free_local, world, address).atexit = False
    else:
        world.symmetric[address] = weakref.ref(memory)
    if forget not in world.at_end:
        world.at_end.append(forget)
    return flat.view(shape)


def zeros(*shape, **options):
    """As empty, with zeros; symmetric ones are zero on all ranks when any of them returns (on a GPU: for what the
    current stream does from then on)."""
    tensor = empty(*shape, **options)
    tensor.zero_()
    if not options.get("local") and tensor.numel():
        barrier(options.get("group"), device=tensor.device)
    return tensor


def _free_local(world, address):
    """Any thread, at any time, also in a forked child, which must not."""
    block = _blocks.get(address)
    if block is not None and block.world is world:
        del _blocks[address]
        if world.pid != os.getpid() or world.broken is not None:
            return
        if block.kind == _lib.DEVICE_MEMORY:
            _idle.append((world, address))  # streams may still use it
        else:
            world.lib.shmemx_local_free(address)


_idle = collections.deque()  # (world, address) of local memory on devices, whose tensors have gone


def _free_idle(world):
    """Frees what tensors have left, after the work that is enqueued now."""
    streams = streams_of(world)
    if not _idle or (streams is not None and streams.is_capturing()):
        return
    count = len(_idle)
    if streams is not None:
        streams.synchronize()
    for _ in range(count):
        owner, address = _idle.popleft()
        if owner is world and world.broken is None:
            world.lib.shmemx_local_free(address)


def free(*tensors):
    """Frees symmetric tensors, given as empty() returned them or as views that begin there. Collective over their group,
    in one order. No view of them may be used any more, here or on another rank."""
    for tensor in tensors:
        if tensor.numel() == 0:
            continue
        block = block_of(tensor)
        if block.group is None or tensor.data_ptr() != block.address:
            raise ValueError("isomer: free takes symmetric tensors that begin where empty() began; local ones are "
                             "freed with their last view")
        mine, lib = block.group, block.world.lib
        if _is_on_stream(block):
            streams_of(block.world).synchronize()
        mine.run_now("free", lambda _: block.world.check(lib.shmemx_team_free(mine.lease.team, block.address)))
        _blocks.pop(block.address)
        block.world.symmetric.pop(block.address, None)


def forget(world):
    """The job has ended: its memory is gone."""
    alive = [reference for reference in world.symmetric.values() if reference() is not None]
    for address in [address for address, block in _blocks.items() if block.world is world]:
        del _blocks[address]
    if alive and world.pid == os.getpid():
        warnings.warn(f"isomer: the job has ended while {len(alive)} symmetric tensors are alive; they must not be "
                      "touched", stacklevel=2)


# ---- other ranks ----

def _pe(block, rank, group):
    """The number in the job of a rank of the tensor's group, or of the given one."""
    lease = (group_of(group) if group is not None or block.group is None else block.group).lease
    lease.check_usable()
    if not 0 <= rank < len(lease.pes):
        raise ValueError(f"isomer: rank {rank} is outside 0..{len(lease.pes) - 1}")
    return lease.pes[rank]


def place(tensor):
    """Names a contiguous tensor of this rank, symmetric or local, to all ranks of the job."""
    if tensor.numel() == 0:
        return Place(group_of(None).lease.world.pe, 0, tuple(tensor.shape), tensor.dtype)
    block, offset = block_of(_contiguous(tensor, "place")), c_uint64()
    block.world.check(block.world.lib.shmemx_offset_of(tensor.data_ptr(), byref(offset)))
    return Place(block.world.pe, offset.value, tuple(tensor.shape), tensor.dtype)


def _address_of(world, where, nbytes):
    """The address that means a Place here. It may be of an earlier job, and calls of shmem.h would end the process."""
    at_offset = world.lib.shmemx_at_offset
    world.check_address(at_offset(where.pe, where.offset + nbytes - 1))
    return world.check_address(at_offset(where.pe, where.offset))


def peer(tensor, rank=None, group=None):
    """A view of rank's object of a symmetric tensor, `rank` in the tensor's group, or of what a Place names in the job
    of `group`. None: the rank is on another node, so that only put and get reach it."""
    if _is_empty(tensor):
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    if isinstance(tensor, Place):
        world = group_of(group).lease.world
        world.check_usable()
        pe, shape, dtype = tensor.pe, tensor.shape, tensor.dtype
        nbytes = torch.Size(shape).numel() * dtype.itemsize
        address = _address_of(world, tensor, nbytes)
    else:
        block = block_of(tensor)
        if block.group is None:
            raise ValueError("isomer: peer: the tensor is local; send place() of it and call peer with that")
        pe, shape, dtype = _pe(block, rank, None), tensor.shape, tensor.dtype
        world, address, nbytes = block.world, tensor.data_ptr(), extent(tensor)
    on_gpu = _is_on_gpu(world, address)
    near = (world.lib.shmemx_device_ptr if on_gpu else world.lib.shmem_ptr)(address, pe)
    if not near:
        return None
    flat, _ = tensor_of(world, near, nbytes, dtype, _lib.DEVICE_MEMORY if on_gpu else _lib.HOST_MEMORY)
    return flat.view(shape) if isinstance(tensor, Place) else flat.as_strided(tensor.shape, tensor.stride(), 0)


def _contiguous(tensor, name):
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        raise ValueError(f"isomer: {name} takes contiguous tensors of the library, and no views by conj()")
    return tensor


def _is_empty(tensor):
    """It has no elements, so no address either. Of a Place, too."""
    return 0 in tensor.shape


def _check_type(mine, other, name):
    if mine.dtype != other.dtype:
        raise ValueError(f"isomer: {name}: this rank's tensor has {mine.dtype} and the other rank's {other.dtype}")


def _target(tensor, rank, name, nbytes, group=None):
    """(job, address, pe, whether calls go into a stream) of rank's object."""
    if isinstance(tensor, Place):
        world, room = group_of(group).lease.world, torch.Size(tensor.shape).numel() * tensor.dtype.itemsize
        world.check_usable()
        address, pe = _address_of(world, tensor, room), tensor.pe
        on_gpu = _is_on_gpu(world, address)
    else:
        block = block_of(_contiguous(tensor, name))
        if block.group is None and group is None:
            raise ValueError(f"isomer: {name}: the tensor is local; send place() of it and give that")
        world, room, address = block.world, extent(tensor), tensor.data_ptr()
        pe, on_gpu = _pe(block, rank, group), _is_on_stream(block)
    if room != nbytes:
        raise ValueError(f"isomer: {name}: {nbytes} bytes for {room} bytes on the other rank")
    return world, address, pe, on_gpu


def _word(signal, name):
    if torch.Size(signal.shape).numel() != 1 or signal.dtype not in (torch.int64, torch.uint64):
        raise ValueError(f"isomer: {name}: a signal is one element of int64 or uint64 in symmetric memory")
    return signal


def _bits(value, name):
    """What a signal of that value holds: 64 bits, as an int64 or as a uint64 has them."""
    if not -2**63 <= value < 2**64:
        raise ValueError(f"isomer: {name}: value {value} is outside -2**63..2**64 - 1")
    return value & (2**64 - 1)


def _signal(signal, rank, name):
    return _target(_word(signal, name), rank, name, 8)


def _is_on_stream(block):
    """Whether calls with the block's memory go into streams."""
    return block.kind == _lib.DEVICE_MEMORY and streams_of(block.world) is not None


def _is_on_gpu(world, address):
    """Whether an address of the library's memory is on a GPU, so that calls with it go into streams."""
    if streams_of(world) is None:
        return False
    info = _lib.AddressInfo()
    return world.lib.shmemx_address_info(address, byref(info)) == 0 and info.kind == _lib.DEVICE_MEMORY


def _current(world):
    """The number of the current stream."""
    streams = streams_of(world)
    return streams.handle(streams.current())


def check_local(world, tensor, on_gpu, name):
    """Checks a tensor of this rank that takes part in a call with memory of another one."""
    if tensor.is_cuda and not on_gpu:
        raise ValueError(f"isomer: {name}: this rank's tensor is on a GPU and the other rank's memory on the cpu")
    if on_gpu and tensor.is_cpu and world.device != "cpu" and not tensor.is_pinned():
        raise ValueError(f"isomer: {name}: the other rank's memory is on a GPU and this rank's tensor on the cpu; pin "
                         "the tensor or move it")


def issue(world, on_gpu, name, on_stream, *arguments):
    """A call of the library, at once or in the current stream."""
    if on_gpu:
        world.check(getattr(world.lib, on_stream)(*arguments, _current(world)))
    else:
        getattr(world.lib, name)(*arguments)


def put(dest, source, rank=None):
    """source, of this rank, to rank's object of dest. On the host, source may be changed on return; on a stream, by
    later work of the stream. The data has arrived after quiet(); the other rank must be told."""
    _check_type(source, dest, "put")
    if _is_empty(source) and _is_empty(dest):
        return
    source = plain(source)
    world, address, pe, on_gpu = _target(dest, rank, "put", extent(source))
    check_local(world, source, on_gpu, "put")
    issue(world, on_gpu, "shmem_putmem", "shmemx_putmem_on_stream", address, source.data_ptr(), extent(source), pe)


def get(dest, source, rank=None):
    """rank's object of source to dest, a contiguous tensor of this rank, which has it on return (on a stream: for later
    work of the stream)."""
    _check_type(dest, source, "get")
    if _is_empty(_contiguous(dest, "get")) and _is_empty(source):
        return
    world, address, pe, on_gpu = _target(source, rank, "get", extent(dest))
    check_local(world, dest, on_gpu, "get")
    issue(world, on_gpu, "shmem_getmem", "shmemx_getmem_on_stream", dest.data_ptr(), address, extent(dest), pe)


def put_signal(dest, source, signal, value=1, rank=None, add=False):
    """put, then the signal on the same rank: it becomes value, or grows by it. A rank that sees the signal by wait or
    fetch sees the data."""
    _check_type(source, dest, "put_signal")
    source, value, at_signal = plain(source), _bits(value, "put_signal"), _signal(signal, rank, "put_signal")
    no_data = _is_empty(source) and _is_empty(dest)
    world, address, pe, on_gpu = at_signal if no_data else _target(dest, rank, "put_signal", extent(source))
    _, word, signal_pe, signal_on_gpu = at_signal
    if pe != signal_pe:
        raise ValueError(f"isomer: put_signal: dest is on pe {pe} and the signal on pe {signal_pe}")
    if on_gpu != signal_on_gpu:
        raise ValueError("isomer: put_signal: one of dest and the signal is on a GPU and the other is not")
    check_local(world, source, on_gpu, "put_signal")
    issue(world, on_gpu, "shmem_putmem_signal", "shmemx_putmem_signal_on_stream", address, source.data_ptr(),
           extent(source), word, value, _lib.SIGNAL_ADD if add else _lib.SIGNAL_SET, pe)


def signal(word, value=1, rank=None, add=False):
    """The signal of rank becomes value, or grows by it, behind all puts of this rank to it (on a GPU: those of the
    current stream)."""
    world, address, pe, on_gpu = _signal(word, rank, "signal")
    value = _bits(value, "signal")
    if on_gpu:
        stream = _current(world)
        world.check(world.lib.shmemx_quiet_on_stream(stream))
        world.check(world.lib.shmemx_signal_op_on_stream(address, value, _lib.SIGNAL_ADD if add else _lib.SIGNAL_SET,
                                                           pe, stream))
        return
    world.lib.shmem_fence()
    (world.lib.shmem_signal_add if add else world.lib.shmem_signal_set)(address, value, pe)


def wait(word, value=1, compare=">=", timeout=None):
    """Waits until this rank's own signal compares with value; returns it. timeout in seconds; None: that of the signal's
    group. Local memory has that of the first group. For a signal on a GPU, the current stream waits; nothing is
    returned, and timeout is not looked at: a wait that lasts longer than the group's timeout ends the group, and the job
    where the signal is in local memory."""
    block, value = block_of(_word(word, "wait")), _bits(value, "wait")
    if _is_on_stream(block):
        (block.world if block.group is None else block.group.lease).check_alive()
        block.world.check(block.world.lib.shmemx_signal_wait_until_on_stream(word.data_ptr(), CMP[compare], value,
                                                                               _current(block.world)))
        return None
    return _wait_on_host(block, word, value, compare, timeout)


def _wait_on_host(block, word, value, compare, timeout):
    group, fetch = block.group, block.world.lib.shmem_signal_fetch  # local memory belongs to the job
    address, holds = word.data_ptr(), COMPARE[compare]
    if timeout is None:
        timeout = block.world.seconds if group is None else group.timeout_seconds()
    end = time.monotonic() + timeout
    polls = 0
    while True:
        seen = fetch(address)
        if holds(seen, value):
            return seen
        polls += 1
        if polls > SPINS:
            time.sleep(0 if polls < 50 * SPINS else 0.0005)
            (block.world if group is None else group.lease).check_alive()
            if time.monotonic() > end:
                raise IsomerError(f"wait: the signal is {seen}, not {compare} {value}, at the end of its time")


def fetch(word):
    """This rank's own signal now, for the host; puts before it are seen. On a GPU the host first waits for the current
    stream, as item() does."""
    block = block_of(_word(word, "fetch"))
    if _is_on_stream(block):
        block.world.check_stream(_current(block.world))
    return block.world.lib.shmem_signal_fetch(word.data_ptr())


def _goes_on_stream(world, device):
    """Whether a call without a tensor goes into the current stream. None: where the job has a GPU."""
    if device is None:
        return streams_of(world) is not None
    return check_device(device, world)[1]


def quiet(group=None, device=None):
    """All puts and signals of this rank have arrived. device: "cuda" for those in the current stream, whose later work
    waits; "cpu" for the others; None: the first where the job has a GPU."""
    lease = group_of(group).lease
    lease.check_alive()  # shmem_quiet ends the process in a broken job
    world = lease.world
    issue(world, _goes_on_stream(world, device), "shmem_quiet", "shmemx_quiet_on_stream")


def barrier(group=None, device=None):
    """quiet, then all ranks of the group have come. device: as of quiet; all ranks give the same."""
    mine = group_of(group)
    world = mine.lease.world
    if _goes_on_stream(world, device):
        mine.queue().run("barrier", lambda core: world.check(
            world.lib.shmemx_barrier_on_stream(core.lease.team, _current(world))), [], None, False)
    else:
        mine.run_now("barrier", lambda core: core.call(_lib.BARRIER))


def synchronize():
    """The host waits for the current stream of the GPU. Raises where a wait in a stream of this rank has given up: then
    results of streams may not be relied on. torch.cuda.synchronize does not know of that."""
    world = group_of(None).lease.world
    world.check_usable()
    if streams_of(world) is not None:
        wait_for_stream(world, streams_of(world))


def suspend(keep=True):
    """Gives the library's physical memory back until resume(): that of the device, tensors of mem_pool() among it, and
    of the host. Addresses stay, so tensors, groups and captured graphs are right again then. Contents of tensors on the
    device are kept in host memory, and tensors of the host stay as they are; with keep=False the contents of both are
    lost, except those that keep() has marked. First waits for all streams of this rank and for its groups' calls; sends
    and receives have ended before. Calls on tensors of the device raise meanwhile, no kernel may touch such a tensor,
    and a load or store of a lent tensor of the host ends the process. Other calls on the host work. All ranks of the job
    call it."""
    world = group_of(None).lease.world
    world.check_usable()
    world.finish_calls()
    world.check(world.lib.shmemx_suspend(int(bool(keep))))


def keep(*tensors):
    """The contents of these tensors outlast suspend(keep=False), on this rank: those of weights, say, while caches are
    lost. Tensors as empty() returned them, or views that begin there."""
    for tensor in tensors:
        if tensor.numel() != 0:
            world = block_of(tensor).world
            world.check(world.lib.shmemx_keep(tensor.data_ptr()))


def resume():
    """Takes the memory again that suspend() gave back. All ranks of the job call it. Raises where the device has not
    that much memory left: all ranks may call it again then."""
    world = group_of(None).lease.world
    world.check_usable()
    world.check(world.lib.shmemx_resume())


def memory_stats(group=None):
    """What the library's memory on this rank is for, in bytes: a dict with "PURPOSE_bytes.KIND.current" for the kinds
    "host" and "device". Of the group: slot (its sequences of collectives), stage (data on the way), pair (sends and
    receives), ring (short messages between its ranks on the host), symmetric (tensors that are alive), and group, the
    sum of these five. Of the job: allocated (all tensors and buffers), reserved (the physical memory behind them, what
    is left after suspend()). A page of the host counts from its first use on. Not collective."""
    mine = group_of(group)
    lease, lib = mine.lease, mine.lease.world.lib
    lease.world.check_usable()
    stats, words, rings = {}, *lease.pairs.nbytes()
    for name, kind in (("host", _lib.HOST_MEMORY), ("device", _lib.DEVICE_MEMORY)):
        told, is_host = _lib.MemoryStats(), kind == _lib.HOST_MEMORY
        lease.world.check(lib.shmemx_memory_stats(lease.team, kind, byref(told)))
        of_group = {"slot": told.slot_bytes, "stage": told.stage_bytes,
                    "pair": told.pair_bytes + (words if is_host else 0), "ring": rings if is_host else 0,
                    "symmetric": sum(block.nbytes for block in list(_blocks.values())
                                     if block.group is mine and block.kind == kind)}
        of_job = {"group": sum(of_group.values()), "allocated": told.heap_bytes + told.local_bytes + told.team_bytes,
                  "reserved": told.held_bytes}
        stats.update((f"{what}_bytes.{name}.current", nbytes) for what, nbytes in {**of_group, **of_job}.items())
    return stats


class Handle:
    """A shmemd_t for kernels of a (group, slot): `address` of the struct, `nbytes` of it. Lives as long as the job."""

    def __init__(self, group=None, slot=0):
        mine = group_of(group)
        world, lib = mine.lease.world, mine.lease.world.lib
        self.nbytes = lib.shmemx_struct_bytes(b"shmemd_t")
        self._memory = ctypes.create_string_buffer(self.nbytes)
        self.address = ctypes.addressof(self._memory)
        world.need_device("Handle", mine.lease.pes)
        mine.run_now("Handle", lambda _: world.check(lib.shmemx_device_handle(mine.lease.team, slot, self.address)))
