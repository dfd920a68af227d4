# SPDX-License-Identifier: MIT
"""One-sided calls inside @triton.jit kernels:

    import isomer_shmem.triton as shmem

    @triton.jit
    def kernel(handle, inbox, mine, flag, n, right):
        shmem.put_signal(handle, inbox, mine, n, flag, 1, right)
        shmem.signal_wait_until(handle, flag, shmem.GE, 1)

    kernel[(1,)](shmem.handle(group), inbox, mine, flag, n, right, **shmem.options())

options() names the bitcode that the compiler links; there is no hook and no module to initialise. `handle` is a tensor
on the GPU with the 64 bytes of a shmemd_t (include/shmem_device.h, whose rules hold for all calls here).

A program acts as one caller. Each call synchronises the program's threads first, so it covers what the program has
stored before, and its results are there for all of the program. Pointers are of symmetric memory on this PE, and `pe`
counts in the handle's team. Programs of one handle that call barrier, sync or a collective must run at the same time,
as many on each PE, and program i meets program i of the other PEs. Not for kernels with num_ctas > 1 or inside
warp-specialised regions.
"""
import triton  # noqa: F401
from triton.language import core

from . import _lib

EQ, NE, LT, LE, GT, GE = (core.constexpr(value) for value in range(1, 7))  # SHMEM_CMP_
SET, ADD = core.constexpr(_lib.SIGNAL_SET), core.constexpr(_lib.SIGNAL_ADD)


# ---- the host's side ----

def bitcode(backend="cuda", arch=None):
    """The file with the functions: backend "cuda" (8.0 and later), or "hip" with arch, for instance "gfx942"."""
    if backend not in ("cuda", "hip"):
        raise ValueError(f"isomer_shmem.triton.bitcode: backend {backend!r} is neither 'cuda' nor 'hip'")
    name = "isomer_device-" + ("nvptx64" if backend == "cuda" else str(arch).split(":")[0]) + ".bc"
    return _lib.device_file(name)


def options(target=None):
    """What a launch takes besides its arguments: kernel[grid](..., **options()). target: a GPUTarget; None: that of the
    current GPU. triton.compile takes it as options=options(target)."""
    if target is None:
        target = triton.runtime.driver.active.get_current_target()
    return {"extern_libs": {"shmemd_": bitcode(target.backend, target.arch)}}


def handle(group=None, slot=0, device="cuda"):
    """The handle of (group, slot) as a tensor on `device`. Collective over the group at its first call with this slot;
    it may be used until the group's job ends."""
    import ctypes

    import torch

    from .memory import Handle
    struct = Handle(group, slot)
    content = bytearray(ctypes.string_at(struct.address, struct.nbytes))
    return torch.frombuffer(content, dtype=torch.int64).to(device, copy=True)


# ---- how a call is made ----

_UNSIGNED = {8: core.uint8, 16: core.uint16, 32: core.uint32, 64: core.uint64}


def _fail(call, sentence):
    raise ValueError(f"isomer_shmem.triton.{call}: {sentence}")


def _pointer(call, name, value, semantic):
    """(the address as an integer, type of the elements)"""
    value = semantic.to_tensor(value)
    if not value.dtype.is_ptr():
        _fail(call, f"{name} is of type {value.type}; it must be a pointer")
    return semantic.cast(value, core.uint64), value.dtype.element_ty


def _number(call, name, value, dtype, semantic):
    value = semantic.to_tensor(value)
    if not value.dtype.is_int():
        _fail(call, f"{name} is of type {value.type}; it must be an integer")
    return semantic.cast(value, dtype)


def _scalars(call, **values):
    for name, value in values.items():
        if value.type.is_block():
            _fail(call, f"{name} is a block of type {value.type}; it must be a scalar")


def _emit(symbol, result, arguments, semantic, is_pure=False):
    types = tuple(argument.dtype for argument in arguments)
    return core.extern_elementwise("shmemd_", "", arguments, {types: ("shmemd_program_" + symbol, result)}, is_pure,
                                   _semantic=semantic)


def _handle(call, handle, semantic):
    address, _ = _pointer(call, "handle", handle, semantic)
    _scalars(call, handle=address)
    return address


def _bits(call, value, dtype, semantic):
    """value, converted to dtype, as an unsigned integer that the functions take."""
    value = semantic.cast(semantic.to_tensor(value), dtype)
    return _widened(semantic.bitcast(value, _unsigned(call, dtype)), semantic)


def _unsigned(call, dtype):
    size = 64 if dtype.is_ptr() else dtype.primitive_bitwidth
    if size not in _UNSIGNED:
        _fail(call, f"elements of type {dtype} have {size} bits; 8, 16, 32 and 64 are possible")
    return _UNSIGNED[size]


