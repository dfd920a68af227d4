# SPDX-License-Identifier: MIT
"""Buffers in the library's local memory that are used again. Members read each other's buffers there by pointer.

A buffer is busy until its last view has gone, whoever holds it: so any number may be in use at once, as prefetching has
it, and a result that the program keeps is never written over. Not collective: ranks may have different numbers of them.
"""
import collections
import os
import threading
import warnings
import weakref

import torch
from torch.distributed import ReduceOp

from . import _lib
from ._core import reduction_of
from ._lib import IsomerError
from ._stream import streams_of
from .memory import tensor_at, tensor_of

SIZE_STEP, RING_STEP, STAGE_STEP = 4096, 2 << 20, 32 << 20


class Pool:
    """All buffers of one job, on this rank."""

    def __init__(self, world):
        self._world, self._lock = world, threading.Lock()
        self._idle = {}  # bytes: addresses
        self._returned = collections.deque()  # (bytes, address) of views that have gone; appended without a lock
        self.buffers = self.nbytes = self.busy = self.most_busy = 0
        world.at_end.append(self._end)

    def take(self, shape, dtype):
        """A tensor with undefined contents; ordinary memory where the library has no more."""
        shape = torch.Size(shape)
        wanted = shape.numel() * dtype.itemsize
        if wanted == 0 or self._world.broken is not None:
            return torch.empty(shape, dtype=dtype)
        nbytes = -(-wanted // SIZE_STEP) * SIZE_STEP
        with self._lock:
            self._sort()
            addresses = self._idle.get(nbytes)
            address = addresses.pop() if addresses else self._make(nbytes)
            if not address:
                return torch.empty(shape, dtype=dtype)
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
        flat, memory = tensor_at(address, nbytes, torch.uint8)
        weakref.finalize(memory, self._returned.append, (nbytes, address)).atexit = False
        return flat[:wanted].view(dtype).view(shape)

    def _make(self, nbytes):
        address = self._world.lib.shmemx_local_malloc(nbytes, _lib.HOST_MEMORY)
        if address:
            self.buffers, self.nbytes = self.buffers + 1, self.nbytes + nbytes
        return address

    def _sort(self):
        """Finalizers run at any time, also inside take: they only append."""
        while self._returned:
            nbytes, address = self._returned.popleft()
            self._idle.setdefault(nbytes, []).append(address)
            self.busy -= 1

    def trim(self):
        """Gives idle buffers back to the library."""
        with self._lock:
            self._sort()
            for nbytes, addresses in self._idle.items():
                for address in addresses:
                    if self._world.pid == os.getpid() and self._world.broken is None:
                        self._world.lib.shmemx_local_free(address)
                    self.buffers, self.nbytes = self.buffers - 1, self.nbytes - nbytes
            self._idle.clear()

    def _end(self, world):
        self._idle.clear()


class DevicePool:
    """The same on a GPU, by torch's own allocator over the library's memory: a buffer is used again in the order of its
    stream, and after what record_stream has named. Where there is no room, torch raises torch.OutOfMemoryError: peers
    must find a buffer reachable on all ranks or on none. `buffers` and `nbytes` count what was ever taken."""

    def __init__(self, world, device):
        self._device = device
        self._allocator = torch.cuda.memory.CUDAPluggableAllocator(world.lib._name, "shmemx_torch_malloc",
                                                                   "shmemx_torch_free")
        self.mem_pool = torch.cuda.MemPool(self._allocator.allocator())
        self.buffers = self.nbytes = self.most_busy = 0
        world.at_end.append(self._end)

    def take(self, shape, dtype):
        with torch.cuda.use_mem_pool(self.mem_pool, self._device):
            tensor = torch.empty(torch.Size(shape), dtype=dtype, device=self._device)
        self.buffers, self.nbytes = self.buffers + 1, self.nbytes + tensor.nbytes
        return tensor

    def _end(self, world):
        self.mem_pool = None


def _symmetric(group, nbytes):
    """The address of new device memory, which is the same object on all members, or None on all of them: one has no
    room, or does not reach the others' by pointers. Then the group goes on without such buffers. Collective."""
    lease, lib = group.lease, group.lease.world.lib
    address = group.run_now("a buffer", lambda _: lib.shmemx_team_malloc(lease.team, nbytes, _lib.DEVICE_MEMORY))
    reason = f"no symmetric memory for a buffer of {nbytes} bytes"
    if address:
        reaches = torch.tensor([all(lib.shmemx_device_ptr(address, pe) for pe in lease.pes)], dtype=torch.uint8)
        group.run_now("a buffer", lambda core: core.all_reduce(reaches, reduction_of(ReduceOp.MIN, reaches.dtype)))
        if reaches.item():
            return address
        reason = "not all members reach each other's memory by pointers"
        group.run_now("a buffer", lambda _: lease.world.check(lib.shmemx_team_free(lease.team, address)))
    lease.world.check_usable()
    lease.pairs.has_room = False
    warnings.warn(f"isomer: {reason}: large calls of this group go on by kernels alone")
    return None


class Stage:
    """A buffer that is at the same place on all members, for the calls of one kind, one after the other. It grows."""

    def __init__(self):
        self._lock, self._flat, self._stream, self._address = threading.Lock(), None, None, None
        self._tensor = None  # what the last call got

    def take(self, group, streams, shape, dtype):
        """The same memory each time, behind what is now in the stream of the call before. None on all members: there is
        no room."""
        stream = streams.current()
        with self._lock:
            if self._stream is not None and streams.handle(self._stream) != streams.handle(stream):
                stream.wait_event(streams.event(self._stream))
            streams.settle()
            self._stream, tensor = stream, self._tensor
            if tensor is None or tensor.shape != shape or tensor.dtype != dtype:
                tensor = self._tensor = self._view(group, streams, torch.Size(shape), dtype)
        return tensor

    def _view(self, group, streams, shape, dtype):
        wanted = shape.numel() * dtype.itemsize
        if self._flat is None or self._flat.numel() < wanted:
            self._grow(group, streams, -(-wanted // STAGE_STEP) * STAGE_STEP)
        return self._flat[:wanted].view(dtype).view(shape) if self._flat is not None else None

    def _grow(self, group, streams, nbytes):
        world, lib, team = group.lease.world, group.lease.world.lib, group.lease.team
        if self._address is not None:
            streams.synchronize()
            group.run_now("a buffer that was too small",
                          lambda _: world.check(lib.shmemx_team_free(team, self._address)))
        self._flat = self._tensor = None
        self._address = _symmetric(group, nbytes)
        if self._address is not None:
            self._flat, _ = tensor_of(world, self._address, nbytes, torch.uint8, _lib.DEVICE_MEMORY)


class Ring:
    """Buffers of one size on the device of the streams, in symmetric memory of a group: each is at the same place on all
    members, so that copy engines know where a peer's is. The members take them in turn. A buffer is taken again when its
    turn comes and its last view has gone, behind what is in the stream that it was taken in. One that is busy then is
    passed over by all members, which meet on the host before they do so. So a member whose program alone keeps a view
    waits for the others, and the wait is reported; no member's data is wrong."""

    def __init__(self, nbytes):
        self._bytes_each, self._lock = nbytes, threading.Lock()
        self._turns = collections.deque()  # addresses; the first one is next
        self._busy, self._idle = {}, {}  # address: the stream that it was taken in
        self._returned = collections.deque()  # addresses of views that have gone; appended without a lock
        self.most_busy = 0

    def take(self, group, shape, dtype):
        """By any of the groups that the same members have made. None on all members: there is no room."""
        world, shape = group.lease.world, torch.Size(shape)
        streams = streams_of(world)
        stream = streams.current()
        with self._lock:
            while self._returned:
                address = self._returned.popleft()
                self._idle[address] = self._busy.pop(address)
            for _ in range(len(self._turns)):
                if self._turns[0] not in self._busy:
                    break
                group.run_now("a buffer that is busy", lambda core: core.barrier())
                self._turns.rotate(-1)
            else:
                address = _symmetric(group, self._bytes_each)
                if not address:
                    return None
                group.lease.pairs.at_one_place.add(address)
                self._turns.appendleft(address)
            address = self._turns[0]
            self._turns.rotate(-1)
            before = self._idle.pop(address, stream)
            self._busy[address] = stream
            self.most_busy = max(self.most_busy, len(self._busy))
        if streams.handle(before) != streams.handle(stream):
            stream.wait_event(streams.event(before))
        flat, memory = tensor_of(world, address, shape.numel() * dtype.itemsize, dtype, _lib.DEVICE_MEMORY)
        weakref.finalize(memory, self._returned.append, address).atexit = False
        return flat if len(shape) == 1 else flat.view(shape)

    @property
    def buffers(self):
        return len(self._turns)

    @property
    def nbytes(self):
        return len(self._turns) * self._bytes_each


def ring_of(group, nbytes):
    """The ring for so many bytes. It lives as long as the group's team, for later groups of the same members, too."""
    nbytes = -(-nbytes // RING_STEP) * RING_STEP
    return group.lease.pairs.rings.setdefault(nbytes, Ring(nbytes))


def stage_of(group, kind):
    """Likewise the stage for calls of a kind."""
    stages = group.lease.pairs.stages
    if kind not in stages:
        stages[kind] = Stage()
    return stages[kind]


_pools = weakref.WeakKeyDictionary()  # by job: {whether it is on a GPU: pool}


def pool_of(world, device="cpu"):
    pools, on_gpu = _pools.setdefault(world, {}), torch.device(device).type == "cuda"
    if on_gpu not in pools:
        pools[on_gpu] = DevicePool(world, streams_of(world).device) if on_gpu else Pool(world)
    return pools[on_gpu]


def mem_pool(group=None):
    """A torch.cuda.MemPool over the library's local memory, for torch.cuda.use_mem_pool: all ranks of a group allocate
    the tensors of a call in it, or none does. Lives as long as the group's job; not collective."""
    from .pg import group_of
    world = group_of(group).lease.world
    if world.device == "cpu":
        raise IsomerError("mem_pool: this job has no GPU")
    return pool_of(world, "cuda").mem_pool
