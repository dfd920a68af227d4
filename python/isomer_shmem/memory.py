# SPDX-License-Identifier: MIT
"""Tensors in the library's memory, views of other ranks' tensors, and one-sided calls, for CPU tensors.

A symmetric tensor is the same object on all ranks of a group: any of its elements names the same place on each of them.
A local tensor belongs to one rank, and place() names it to others. Memory of a symmetric tensor lives until free(), a
collective call, or until the job ends; that of a local tensor until its last view has gone. No view of either may be
touched after the last group of the process was destroyed: the memory is unmapped then.
"""
import ctypes
import os
import time
import warnings
import weakref
from collections import namedtuple
from ctypes import byref, c_uint64

import torch

from . import _lib
from ._lib import IsomerError
from .pg import group_of

COMPARE = {"==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
           ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}
SPINS = 200  # polls of a wait before it yields the core

# Names memory of one rank of the job to all others; may be sent by any channel. `pe` is the number in the whole job.
Place = namedtuple("Place", "pe offset shape dtype")


class Block:
    """Memory of one empty() call. `group` is None for local memory."""

    def __init__(self, world, group, address, nbytes):
        self.world, self.group, self.address, self.nbytes = world, group, address, nbytes


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


def tensor_at(address, nbytes, dtype):
    """One dimension of elements at an address, and the object that lives as long as any view of it."""
    memory = (ctypes.c_ubyte * nbytes).from_address(address)
    return torch.frombuffer(memory, dtype=dtype), memory


def _check_device(device):
    if torch.device(device).type != "cpu":
        raise NotImplementedError(f"isomer: this version has tensors on the cpu alone, not on {device}")