def _widened(value, semantic):
    return semantic.cast(value, core.uint32) if value.dtype.primitive_bitwidth < 32 else value


def _typed(bits, dtype, semantic):
    """Bits that a function gave, as dtype."""
    return semantic.bitcast(semantic.cast(bits, _UNSIGNED[dtype.primitive_bitwidth]), dtype)


# ---- who and where ----

@core.extern
def my_pe(handle, _semantic=None):
    """The number of this PE in the handle's team."""
    return _emit("my_pe", core.int32, [_handle("my_pe", handle, _semantic)], _semantic, True)


@core.extern
def n_pes(handle, _semantic=None):
    """The number of PEs of the handle's team."""
    return _emit("n_pes", core.int32, [_handle("n_pes", handle, _semantic)], _semantic, True)


@core.extern
def ptr(handle, pointer, pe, _semantic=None):
    """The pointer by which this kernel loads and stores pe's copy; 0 where pointers do not reach it. Blocks, too: then
    tl.load, tl.store and tl.atomic_* (scope="sys") take the result, with any mask."""
    pointer = _semantic.to_tensor(pointer)
    address, _ = _pointer("ptr", "pointer", pointer, _semantic)
    arguments = [_handle("ptr", handle, _semantic), address, _number("ptr", "pe", pe, core.int32, _semantic)]
    return _semantic.cast(_emit("ptr", core.uint64, arguments, _semantic, True), pointer.dtype)


@core.extern
def status(handle, _semantic=None):
    """0, or 1 after a wait on this handle has given up, because a PE has died or the job was aborted."""
    return _emit("status", core.int32, [_handle("status", handle, _semantic)], _semantic)


# ---- ranges of elements ----

def _move(call, handle, dest, source, nelems, pe, semantic, signal=()):
    address, dtype = _pointer(call, "dest", dest, semantic)
    local, source_dtype = _pointer(call, "source", source, semantic)
    if dtype != source_dtype:
        _fail(call, f"dest has elements of type {dtype} and source of {source_dtype}")
    size = 1 if dtype.primitive_bitwidth == 1 else dtype.primitive_bitwidth // 8
    nelems = _number(call, "nelems", nelems, core.uint64, semantic)
    nbytes = semantic.mul(nelems, semantic.to_tensor(core.constexpr(size)), False) if size != 1 else nelems
    nbytes, pe = semantic.cast(nbytes, core.uint64), _number(call, "pe", pe, core.int32, semantic)
    _scalars(call, dest=address, source=local, nelems=nbytes, pe=pe)
    symbol = {"put": "putmem", "get": "getmem"}[call[:3]] + call[3:]
    return _emit(symbol, core.int32, [_handle(call, handle, semantic), address, local, nbytes, *signal, pe], semantic)


@core.extern
def put(handle, dest, source, nelems, pe, _semantic=None):
    """nelems elements from source, any memory of this GPU, to pe's dest. The program may write to source again."""
    return _move("put", handle, dest, source, nelems, pe, _semantic)


@core.extern
def put_nbi(handle, dest, source, nelems, pe, _semantic=None):
    """put, but source must stay as it is until quiet."""
    return _move("put_nbi", handle, dest, source, nelems, pe, _semantic)


@core.extern
def get(handle, dest, source, nelems, pe, _semantic=None):
    """nelems elements of pe's source to dest, any memory of this GPU."""
    return _move("get", handle, dest, source, nelems, pe, _semantic)


@core.extern
def get_nbi(handle, dest, source, nelems, pe, _semantic=None):
    """get, but dest is there after quiet."""
    return _move("get_nbi", handle, dest, source, nelems, pe, _semantic)


def _signal(call, signal, value, op, semantic):
    word, dtype = _pointer(call, "signal", signal, semantic)
    if dtype not in (core.int64, core.uint64):
        _fail(call, f"signal points to {dtype}; it must point to int64 or uint64")
    value = _number(call, "value", value, core.uint64, semantic)
    op = _number(call, "op", op, core.int32, semantic)
    _scalars(call, signal=word, value=value, op=op)
    return word, value, op


@core.extern
def put_signal(handle, dest, source, nelems, signal, value, pe, op=SET, _semantic=None):
    """put, then the signal on the same PE: it becomes value (SET) or grows by it (ADD). A program that sees the signal
    sees the data."""
    return _move("put_signal", handle, dest, source, nelems, pe, _semantic,
                 _signal("put_signal", signal, value, op, _semantic))


@core.extern
def put_signal_nbi(handle, dest, source, nelems, signal, value, pe, op=SET, _semantic=None):
    """put_signal, but source must stay as it is until quiet."""
    return _move("put_signal_nbi", handle, dest, source, nelems, pe, _semantic,
                 _signal("put_signal_nbi", signal, value, op, _semantic))


# ---- signals, waits, order ----

