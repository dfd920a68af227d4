# SPDX-License-Identifier: MIT
"""Buffers in the library's local memory that are used again. Members read each other's buffers there by pointer.

A buffer is busy until its last view has gone, whoever holds it: so any number may be in use at once, as prefetching has
it, and a result that the program keeps is never written over. Not collective: ranks may have different numbers of them.
"""
import collections
import os
import threading
import weakref

import torch

from . import _lib
from .memory import tensor_at

SIZE_STEP = 4096


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


_pools = weakref.WeakKeyDictionary()  # by job


def pool_of(world):
    if world not in _pools:
        _pools[world] = Pool(world)
    return _pools[world]