def empty(*shape, dtype=None, device="cpu", group=None, local=False, for_kernels=False):
    """A tensor in memory of the library, with undefined contents. shape: numbers, or one tuple of them.

    Symmetric, the default: collective over the group, with equal arguments. local: this rank's alone; `group` is not
    looked at beyond the job. for_kernels: memory of the CPU device, which kernels take, and which has no peer views."""
    _check_device(device)
    shape = torch.Size(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
    dtype = dtype or torch.get_default_dtype()
    nbytes = shape.numel() * dtype.itemsize
    if nbytes == 0:
        return torch.empty(shape, dtype=dtype)
    mine = group_of(group)
    world, kind = mine.lease.world, _lib.DEVICE_MEMORY if for_kernels else _lib.HOST_MEMORY
    world.check_usable()
    if local:
        address = world.lib.shmemx_local_malloc(nbytes, kind)
    else:
        address = mine.run_now("empty", lambda: world.lib.shmemx_team_malloc(mine.lease.team, nbytes, kind))
    if not address:
        raise IsomerError(_lib.text_of(world.lib.shmemx_error_text) or f"no memory for {nbytes} bytes")
    flat, memory = tensor_at(address, nbytes, dtype)
    _blocks[address] = Block(world, None if local else mine, address, nbytes)
    if local:
        weakref.finalize(memory, _free_local, world, address).atexit = False
    else:
        world.symmetric[address] = weakref.ref(memory)
    if forget not in world.at_end:
        world.at_end.append(forget)
    return flat.view(shape)


def zeros(*shape, **options):
    """As empty, with zeros; symmetric ones are zero on all ranks when any of them returns."""
    tensor = empty(*shape, **options)
    tensor.zero_()
    if not options.get("local") and tensor.numel():
        barrier(options.get("group"))
    return tensor


def _free_local(world, address):
    """Any thread, at any time, also in a forked child, which must not."""
    block = _blocks.get(address)
    if block is not None and block.world is world:
        del _blocks[address]
        if world.pid == os.getpid() and world.broken is None:
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
        status = mine.run_now("free", lambda: lib.shmemx_team_free(mine.lease.team, block.address))
        _lib.check(status, "shmemx_team_free")
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
    pes = (group_of(group) if group is not None or block.group is None else block.group).lease.pes
    if not 0 <= rank < len(pes):
        raise ValueError(f"isomer: rank {rank} is outside 0..{len(pes) - 1}")
    return pes[rank]


def place(tensor):
    """Names a contiguous tensor of this rank, symmetric or local, to all ranks of the job."""
    block, offset = block_of(_contiguous(tensor, "place")), c_uint64()
    _lib.check(block.world.lib.shmemx_offset_of(tensor.data_ptr(), byref(offset)), "shmemx_offset_of")
    return Place(block.world.pe, offset.value, tuple(tensor.shape), tensor.dtype)


def peer(tensor, rank=None):
    """A view of rank's object of a symmetric tensor, `rank` in the tensor's group, or of what a Place names. None: the
    rank is on another node, so that only put and get reach it."""
    if isinstance(tensor, Place):
        world = group_of(None).lease.world
        world.check_usable()
        pe, shape, dtype = tensor.pe, tensor.shape, tensor.dtype
        address = world.lib.shmemx_at_offset(pe, tensor.offset)
        nbytes = torch.Size(shape).numel() * dtype.itemsize
    else:
        block = block_of(tensor)
        if block.group is None:
            raise ValueError("isomer: peer: the tensor is local; send place() of it and call peer with that")
        pe, shape, dtype = _pe(block, rank, None), tensor.shape, tensor.dtype
        world, address, nbytes = block.world, tensor.data_ptr(), extent(tensor)
    if nbytes == 0:
        return torch.empty(shape, dtype=dtype)
    near = world.lib.shmem_ptr(address, pe)
    if not near:
        return None
    flat, _ = tensor_at(near, nbytes, dtype)
    return flat.view(shape) if isinstance(tensor, Place) else flat.as_strided(tensor.shape, tensor.stride(), 0)


def _contiguous(tensor, name):
    if not tensor.is_contiguous():
        raise ValueError(f"isomer: {name} takes contiguous tensors of the library")
    return tensor


def _target(tensor, rank, name, nbytes, group=None):
    """(library, address, pe) of rank's object."""
    if isinstance(tensor, Place):
        world, room = group_of(group).lease.world, torch.Size(tensor.shape).numel() * tensor.dtype.itemsize
        world.check_usable()
        address, pe = world.lib.shmemx_at_offset(tensor.pe, tensor.offset), tensor.pe
    else:
        block = block_of(_contiguous(tensor, name))
        if block.group is None and group is None:
            raise ValueError(f"isomer: {name}: the tensor is local; send place() of it and give that")
        world, room, address = block.world, extent(tensor), tensor.data_ptr()
        pe = _pe(block, rank, group)
    if room != nbytes:
        raise ValueError(f"isomer: {name}: {nbytes} bytes for {room} bytes on the other rank")
    return world.lib, address, pe


def _signal(signal, rank, name):
    if not isinstance(signal, Place) and (signal.numel() != 1 or signal.dtype not in (torch.int64, torch.uint64)):
        raise ValueError(f"isomer: {name}: a signal is one element of int64 or uint64 in symmetric memory")
    return _target(signal, rank, name, 8)


def put(dest, source, rank=None):
    """source, of this rank, to rank's object of dest. source may be changed on return. The data has arrived after
    quiet(); the other rank must be told."""
    source = source.detach().contiguous()
    lib, address, pe = _target(dest, rank, "put", extent(source))
    lib.shmem_putmem(address, source.data_ptr(), extent(source), pe)


def get(dest, source, rank=None):
    """rank's object of source to dest, a contiguous tensor of this rank, which has it on return."""
    _contiguous(dest, "get")
    lib, address, pe = _target(source, rank, "get", extent(dest))
    lib.shmem_getmem(dest.data_ptr(), address, extent(dest), pe)


def put_signal(dest, source, signal, value=1, rank=None, add=False):
    """put, then the signal on the same rank: it becomes value, or grows by it. A rank that sees the signal by wait or
    fetch sees the data."""
    source = source.detach().contiguous()
    lib, address, pe = _target(dest, rank, "put_signal", extent(source))
    _, word, signal_pe = _signal(signal, rank, "put_signal")
    if pe != signal_pe:
        raise ValueError(f"isomer: put_signal: dest is on pe {pe} and the signal on pe {signal_pe}")
    op = _lib.SIGNAL_ADD if add else _lib.SIGNAL_SET
    lib.shmem_putmem_signal(address, source.data_ptr(), extent(source), word, value, op, pe)


def signal(word, value=1, rank=None, add=False):
    """The signal of rank becomes value, or grows by it, behind all puts of this rank to it."""
    lib, address, pe = _signal(word, rank, "signal")
    lib.shmem_fence()
    (lib.shmem_signal_add if add else lib.shmem_signal_set)(address, value, pe)


def wait(word, value=1, compare=">=", timeout=None):
    """Waits until this rank's own signal compares with value; returns it. timeout in seconds; None: the group's."""
    block = block_of(word)
    group, fetch = block.group or group_of(None), block.world.lib.shmem_signal_fetch
    address, holds = word.data_ptr(), COMPARE[compare]
    end = time.monotonic() + (group.timeout_seconds() if timeout is None else timeout)
    polls = 0
    while True:
        seen = fetch(address)
        if holds(seen, value):
            return seen
        polls += 1
        if polls > SPINS:
            time.sleep(0 if polls < 50 * SPINS else 0.0005)
            block.world.check_alive(group.lease.team)
            if time.monotonic() > end:
                raise IsomerError(f"wait: the signal is {seen}, not {compare} {value}, at the end of its time")


def fetch(word):
    """This rank's own signal now; puts before it are seen."""
    return block_of(word).world.lib.shmem_signal_fetch(word.data_ptr())


def quiet(group=None):
    """All puts and signals of this rank have arrived."""
    group_of(group).lease.world.check_usable()
    group_of(group).lease.world.lib.shmem_quiet()


def barrier(group=None):
    """quiet, then all ranks of the group have come."""
    mine = group_of(group)
    mine.run_now("barrier", lambda: mine.core().call(_lib.BARRIER))


class Handle:
    """A shmemd_t for kernels of a (group, slot): `address` of the struct, `nbytes` of it. Lives as long as the job."""

    def __init__(self, group=None, slot=0):
        mine = group_of(group)
        lib = mine.lease.world.lib
        self.nbytes = lib.shmemx_struct_bytes(b"shmemd_t")
        self._memory = ctypes.create_string_buffer(self.nbytes)
        self.address = ctypes.addressof(self._memory)
        status = mine.run_now("Handle", lambda: lib.shmemx_device_handle(mine.lease.team, slot, self.address))
        _lib.check(status, "shmemx_device_handle")
