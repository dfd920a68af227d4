# SPDX-License-Identifier: MIT
"""Kernels of Triton with calls of isomer_shmem.triton, compiled for NVIDIA and AMD without a GPU: every call resolves,
flags have the scope of the whole system, and wrong arguments are refused with a sentence."""
import os
import re
import shutil
import subprocess
import sys

import pytest

triton = pytest.importorskip("triton", reason="triton is not installed")
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

import conftest  # noqa: E402,F401  finds the package
import isomer_shmem  # noqa: E402
import isomer_shmem.triton as shmem  # noqa: E402

TARGETS = {"sm_80": GPUTarget("cuda", 80, 32), "sm_90": GPUTarget("cuda", 90, 32), "sm_100": GPUTarget("cuda", 100, 32),
           "gfx90a": GPUTarget("hip", "gfx90a", 64), "gfx942": GPUTarget("hip", "gfx942", 64)}
POINTERS = {"handle": "*i64", "a": "*fp32", "b": "*fp32", "flag": "*i64", "word": "*i32", "n": "i32", "pe": "i32"}


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """Nothing is taken from a cache of earlier runs."""
    before = os.environ.get("TRITON_CACHE_DIR")
    os.environ["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    yield
    if before is None:
        del os.environ["TRITON_CACHE_DIR"]
    else:
        os.environ["TRITON_CACHE_DIR"] = before


def compiled(kernel, target, **types):
    target = TARGETS[target]
    try:
        options = shmem.options(target)
    except isomer_shmem.IsomerError as error:
        pytest.skip(str(error))
    return triton.compile(ASTSource(kernel, signature={**POINTERS, **types}), target=target, options=options)


# ---- kernels: all calls are in one of them ----

@triton.jit
def moves(handle, a, b, flag, word, n, pe):
    shmem.put(handle, a, b, n, pe)
    shmem.put_nbi(handle, a, b, n, pe)
    shmem.get(handle, b, a, n, pe)
    shmem.get_nbi(handle, b, a, 7, pe)
    shmem.put_signal(handle, a, b, n, flag, 1, pe)
    shmem.put_signal_nbi(handle, a, b, n, flag, n, pe, shmem.ADD)
    shmem.quiet(handle)


@triton.jit
def waits(handle, a, b, flag, word, n, pe):
    shmem.signal_op(handle, flag, 3, pe)
    shmem.signal_op(handle, flag, 3, pe, op=shmem.ADD)
    gave_up = shmem.signal_wait_until(handle, flag, shmem.GE, 3)
    gave_up += shmem.wait_until(handle, word, shmem.NE, -1)
    gave_up += shmem.wait_until(handle, word.to(tl.pointer_type(tl.uint32)), shmem.EQ, n)
    gave_up += shmem.wait_until(handle, flag, shmem.LT, 1 << 40)
    gave_up += shmem.wait_until(handle, flag.to(tl.pointer_type(tl.uint64)), shmem.LE, n)
    while shmem.test(handle, word, shmem.GT, n) == 0:
        gave_up += shmem.status(handle)
    seen = shmem.signal_fetch(handle, flag)
    shmem.fence(handle)
    shmem.acquire(handle)
    tl.store(b, (seen.to(tl.int32) + gave_up).to(tl.float32))


@triton.jit
def who(handle, a, b, flag, word, n, pe):
    me = shmem.my_pe(handle)
    npes = shmem.n_pes(handle)
    near = shmem.ptr(handle, a, (me + 1) % npes)
    if near.to(tl.int64) != 0:
        offsets = tl.arange(0, 128)
        tl.store(near + offsets, tl.load(b + offsets, mask=offsets < n), mask=offsets < n)
    each = shmem.ptr(handle, word + tl.arange(0, 64), pe)
    tl.atomic_add(each, 1, scope="sys")
    gave_up = shmem.barrier(handle)
    gave_up += shmem.sync(handle)
    tl.store(word, gave_up)


@triton.jit
def elements(handle, a, b, flag, word, n, pe):
    offsets = tl.arange(0, 256)
    shmem.p(handle, a, 1.5, pe)
    shmem.p(handle, word, n, pe)
    shmem.p(handle, flag, n, pe)
    shmem.p(handle, a + offsets, tl.load(b + offsets), pe)
    shmem.p(handle, a + offsets, tl.load(b + offsets), offsets % 2, mask=offsets < n)
    tl.store(b + offsets, shmem.g(handle, a + offsets, pe, mask=offsets < n))
    tl.store(b, shmem.g(handle, a, pe) + shmem.g(handle, word, pe) + shmem.g(handle, flag, pe).to(tl.float32))
    half = a.to(tl.pointer_type(tl.float16))
    byte = a.to(tl.pointer_type(tl.uint8))
    shmem.p(handle, half, 2.0, pe)
    shmem.p(handle, half + offsets, shmem.g(handle, half + offsets, pe), pe)
    shmem.p(handle, byte, shmem.g(handle, byte, pe), pe)
    shmem.p(handle, byte + offsets, shmem.g(handle, byte + offsets, pe), pe)
    shmem.p(handle, half, shmem.g(handle, half, pe), pe)


@triton.jit
def atomics(handle, a, b, flag, word, n, pe):
    old = shmem.atomic_fetch(handle, word, pe)
    shmem.atomic_set(handle, word, n, pe)
    shmem.atomic_add(handle, word, old, pe)
    shmem.atomic_and(handle, word, -2, pe)
    shmem.atomic_or(handle, word, 4, pe)
    shmem.atomic_xor(handle, word, n, pe)
    old += shmem.atomic_swap(handle, word, n, pe)
    old += shmem.atomic_compare_swap(handle, word, 0, n, pe)
    old += shmem.atomic_fetch_add(handle, word, n, pe)
    old += shmem.atomic_fetch_and(handle, word, n, pe)
    old += shmem.atomic_fetch_or(handle, word, n, pe)
    old += shmem.atomic_fetch_xor(handle, word, n, pe)
    tl.store(word, old)
    tl.store(a, shmem.atomic_swap(handle, a, 1.5, pe))


@triton.jit
def wide_atomics(handle, a, b, flag, word, n, pe):
    old = shmem.atomic_fetch(handle, flag, pe)
    shmem.atomic_set(handle, flag, n, pe)
    shmem.atomic_add(handle, flag, old, pe)
    shmem.atomic_and(handle, flag, -2, pe)
    shmem.atomic_or(handle, flag, 4, pe)
    shmem.atomic_xor(handle, flag, n, pe)
    old += shmem.atomic_swap(handle, flag, n, pe)
    old += shmem.atomic_compare_swap(handle, flag, 0, n, pe)
    old += shmem.atomic_fetch_add(handle, flag, n, pe)
    old += shmem.atomic_fetch_and(handle, flag, n, pe)
    old += shmem.atomic_fetch_or(handle, flag, n, pe)
    old += shmem.atomic_fetch_xor(handle, flag, n, pe)
    tl.store(flag, old)


KERNELS = (moves, waits, who, elements, atomics, wide_atomics)


def test_every_call_is_in_a_kernel():
    calls = {name for name, value in vars(shmem).items() if getattr(value, "__triton_builtin__", False)}
    source = "".join(kernel.src for kernel in KERNELS)
    assert calls == set(re.findall(r"shmem\.([a-z_]+)\(", source))


@pytest.mark.parametrize("kernel, target", [(kernel, target) for target in TARGETS for kernel in KERNELS
                                            if target in ("sm_90", "gfx942") or kernel is waits],
                         ids=lambda value: getattr(value, "__name__", value))
def test_calls_resolve(kernel, target):
    made = compiled(kernel, target)
    assert not re.search(r"^declare .*@shmemd_", made.asm["llir"], re.M)
    if "cubin" in made.asm:
        assert ".extern .func" not in made.asm["ptx"] and len(made.asm["cubin"]) > 1000
    else:
        text = made.asm["amdgcn"]
        assert not re.search(r"\bs_(swappc|setpc)_b64\b", text), "a call was not inlined"
        assert re.search(r"\.private_segment_fixed_size: 0\b", text), "the kernel uses scratch memory"
        assert undefined(made.asm["hsaco"]) == []


def undefined(code_object):
    """Undefined symbols of an ELF file."""
    tool = next(filter(None, map(shutil.which, ("llvm-nm-19", "llvm-nm", "nm"))), None)
    if tool is None:
        pytest.skip("there is no nm")
    out = subprocess.run([tool, "--undefined-only", "/dev/stdin"], input=code_object, capture_output=True, check=True)
    return out.stdout.split()


# ---- what is in the code ----

@triton.jit
def producer(handle, a, b, flag, word, n, pe):
    offsets = tl.arange(0, 256)
    tl.store(b + offsets, tl.load(b + offsets) * 2)
    shmem.put_signal(handle, a, b, 256, flag, 1, pe)


@triton.jit
def consumer(handle, a, b, flag, word, n, pe):
    offsets = tl.arange(0, 256)
    if shmem.signal_wait_until(handle, flag, shmem.GE, 1) == 0:
        tl.store(b + offsets, tl.load(a + offsets))


@triton.jit
def counter(handle, a, b, flag, word, n, pe):
    shmem.atomic_add(handle, word, 1, pe)


def order(text, *patterns):
    """Each pattern comes behind the one before it."""
    at = 0
    for pattern in patterns:
        found = re.compile(pattern).search(text, at)
        assert found, f"{pattern} is missing behind character {at}"
        at = found.end()


def entry(ptx):
    """The kernel alone, without the functions that it calls."""
    return ptx[ptx.index(".visible .entry"):ptx.index("// -- End function")]


def test_ptx_stores_sync_data_fence_flag():
    """The loop of the data may stand behind the flag in the text, but not between the sync before it and the flag."""
    text = entry(compiled(producer, "sm_90").asm["ptx"])
    flag = [r"bar\.sync", r"fence\.(acq_rel|sc)\.sys", r"st\.(relaxed|release)\.sys\.global\.u64"]
    order(text, r"st\.global\.", r"bar\.sync", *flag)
    data = r"st\.global\.v2\.u64"
    assert re.search(data, text) and re.search(rf"((?!{data}).)*?".join(flag), text, re.S)


def test_ptx_acquires_syncs_then_loads():
    text = entry(compiled(consumer, "sm_90").asm["ptx"])
    order(text, r"ld\.acquire\.sys\.global\.u64", r"bar\.sync", r"ld\.global\.(v\d\.)?b32", r"st\.global")
    by_constant_cache = re.search(r"ld\.global\.nc\.v|@%p\d+ ld\.global\.nc", text)
    assert not by_constant_cache, "a peer's data is loaded by the constant cache"


def test_ptx_counts_once_for_the_program():
    text = entry(compiled(counter, "sm_90").asm["ptx"])
    order(text, r"%tid\.x", r"setp\.", r"@%p\d+ bra", r"(red|atom)\.relaxed\.sys\.global\.add")
    assert len(re.findall(r"(red|atom)\.relaxed\.sys\.global\.add\.[us]32", text)) == 1


def test_ptx_shared_memory_of_triton_stays_aligned():
    """Tensor cores read shared memory of Triton at multiples of 1024 bytes from where all shared memory begins."""
    text = compiled(atomics, "sm_90").asm["ptx"]
    assert re.findall(r"^\s*\.shared\s+\.align (\d+) \.\w+ [\w$]+(?:\[(\d+)\])?;", text, re.M) == [("1024", "1024")]
    for kernel in (moves, producer, consumer, counter):
        assert not re.search(r"^\s*\.shared\s+\.align", compiled(kernel, "sm_90").asm["ptx"], re.M)


def test_ptx_structures_are_stored_before_they_are_passed():
    """The functions of the bitcode take them by the address of the caller's copy."""
    text = entry(compiled(producer, "sm_90").asm["ptx"])
    order(text, r"__local_depot", r"cvta\.local", r"st\.local\.\w*\.?b64", r"call\.uni\s+\w*isod_put_signal")


def test_amd_stores_sync_data_writeback_flag():
    text = compiled(producer, "gfx942").asm["amdgcn"]
    order(text, r"(buffer|global)_store_dword", r"s_barrier", r"global_store_dwordx4",
          r"buffer_wbl2 sc0 sc1", r"s_waitcnt vmcnt\(0\)", r"s_barrier", r"global_store_dwordx2 .* sc0 sc1")


def test_amd_waits_invalidates_then_loads():
    text = compiled(consumer, "gfx942").asm["amdgcn"]
    order(text, r"global_load_dwordx2 .* sc0 sc1", r"buffer_inv sc0 sc1", r"s_barrier",
          r"(buffer|global)_load_dword")


# ---- what is refused ----

@triton.jit
def number_as_pointer(handle, a, b, flag, word, n, pe):
    shmem.put(handle, n, b, n, pe)


@triton.jit
def two_types(handle, a, b, flag, word, n, pe):
    shmem.put(handle, a, word, n, pe)


@triton.jit
def narrow_signal(handle, a, b, flag, word, n, pe):
    shmem.signal_op(handle, word, 1, pe)


@triton.jit
def atomics_of_blocks(handle, a, b, flag, word, n, pe):
    shmem.atomic_add(handle, word + tl.arange(0, 64), 1, pe)


@triton.jit
def float_atomic(handle, a, b, flag, word, n, pe):
    shmem.atomic_add(handle, a, 1.0, pe)


@triton.jit
def float_pe(handle, a, b, flag, word, n, pe):
    shmem.put(handle, a, b, n, 1.0)


@triton.jit
def half_word(handle, a, b, flag, word, n, pe):
    shmem.wait_until(handle, a, shmem.EQ, 1)


@pytest.mark.parametrize("kernel, sentence", [
    (number_as_pointer, "put: dest is of type int32; it must be a pointer"),
    (two_types, "put: dest has elements of type fp32 and source of int32"),
    (narrow_signal, "signal_op: signal points to int32; it must point to int64 or uint64"),
    (atomics_of_blocks, "atomic_add: dest is a block"),
    (float_atomic, "atomic_add: dest points to fp32; possible are int32, uint32, int64, uint64"),
    (float_pe, "put: pe is of type fp32; it must be an integer"),
    (half_word, "wait_until: the word is of type fp32"),
], ids=lambda value: getattr(value, "__name__", ""))
def test_refused(kernel, sentence):
    with pytest.raises(Exception) as refusal:
        compiled(kernel, "sm_90")
    reasons, error = "", refusal.value
    while error is not None:
        reasons, error = reasons + str(error), error.__cause__
    assert sentence in reasons


def test_bitcode_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="backend 'metal' is neither 'cuda' nor 'hip'"):
        shmem.bitcode("metal")
    monkeypatch.setenv("ISOMER_LIB", str(tmp_path / "libisomer.so"))
    with pytest.raises(isomer_shmem.IsomerError, match="there is no isomer_device-gfx1100.bc in .*ISOMER_LIB"):
        shmem.bitcode("hip", "gfx1100")
    (tmp_path / "isomer").mkdir()
    (tmp_path / "isomer" / "isomer_device-gfx942.bc").touch()  # as it is installed
    assert shmem.bitcode("hip", "gfx942:sramecc+:xnack-") == str(tmp_path / "isomer" / "isomer_device-gfx942.bc")


# ---- the example ----

def test_example_compiles(ranks):  # `ranks` skips where the library is missing
    compiled(counter, "sm_90")  # and this where the bitcode is
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    environment = dict(os.environ, PYTHONPATH=os.path.join(root, "python"), CUDA_VISIBLE_DEVICES="")
    done = subprocess.run([sys.executable, os.path.join(root, "examples", "torch", "triton_halo.py")], env=environment,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"compiled for 90: .*\ncompiled for gfx942: .*\nthere is no GPU", done.stdout)


# ---- the handle ----

def the_handle():
    import ctypes
    handle, struct = shmem.handle(device="cpu"), isomer_shmem.Handle()
    return bytes(handle.numpy()), ctypes.string_at(struct.address, struct.nbytes)


def test_handle_is_the_struct(ranks):
    for tensor, struct in ranks(2, the_handle):
        assert len(tensor) == 64 and tensor == struct
