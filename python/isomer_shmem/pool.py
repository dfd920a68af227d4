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
from ._device import streams_of
from ._lib import IsomerError
from ._views import tensor_of

SIZE_STEP, RING_STEP = 4096, 2 << 20
_uses = torch._C._storage_Use_Count


class Buffer:
    """Memory of the library that is given out again and again, and the stream of the last time."""

    def __init__(self, world, address, nbytes, kind):
        with torch.inference_mode(False):
            flat, _ = tensor_of(world, address, nbytes, torch.uint8, kind)
        self.address, self.nbytes, self.stream = address, nbytes, None
        self._storage, self._device = flat.untyped_storage(), flat.device
        del flat
        self._identity = self._storage._cdata
        self._alone = _uses(self._identity)

    def is_busy(self):
        """Some view of it is alive, whoever holds it."""
        return _uses(self._identity) > self._alone

    def take(self, shape, dtype):
        """A tensor with undefined contents, at the start of the memory."""
        return torch.empty(0, dtype=dtype, device=self._device).set_(self._storage, 0, shape)

    def take_in_stream(self, streams, shape, dtype):
        """The same, behind what is now in the stream of the last time."""
        stream, before = streams.current(), self.stream
        if before is not None and streams.handle(before) != streams.handle(stream):
            stream.wait_event(streams.event(before))
        self.stream = stream
        return self.take(shape, dtype)


class Pool:
    """All buffers of one job, on this rank."""

    def __init__(self, world):
        self._world, self._lock, self.most_busy = world, threading.Lock(), 0
        self._made = {}  # by bytes
        world.at_end.append(self._end)

    def take(self, shape, dtype):
        """A tensor with undefined contents; ordinary memory where the library has no more."""
        shape = torch.Size(shape)
        nbytes = -(-shape.numel() * dtype.itemsize // SIZE_STEP) * SIZE_STEP
        with self._lock:
            buffer = self._idle(nbytes) if nbytes != 0 and self._world.broken is None else None
            tensor = buffer.take(shape, dtype) if buffer is not None else torch.empty(shape, dtype=dtype)
            self.most_busy = max(self.most_busy, self.busy)
        return tensor

    def _idle(self, nbytes):
        made = self._made.setdefault(nbytes, [])
        for buffer in made:
            if not buffer.is_busy():
                return buffer
        address = self._world.lib.shmemx_local_malloc(nbytes, _lib.HOST_MEMORY)
        if address:
            made.append(Buffer(self._world, address, nbytes, _lib.HOST_MEMORY))
        return made[-1] if address else None

    def _all(self):
        return [buffer for made in self._made.values() for buffer in made]

    @property
    def buffers(self):
        return len(self._all())

    @property
    def nbytes(self):
        return sum(buffer.nbytes for buffer in self._all())

    @property
    def busy(self):
        return sum(buffer.is_busy() for buffer in self._all())

    def trim(self):
        """Gives idle buffers back to the library."""
        if self._world.pid != os.getpid() or self._world.broken is not None:
            return
        with self._lock:
            for buffer in self._all():
                if not buffer.is_busy():
                    self._made[buffer.nbytes].remove(buffer)
                    self._world.lib.shmemx_local_free(buffer.address)

    def _end(self, world):
        self._made.clear()


class DevicePool:
    """The same on a GPU, by torch's own allocator over the library's memory: a buffer is used again in the order of its
    stream, and after what record_stream has named. Where there is no room, torch raises torch.OutOfMemoryError: peers
    must find a buffer reachable on all ranks or on none. `buffers` and `nbytes` count what was ever taken."""

    def __init__(self, world, device):
        backend = torch.cuda.get_allocator_backend()
        if backend != "native":
            raise IsomerError(f"torch allocates by {backend} (PYTORCH_CUDA_ALLOC_CONF), which has no pools: take it out "
                              "there, or make tensors in the library's memory by isomer_shmem.empty(local=True)")
        self._device = device
        self._pluggable = torch.cuda.memory.CUDAPluggableAllocator(world.lib._name, "shmemx_torch_malloc",
                                                                   "shmemx_torch_free")
        self.allocator = self._pluggable.allocator()
        self.mem_pool = torch.cuda.MemPool(self.allocator)
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
    """A new buffer on the device, which is the same object on all members, or None on all of them: one has no room, or
    does not reach the others' by pointers. Then the group goes on without such buffers. Collective."""
    lease, lib = group.lease, group.lease.world.lib
    address = group.run_now("a buffer", lambda _: lib.shmemx_team_malloc(lease.team, nbytes, _lib.DEVICE_MEMORY))
    reason = f"no symmetric memory for a buffer of {nbytes} bytes"
    if address:
        reaches = torch.tensor([all(lib.shmemx_device_ptr(address, pe) for pe in lease.pes)], dtype=torch.uint8)
        group.run_now("a buffer", lambda core: core.all_reduce(reaches, reduction_of(ReduceOp.MIN, reaches.dtype)))
        if reaches.item():
            return Buffer(lease.world, address, nbytes, _lib.DEVICE_MEMORY)
        reason = "not all members reach each other's memory by pointers"
        group.run_now("a buffer", lambda _: lease.world.check(lib.shmemx_team_free(lease.team, address)))
    lease.world.check_usable()
    lease.pairs.has_room = False
    warnings.warn(f"isomer: {reason}: large calls of this group go on by kernels alone")
    return None


class Ring:
    """Buffers of one size on the device of the streams, in symmetric memory of a group: each is at the same place on all
    members, so that copy engines know where a peer's is. The members take them in turn. A buffer is taken again when its
    turn comes and its last view has gone, behind what is in the stream that it was taken in. One that is busy then is
    passed over by all members, which meet on the host before they do so. So a member whose program alone keeps a view
    waits for the others, and the wait is reported; no member's data is wrong."""

    def __init__(self, nbytes):
        self._bytes_each, self._lock = nbytes, threading.Lock()
        self._turns = collections.deque()  # the first one is next

    def take(self, group, streams, shape, dtype):
        """By any of the groups that the same members have made. None on all members: there is no room."""
        turns = self._turns
        with self._lock:
            for _ in range(len(turns)):
                if not turns[0].is_busy():
                    break
                group.run_now("a buffer that is busy", lambda core: core.barrier())
                turns.rotate(-1)
            else:
                buffer = _symmetric(group, self._bytes_each)
                if buffer is None:
                    return None
                group.lease.pairs.at_one_place.add(buffer.address)
                turns.appendleft(buffer)
            tensor = turns[0].take_in_stream(streams, shape, dtype)
            turns.rotate(-1)
        return tensor

    @property
    def buffers(self):
        return len(self._turns)

    most_busy = buffers  # a new one is made when all are busy

    @property
    def nbytes(self):
        return len(self._turns) * self._bytes_each


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
    return device_pool_of(group_of(group), "mem_pool").mem_pool


def device_pool_of(group, name):
    world = group.lease.world
    if world.device == "cpu":
        raise IsomerError(f"{name}: this job has no GPU; isomer_shmem.empty and the group's allocate_tensor give CPU "
                          "tensors in memory of the library")
    return pool_of(world, "cuda")
