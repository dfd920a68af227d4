# SPDX-License-Identifier: MIT
"""NVSHMEM's functions in kernels of Triton, Numba and other compilers, by NVSHMEM's names and without a handle:

    import isomer_shmem.nvshmem as nvshmem

    nvshmem.start()  # once, after init_process_group
    kernel[(1,)](..., extern_libs={"nvshmem": nvshmem.bitcode()})  # Triton
    barrier = nvshmem.declare("nvshmemx_barrier_all_block")  # a function that kernels of Numba call

Kernels of Triton call them by core.extern_elementwise, as torch.distributed._symmetric_memory does. docs/nvshmem.md says
what each function does. A module with such functions has a variable that must be filled once it has been loaded.
bitcode() has Triton do it, declare() Numba; other programs call init_module() or init_library(). isomer_shmem.triton is
the way without all that.
"""
import ctypes
import re
import struct
import sys

from . import _lib
from ._lib import IsomerError

_SYMBOL = b"isomer_compat_state"  # COMPAT_SYMBOL
_TEAMS = 256  # COMPAT_TEAMS
_NUMBA = {"ptr": "uint64", "float": "float32", "double": "float64", "void": "void",
          **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}}  # its names for LLVM's types
_state = None  # struct compat_kernels
_table = None  # the handles of teams, in device memory, which _state points to
_loaded = set()  # (kind, module or library) of Triton, which keeps its modules, and of Numba, which tells of their end


def bitcode():
    """The file with the functions, for NVIDIA's GPUs of 8.0 and later. Triton, once it is imported, fills each module
    that has them."""
    if "triton" in sys.modules:
        sys.modules["triton"].knobs.runtime.kernel_load_end_hook.add(_triton_has_loaded)
    return _lib.device_file("isomer_nvshmem-nvptx64.bc")


def start(*groups, device="cuda"):
    """Gets ready what modules are filled with. PEs are ranks of the default group, which is team 0 of kernels; `groups`
    are the teams 1, 2 and so on, where NVSHMEM has the PEs of a node as 1 and 2. Collective over all of them; to be
    called again in a new job. Modules that Triton and Numba have loaded are filled again, others are the program's."""
    global _state, _table
    import torch

    from .memory import Handle
    handles = [Handle(group) for group in (None, *groups)]
    content = [ctypes.string_at(handle.address, handle.nbytes) for handle in handles]
    table = b"".join(content).ljust(_TEAMS * handles[0].nbytes, b"\0")  # zeros: no such team
    _table = torch.frombuffer(bytearray(table), dtype=torch.int64).to(device, copy=True)
    _state = struct.pack("=Q", _table.data_ptr()) + content[0]
    for kind, loaded in tuple(_loaded):  # Numba may unload one meanwhile
        _write(kind, loaded)


def declare(name):
    """NVSHMEM's function `name` for kernels of Numba (numba-cuda), which fills their modules. Numbers have the sizes
    that C gives them; addresses are integers, `array.ctypes.data` in a kernel. A kernel gets what it calls, made of
    bitcode()."""
    import llvmlite.binding as llvm
    from numba import cuda
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    with open(bitcode(), "rb") as file:
        code = file.read()
    try:
        module = llvm.parse_bitcode(code)
    except RuntimeError as error:
        raise IsomerError(f"isomer_shmem.nvshmem.declare: llvmlite {llvm.llvm_version_info} cannot read {bitcode()}: "
                          f"{error}") from error
    try:
        function = module.get_function(name)
    except NameError as error:
        raise IsomerError(f"isomer_shmem.nvshmem.declare: {bitcode()} has no function {name}") from error
    for each in module.functions:  # what several functions need is linked once
        if not each.is_declaration:
            each.linkage = "linkonce_odr" if each.linkage == llvm.Linkage.internal else "internal"
    function.linkage = module.get_global_variable(_SYMBOL.decode()).linkage = "weak_odr"
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu="sm_80", opt=3)
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    result, arguments = re.fullmatch(r"(\w+) \((.*)\)", str(function.global_value_type)).groups()
    signature = f"{_NUMBA[result]}({', '.join(_NUMBA[kind] for kind in arguments.split(', ') if kind)})"
    # Numba takes 8 bytes from a function without a result; with one, the linker finds that both sides agree.
    text = re.sub(rf"(\.weak \.func) (?={name}\()", r"\1 (.param .b64 unused) ", machine.emit_assembly(module))
    source = cuda.PTXSource(text, name, setup_callback=_numba_has_loaded, teardown_callback=_numba_unloads)
    return cuda.declare_device(name, signature, source, abi="c")


def init_module(module):
    """Fills a loaded module: a CUmodule as a number, for instance `kernel.module` of a kernel that Triton has compiled.
    On the CPU device what dlopen gives. Not collective."""
    _write("module", module)


def init_library(library):
    """The same for a CUlibrary as a number, or as cuda.core has it."""
    _write("library", _number(library))


def _number(library):
    return int(getattr(library, "handle", library))


def _write(kind, loaded):
    if _state is None:
        raise IsomerError(f"isomer_shmem.nvshmem.init_{kind}: call isomer_shmem.nvshmem.start() first")
    call = f"shmemx_{kind}_write"
    _lib.check(getattr(_lib.load(), call)(loaded, _SYMBOL, _state, len(_state)), call)


def _numba_has_loaded(library):
    init_library(library)
    _loaded.add(("library", _number(library)))


def _numba_unloads(library):
    _loaded.discard(("library", _number(library)))


def _triton_has_loaded(module, function, name, metadata_group, hash):
    for file, path in metadata_group.items():
        if file.endswith(".ptx"):
            with open(path, "rb") as text:
                if _SYMBOL in text.read():
                    init_module(module)
                    _loaded.add(("module", module))