@core.extern
def signal_op(handle, signal, value, pe, op=SET, _semantic=None):
    """The signal alone, behind everything that this program has sent before."""
    word, value, op = _signal("signal_op", signal, value, op, _semantic)
    pe = _number("signal_op", "pe", pe, core.int32, _semantic)
    _scalars("signal_op", pe=pe)
    return _emit("signal_op", core.int32, [_handle("signal_op", handle, _semantic), word, value, op, pe], _semantic)


@core.extern
def signal_fetch(handle, signal, _semantic=None):
    """This PE's own signal now, as uint64; the data before it may be read. Takes 1 KiB of shared memory."""
    word, _, _ = _signal("signal_fetch", signal, 0, 0, _semantic)
    return _emit("signal_fetch", core.uint64, [_handle("signal_fetch", handle, _semantic), word], _semantic)


def _compared(call, symbol, handle, word, cmp, value, semantic):
    word, dtype = _pointer(call, "the word", word, semantic)
    if dtype not in (core.int32, core.uint32, core.int64, core.uint64):
        _fail(call, f"the word is of type {dtype}; int32, uint32, int64 and uint64 are possible")
    cmp, value = _number(call, "cmp", cmp, core.int32, semantic), _number(call, "value", value, dtype, semantic)
    _scalars(call, word=word, cmp=cmp, value=value)
    return _emit(f"{dtype}_{symbol}", core.int32, [_handle(call, handle, semantic), word, cmp, value], semantic)


@core.extern
def signal_wait_until(handle, signal, cmp, value, _semantic=None):
    """Waits until this PE's own signal compares with value. 0: it does, and the data before it may be read. 1: the wait
    has given up, see status."""
    _signal("signal_wait_until", signal, 0, 0, _semantic)
    signal = _semantic.cast(_semantic.to_tensor(signal), core.pointer_type(core.uint64))
    return _compared("signal_wait_until", "wait_until", handle, signal, cmp, value, _semantic)


@core.extern
def wait_until(handle, word, cmp, value, _semantic=None):
    """signal_wait_until for words that p and atomics change: int32, uint32, int64 or uint64."""
    return _compared("wait_until", "wait_until", handle, word, cmp, value, _semantic)


@core.extern
def test(handle, word, cmp, value, _semantic=None):
    """1 when this PE's own word compares with value; then the data before it may be read. Else 0."""
    return _compared("test", "test", handle, word, cmp, value, _semantic)


@core.extern
def fence(handle, _semantic=None):
    """What this program has sent before arrives at each PE before what it sends later."""
    return _emit("fence", core.int32, [_handle("fence", handle, _semantic)], _semantic)


@core.extern
def quiet(handle, _semantic=None):
    """All that this program has sent has arrived, and all gets are there."""
    return _emit("quiet", core.int32, [_handle("quiet", handle, _semantic)], _semantic)


@core.extern
def acquire(handle, _semantic=None):
    """After an atomic has shown that data is there, and before it is read."""
    return _emit("acquire", core.int32, [_handle("acquire", handle, _semantic)], _semantic)


# ---- single elements and atomics ----

def _each(call, first, pe, mask, semantic):
    """(pe, mask) for the form with blocks; mask None for that with scalars."""
    pe = _number(call, "pe", pe, core.int32, semantic)
    if not any(value.type.is_block() for value in (*first, pe)) and mask is None:
        return pe, None
    mask = semantic.cast(semantic.to_tensor(True if mask is None else mask), core.int32)
    return pe, mask


@core.extern
def p(handle, dest, value, pe, mask=None, _semantic=None):
    """value to pe's dest. Blocks of pointers, values, PEs and a mask, too; each element is stored at least once, so
    they are for data and not for flags. No order: see fence."""
    address, dtype = _pointer("p", "dest", dest, _semantic)
    bits = _bits("p", value, dtype, _semantic)
    pe, mask = _each("p", (address, bits), pe, _plain(mask), _semantic)
    arguments = [_handle("p", handle, _semantic), address, bits, pe]
    symbol = f"{_unsigned('p', dtype)}_p"
    if mask is None:
        return _emit(symbol, core.int32, arguments, _semantic)
    return _emit(symbol + "_each", core.int32, arguments + [mask], _semantic)


@core.extern
def g(handle, source, pe, mask=None, _semantic=None):
    """pe's source. Blocks of pointers, PEs and a mask, too; elements that the mask leaves out are 0. With scalars it
    takes 1 KiB of shared memory."""
    address, dtype = _pointer("g", "source", source, _semantic)
    unsigned = _unsigned("g", dtype)
    result = core.uint64 if unsigned == core.uint64 else core.uint32
    pe, mask = _each("g", (address,), pe, _plain(mask), _semantic)
    arguments = [_handle("g", handle, _semantic), address, pe]
    if mask is None:
        bits = _emit(f"{unsigned}_g", result, arguments, _semantic)
    else:
        bits = _emit(f"{unsigned}_g_each", result, arguments + [mask], _semantic)
    return _typed(bits, dtype, _semantic)


