# SPDX-License-Identifier: MIT
"""Kernels of Triton and Numba with NVSHMEM's names, compiled for NVIDIA without a GPU: by torch's own wrappers, and by
calls as Triton-distributed makes them. And the variable of a module, which is filled on the CPU device."""
import re
import shutil
import subprocess

import pytest

import conftest  # noqa: F401  finds the package
import isomer_shmem
import isomer_shmem.nvshmem as nvshmem


def the_file():
    try:
        return nvshmem.bitcode()
    except isomer_shmem.IsomerError as error:
        pytest.skip(str(error))


def compiled(kernel, tmp_path, monkeypatch, **types):
    triton = pytest.importorskip("triton", reason="triton is not installed")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    made = triton.compile(ASTSource(kernel, signature=types), target=GPUTarget("cuda", 90, 32),
                          options={"extern_libs": {"nvshmem": the_file()}})
    assert nvshmem._triton_has_loaded in triton.knobs.runtime.kernel_load_end_hook.calls
    assert not re.search(r"^declare .*@nvshmem", made.asm["llir"], re.M)
    assert ".extern .func" not in made.asm["ptx"] and len(made.asm["cubin"]) > 1000
    assert re.search(r"^\.visible \.const \.align 8 \.b8 isomer_compat_state\[72\]", made.asm["ptx"], re.M)
    return made


def test_wrappers_of_torch(tmp_path, monkeypatch):
    triton = pytest.importorskip("triton", reason="triton is not installed")
    import torch.utils._triton
    import triton.language as tl
    monkeypatch.setattr(torch.utils._triton, "has_triton", lambda: True)  # which asks for a GPU
    theirs = pytest.importorskip("torch.distributed._symmetric_memory._nvshmem_triton")

    @triton.jit
    def kernel(a, b, flag, word, n, wide):
        me = theirs.my_pe()
        right = (me + 1) % theirs.n_pes()
        theirs.put(a, b, wide, right)
        theirs.get(b, a, wide, right)
        theirs.get_nbi(b, a, wide, right)
        theirs.putmem_signal_block(a, b, wide, flag, wide, n, right)
        theirs.wait_until(word, n, n)
        theirs.signal_wait_until(flag, n, wide)
        theirs.signal_op(flag.to(tl.int64), wide, n, right)
        theirs.fence()
        theirs.quiet()
        theirs.barrier_all()
        theirs.sync_all()
        theirs.alltoall(n, a, b, wide)
        theirs.broadcast(n, a, b, wide, right)
        theirs.reduce(n, a, b, wide, "sum")
    compiled(kernel, tmp_path, monkeypatch, a="*fp32", b="*fp32", flag="*i64", word="*i32", n="i32", wide="i64")


# (name, what it returns, what it takes): i: int32; l: int64, or an address
CALLS = [("nvshmem_team_my_pe", "i", "i"), ("nvshmem_team_n_pes", "i", "i"), ("nvshmem_ptr", "l", "li"),
         ("nvshmem_int_p", "i", "lii"), ("nvshmem_int64_g", "l", "li"), ("nvshmemx_putmem_nbi_warp", "i", "llli"),
         ("nvshmem_putmem", "i", "llli"), ("nvshmemx_float_put_nbi_block", "i", "llli"),
         ("nvshmemx_putmem_signal_nbi_block", "i", "lllllii"), ("nvshmem_signal_fetch", "l", "l"),
         ("nvshmem_uint64_atomic_fetch_add", "l", "lli"), ("nvshmem_int_atomic_compare_swap", "i", "liii"),
         ("nvshmemx_barrier_all_block", "i", ""), ("nvshmemx_sync_all_warp", "i", ""),
         ("nvshmemx_barrier_block", "i", "i"), ("nvshmemx_fcollectmem_block", "i", "illl"),
         ("nvshmemx_bfloat16_sum_reduce_block", "i", "illl"), ("nvshmemx_int32_max_reduce_block", "i", "illl")]


def caller(core, name, result, takes):
    types = {"i": core.int32, "l": core.int64}

    @core.extern
    def call(i, l, _semantic=None):
        given = [{"i": i, "l": l}[kind] for kind in takes]
        symbols = {tuple(types[kind] for kind in takes): (name, types[result])}
        return core.extern_elementwise("", "", given, symbols, False, _semantic=_semantic)
    return call


def test_calls_resolve(tmp_path, monkeypatch):
    triton = pytest.importorskip("triton", reason="triton is not installed")
    from triton.language import core
    file = tmp_path / "kernel.py"
    file.write_text("def kernel(i, l):\n" + "".join(f"    {name}(i, l)\n" for name, _, _ in CALLS))
    names = {name: caller(core, name, result, takes) for name, result, takes in CALLS}
    exec(compile(file.read_text(), str(file), "exec"), names)
    made = compiled(triton.jit(names["kernel"]), tmp_path, monkeypatch, i="i32", l="i64")
    assert "max_reduce" in made.asm["ptx"]  # the last one, behind calls whose result Triton makes up


