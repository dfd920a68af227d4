# SPDX-License-Identifier: MIT
"""Windows: a tensor of each member into which the others put, with a count of signals for each pair of members. The
calls and their meaning are those of torch's windows (`new_window` of a group, torch 2.14 and later).

The tensors are in memory of the library and may differ in size between the members; all are on the same kind of device.
A member that has waited for a signal sees the puts that its sender made before the signal. On GPUs calls go into the
current stream. One thread of a rank at a time uses a window.
"""
from ctypes import byref, c_uint64

import torch

from . import _lib, memory
from ._core import is_plain, plain
from ._work import IsomerWork
from .pg import ended_work, group_of


class _SignalWork(IsomerWork):
    """Of a signal that is waited for in wait(), and not before."""

    def __init__(self, word, count):
        super().__init__("wait_signal", [])
        self._word, self._count = word, count

    def is_completed(self):
        if not self._finished and memory.fetch(self._word) >= self._count:
            self.finish()
        return self._finished

    def wait(self, timeout=None):
        if not self._finished:
            memory.wait(self._word, self._count, timeout=None if timeout is None else timeout.total_seconds())
            self.finish()
        return True


class Window:
    """Made by new_window. tensor_register gives it a tensor, tensor_deregister takes it away: both collective."""

    def __init__(self, group, tensor=None):
        self._group, self._tensor, self._places, self._words = group, None, None, None
        if tensor is not None:
            self.tensor_register(tensor)

    def tensor_register(self, tensor):
        """The member's own tensor: contiguous, in memory of the library (empty, mem_pool, allocate_tensor). Collective
        over the group, with one element size. The tensor stays alive as long as it is registered."""
        if self._tensor is not None:
            raise ValueError("isomer: tensor_register: the window has a tensor; call tensor_deregister first")
        world, size, address, offset = self._group.lease.world, self._group.size(), tensor.data_ptr(), c_uint64()
        is_ours = is_plain(tensor) and (  # the first call prints nothing
            tensor.numel() == 0 or world.lib.shmemx_address_info(address, byref(_lib.AddressInfo())) == 0 and
            world.lib.shmemx_offset_of(address, byref(offset)) == 0)
        mine = torch.tensor([world.pe, offset.value, tensor.numel(), tensor.element_size() if is_ours else 0])
        told = torch.empty(4 * size, dtype=torch.int64)
        self._group.run_now("tensor_register", lambda core: core.all_gather_single(told, mine))
        told = told.view(size, 4).tolist()
        for rank, (_, _, _, element_size) in enumerate(told):
            if element_size == 0:
                raise ValueError(f"isomer: tensor_register: the tensor of rank {rank} is not contiguous memory of the "
                                 "library: isomer_shmem.empty(n, local=True) makes such a tensor")
            if element_size != told[0][3]:
                raise ValueError(f"isomer: tensor_register: elements have {told[0][3]} bytes on rank 0 and "
                                 f"{element_size} on rank {rank}; they must be equal")
        self._places = [memory.Place(pe, place, (nelems,), tensor.dtype) for pe, place, nelems, _ in told]
        self._words = memory.zeros(size, dtype=torch.int64, device=tensor.device, group=self._group)
        memory.keep(self._words)
        self._seen, self._tensor = [0] * size, tensor

    def tensor_deregister(self):
        """Ends what tensor_register began, when all members have called it. No member waits for signals any more."""
        memory.quiet(self._group, device=self._registered("tensor_deregister").device)
        self._group.run_now("tensor_deregister", lambda core: core.barrier())
        memory.free(self._words)
        self._tensor = self._places = self._words = None

    def _registered(self, name):
        if self._tensor is None:
            raise ValueError(f"isomer: {name}: the window has no tensor; call tensor_register")
        return self._tensor

    def get_tensor(self):
        """The member's own tensor; None: none is registered."""
        return self._tensor

    def _of(self, name, rank):
        self._registered(name)
        if not 0 <= rank < len(self._places):
            raise ValueError(f"isomer: {name}: rank {rank} is outside 0..{len(self._places) - 1}")
        return self._places[rank]

    def put(self, tensor, dst_rank, target_offset_nelems=0, async_op=False):
        """tensor to dst_rank's tensor, from the element at target_offset_nelems on. `tensor` may be changed on return;
        on a GPU, by later work of the stream."""
        place = self._of("put", dst_rank)
        if tensor.dtype != place.dtype:
            raise ValueError(f"isomer: put: the tensor has {tensor.dtype} and the window {place.dtype}")
        if not 0 <= target_offset_nelems <= place.shape[0] - tensor.numel():
            raise ValueError(f"isomer: put: {tensor.numel()} elements at {target_offset_nelems} are outside of the "
                             f"{place.shape[0]} of rank {dst_rank}")
        lease, source, on_gpu = self._group.lease, plain(tensor), self._tensor.is_cuda
        lease.check_usable()
        world = lease.world
        if tensor.numel() > 0:
            memory.check_local(world, source, on_gpu, "put")
            address = world.check_address(world.lib.shmemx_at_offset(
                place.pe, place.offset + target_offset_nelems * tensor.element_size()))
            memory.issue(world, on_gpu, "shmem_putmem", "shmemx_putmem_on_stream", address, source.data_ptr(),
                         source.nbytes, place.pe)
        return _done("put", async_op)

    def signal(self, dst_rank, async_op=False):
        """One more signal from this member to dst_rank, behind all puts of this member to it."""
        self._of("signal", dst_rank)
        memory.signal(self._words[self._group.rank()], 1, rank=dst_rank, add=True)
        return _done("signal", async_op)

    def wait_signal(self, peer_rank, async_op=False):
        """Takes one signal of peer_rank, for which it waits: the group's timeout at most. On a GPU the current stream
        waits. With async_op on the host, the work's wait() does."""
        self._of("wait_signal", peer_rank)
        self._seen[peer_rank] += 1
        word, count = self._words[peer_rank], self._seen[peer_rank]
        if async_op and word.is_cpu:
            return _SignalWork(word, count)
        memory.wait(word, count)
        return _done("wait_signal", async_op)

    def map_remote_tensor(self, rank):
        """A tensor of one dimension over rank's tensor, for loads and stores; None: the rank is on another node."""
        return memory.peer(self._of("map_remote_tensor", rank), group=self._group)


def _done(name, async_op):
    """The work of a call that needs no more waiting on the host."""
    return ended_work(name) if async_op else None


def new_window(tensor=None, group=None):
    """A Window of a group (None: the default one), with the tensor if one is given. Collective over the group then."""
    return Window(group_of(group), tensor)