def _plain(value):
    return value.value if isinstance(value, core.constexpr) else value


def _atomic(call, handle, dest, values, pe, semantic, types, fetches):
    address, dtype = _pointer(call, "dest", dest, semantic)
    if dtype not in types:
        _fail(call, f"dest points to {dtype}; possible are {', '.join(map(str, types))}")
    values = [_bits(call, value, dtype, semantic) for value in values]
    pe = _number(call, "pe", pe, core.int32, semantic)
    _scalars(call, dest=address, pe=pe, **{f"value{i}": value for i, value in enumerate(values)})
    unsigned = _unsigned(call, dtype)
    bits = _emit(f"{unsigned}_{call}", unsigned if fetches else core.int32,
                 [_handle(call, handle, semantic), address, *values, pe], semantic)
    return _typed(bits, dtype, semantic) if fetches else bits


_INTEGERS = (core.int32, core.uint32, core.int64, core.uint64)
_WORDS = _INTEGERS + (core.float32, core.float64)


@core.extern
def atomic_fetch(handle, source, pe, _semantic=None):
    """pe's word. The atomics take scalars, and 32 or 64 bits; those with a result take 1 KiB of shared memory. They
    have no order: fence before one, acquire after it. Blocks: ptr and Triton's own atomics."""
    return _atomic("atomic_fetch", handle, source, [], pe, _semantic, _WORDS, True)


@core.extern
def atomic_set(handle, dest, value, pe, _semantic=None):
    """pe's word becomes value."""
    return _atomic("atomic_set", handle, dest, [value], pe, _semantic, _WORDS, False)


@core.extern
def atomic_swap(handle, dest, value, pe, _semantic=None):
    """pe's word becomes value; returns what it was."""
    return _atomic("atomic_swap", handle, dest, [value], pe, _semantic, _WORDS, True)


@core.extern
def atomic_compare_swap(handle, dest, cond, value, pe, _semantic=None):
    """pe's word becomes value if it is cond; returns what it was."""
    return _atomic("atomic_compare_swap", handle, dest, [cond, value], pe, _semantic, _INTEGERS, True)


@core.extern
def atomic_add(handle, dest, value, pe, _semantic=None):
    """pe's word grows by value."""
    return _atomic("atomic_add", handle, dest, [value], pe, _semantic, _INTEGERS, False)


@core.extern
def atomic_fetch_add(handle, dest, value, pe, _semantic=None):
    """pe's word grows by value; returns what it was."""
    return _atomic("atomic_fetch_add", handle, dest, [value], pe, _semantic, _INTEGERS, True)


@core.extern
def atomic_and(handle, dest, value, pe, _semantic=None):
    """pe's word keeps the bits of value."""
    return _atomic("atomic_and", handle, dest, [value], pe, _semantic, _INTEGERS, False)


@core.extern
def atomic_fetch_and(handle, dest, value, pe, _semantic=None):
    """pe's word keeps the bits of value; returns what it was."""
    return _atomic("atomic_fetch_and", handle, dest, [value], pe, _semantic, _INTEGERS, True)


@core.extern
def atomic_or(handle, dest, value, pe, _semantic=None):
    """pe's word gets the bits of value."""
    return _atomic("atomic_or", handle, dest, [value], pe, _semantic, _INTEGERS, False)


@core.extern
def atomic_fetch_or(handle, dest, value, pe, _semantic=None):
    """pe's word gets the bits of value; returns what it was."""
    return _atomic("atomic_fetch_or", handle, dest, [value], pe, _semantic, _INTEGERS, True)


@core.extern
def atomic_xor(handle, dest, value, pe, _semantic=None):
    """The bits of value change in pe's word."""
    return _atomic("atomic_xor", handle, dest, [value], pe, _semantic, _INTEGERS, False)


@core.extern
def atomic_fetch_xor(handle, dest, value, pe, _semantic=None):
    """The bits of value change in pe's word; returns what it was."""
    return _atomic("atomic_fetch_xor", handle, dest, [value], pe, _semantic, _INTEGERS, True)


# ---- collectives ----

@core.extern
def barrier(handle, _semantic=None):
    """quiet, then program i of all PEs has come. 0, or 1: it has given up, see status; so for all collectives."""
    return _emit("barrier", core.int32, [_handle("barrier", handle, _semantic)], _semantic)


@core.extern
def sync(handle, _semantic=None):
    """Program i of all PEs has come; nothing is completed."""
    return _emit("sync", core.int32, [_handle("sync", handle, _semantic)], _semantic)