def test_kernel_of_numba():
    cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    the_file()
    if not hasattr(cuda, "PTXSource"):
        pytest.skip("numba has no numba-cuda")
    names = {"my_pe": "nvshmem_my_pe", "put": "nvshmemx_putmem_signal_block", "wait": "nvshmem_signal_wait_until",
             "barrier": "nvshmemx_barrier_all_block", "short_p": "nvshmem_short_p", "int16_g": "nvshmem_int16_g",
             "double_p": "nvshmem_double_p", "reduce": "nvshmemx_float_sum_reduce_block"}
    calls = {name: nvshmem.declare(function) for name, function in names.items()}
    assert str(calls["put"].sig) == "(uint64, uint64, int64, uint64, int64, int32, int32) -> none"
    assert str(calls["double_p"].sig) == "(uint64, float64, int32) -> none"
    with pytest.raises(isomer_shmem.IsomerError, match="has no function nvshmem_int_put_all"):
        nvshmem.declare("nvshmem_int_put_all")
    text = """def kernel(array, words, flag):
        put(array.ctypes.data, array.ctypes.data, array.nbytes, flag.ctypes.data, 1, 9, my_pe() ^ 1)
        short_p(words.ctypes.data, int16_g(words.ctypes.data, 0) + 1, 0)
        double_p(words.ctypes.data, 0.5, 0)
        if wait(flag.ctypes.data, 5, 1) == 1:
            barrier()
            reduce(0, array.ctypes.data, array.ctypes.data, array.size)
    """
    exec(text, calls)
    try:
        parts, _ = cuda.compile_all(calls["kernel"], "void(float32[::1], int16[::1], uint64[::1])", device=False,
                                    abi="numba", cc=(9, 0), output="ptx")
        linker = core.Linker(*[core.ObjectCode.from_ptx((part if isinstance(part, str) else part.data).encode())
                               for part in parts], options=core.LinkerOptions(arch="sm_90"))
    except RuntimeError as error:  # DynamicLibNotFoundError
        pytest.skip(f"a library of CUDA is not installed: {error}")
    callbacks = [part.setup_callback for part in parts if not isinstance(part, str)]
    assert callbacks == [nvshmem._numba_has_loaded] * len(names)
    assert b"isomer_compat_state" in linker.link("cubin").code and not linker.get_error_log()


def filled(path, wrong):
    import ctypes
    with pytest.raises(isomer_shmem.IsomerError, match=r"call isomer_shmem\.nvshmem\.start\(\) first"):
        nvshmem.init_module(1)
    nvshmem.start(None, device="cpu")  # team 1 is the default group once more
    module, struct = ctypes.CDLL(path), isomer_shmem.Handle()
    nvshmem.init_module(module._handle)
    nvshmem.init_library(type("ObjectCode", (), {"handle": module._handle}))
    with pytest.raises(isomer_shmem.IsomerError, match="variable isomer_compat_state of 72 bytes cannot be written"):
        nvshmem.init_module(ctypes.CDLL(wrong)._handle)
    state = (ctypes.c_uint64 * 9).in_dll(module, "isomer_compat_state")
    table = ctypes.string_at(state[0], 2 * struct.nbytes)
    return bytes(state)[8:], table, ctypes.string_at(struct.address, struct.nbytes)


def filled_again(path, wrong):
    """By the hooks: what is loaded when another job starts is filled for it."""
    import ctypes
    modules, states = [ctypes.CDLL(path)._handle, ctypes.CDLL(wrong)._handle], []
    for number in range(2):
        nvshmem.start(device="cpu")
        if number == 0:
            nvshmem._triton_has_loaded(modules[0], None, "kernel", {"kernel.ptx": path}, "")
            nvshmem._numba_has_loaded(modules[1])
            nvshmem._numba_unloads(modules[1])
        states.append([bytes((ctypes.c_uint64 * 9).in_dll(ctypes.CDLL(file), "isomer_compat_state"))
                       for file in (path, wrong)])
        assert states[-1][0] == nvshmem._state
    return states[0][0] != states[1][0], states[0][1] == states[1][1]


def module(tmp_path, name, text="unsigned long isomer_compat_state[9];\n"):
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler")
    (tmp_path / (name + ".c")).write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", name + ".c", "-o", name + ".so"], cwd=tmp_path, check=True)
    return str(tmp_path / (name + ".so"))


def test_loaded_modules_are_filled_again(ranks, tmp_path):
    assert ranks(2, filled_again, module(tmp_path, "triton"), module(tmp_path, "numba")) == [(True, True)] * 2


def test_module_is_filled(ranks, tmp_path):
    for world, table, struct in ranks(2, filled, module(tmp_path, "right"), module(tmp_path, "wrong", "int other;\n")):
        assert world == struct and table == 2 * struct
