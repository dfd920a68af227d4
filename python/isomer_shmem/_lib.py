# SPDX-License-Identifier: MIT
"""Finds and loads libisomer.so and declares its structs and calls.

The import of the package calls load_early(). The first load() behind it takes that library, or another one where
ISOMER_LIB has changed since. Each struct is compared with the library's own size, so a library of another version is
refused with a sentence instead of being called wrongly.
"""
import contextlib
import ctypes
import functools
import os
import struct
import warnings
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_int, c_size_t, c_uint, c_uint64, c_void_p

SERIES = 2  # 100 * major + minor of the C library that this package is written for

THREAD_MULTIPLE = 3
ERRORS_RETURN = 1

# enums of shmemx_coll.h, in their order
(ALLREDUCE, REDUCESCATTER, FCOLLECT, ALLTOALL, ALLTOALLV, BROADCAST, PERMUTE, BARRIER, SYNC, GATHER, SCATTER,
 REDUCE) = range(12)
(UINT8, INT8, UINT16, INT16, UINT32, INT32, UINT64, INT64, FLOAT, DOUBLE, HALF, BFLOAT16, COMPLEXF,
 COMPLEXD, FLOAT8_E4M3, FLOAT8_E5M2, BOOL) = range(17)
HOST_MEMORY, DEVICE_MEMORY = 0, 1  # SHMEMX_HOST, SHMEMX_DEVICE
SIGNAL_SET, SIGNAL_ADD = 1, 2
SUM, PROD, MIN, MAX, AND, OR, XOR, AVG, SCALED_SUM = range(9)


# How torch names the calls that errors tell of.
TORCH_NAMES = {"SHMEMX_ALLREDUCE": "all_reduce", "SHMEMX_REDUCESCATTER": "reduce_scatter",
               "SHMEMX_FCOLLECT": "all_gather", "SHMEMX_ALLTOALLV": "all_to_all", "SHMEMX_ALLTOALL": "all_to_all",
               "SHMEMX_BROADCAST": "broadcast", "SHMEMX_GATHER": "gather", "SHMEMX_SCATTER": "scatter",
               "SHMEMX_REDUCE": "reduce", "SHMEMX_BARRIER or _SYNC": "barrier"}


class IsomerError(RuntimeError):
    """The library is missing, does not fit, or one of its calls has failed."""


Text = c_char * 1024


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 128)]


class InitAttr(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("rank", c_int), ("size", c_int), ("id", POINTER(UniqueId)),
                ("requested", c_int), ("provided", c_int), ("device", c_int), ("device_blocks", c_int),
                ("heap_bytes", c_size_t), ("device_heap_bytes", c_size_t), ("timeout_seconds", c_double),
                ("errors", c_int)]


class Coll(ctypes.Structure):
    _fields_ = [("kind", c_int), ("team", c_void_p), ("dest", c_void_p), ("source", c_void_p), ("nelems", c_size_t),
                ("type", c_int), ("op", c_int), ("root", c_int), ("to", c_int), ("from_", c_int),
                ("blocks", c_void_p), ("slot", c_int), ("engines", c_int), ("signals", c_void_p),
                ("signal_value", c_void_p), ("chunk_bytes", c_size_t), ("scale", c_double), ("scale_from", c_void_p),
                ("host_blocks", c_void_p), ("splits", c_void_p), ("same_place", c_int),
                ("background", c_int), ("stage_bytes", c_size_t), ("to_float", c_int),
                ("rms_norm", c_void_p)]


# The first fields of Coll, up to `root`, in one step: ctypes takes as long for each of them.
COLL_HEAD = struct.Struct("@iPPPNiii")
assert COLL_HEAD.size == Coll.to.offset


class HostBlocks(ctypes.Structure):
    _fields_ = [("send_bytes", c_void_p), ("send_offset", c_void_p), ("receive_bytes", c_void_p),
                ("receive_offset", c_void_p)]


class Splits(ctypes.Structure):
    _fields_ = [("n", c_size_t), ("nelems", c_void_p), ("offset", c_void_p), ("dests", c_void_p), ("sources", c_void_p)]


class RmsNorm(ctypes.Structure):
    _fields_ = [("residual", c_void_p), ("weight", c_void_p), ("hidden", c_size_t), ("eps", c_double),
                ("dest_type", c_int), ("scale", c_void_p), ("scales", c_void_p), ("sum", c_void_p)]


class DeviceError(ctypes.Structure):
    _fields_ = [("call", c_char * 64), ("pe", c_int), ("team_slot", c_int), ("block", c_uint), ("thread", c_uint),
                ("addr", c_void_p), ("expected", c_uint64), ("seen", c_uint64), ("waited_seconds", c_double),
                ("gave_up", c_int), ("broken_by", c_int), ("team", c_void_p)]


class AddressInfo(ctypes.Structure):
    _fields_ = [("place", c_int), ("kind", c_int), ("is_symmetric", c_int), ("object", c_void_p),
                ("object_bytes", c_size_t)]


class MemoryStats(ctypes.Structure):
    _fields_ = [(f"{what}_bytes", c_size_t)
                for what in ("slot", "stage", "pair", "heap", "local", "team", "ring", "held")]


STRUCTS = {"shmemx_uniqueid_t": UniqueId, "shmemx_init_attr_t": InitAttr, "shmemx_coll_t": Coll,
           "shmemx_host_blocks_t": HostBlocks, "shmemx_splits_t": Splits, "shmemx_rms_norm_t": RmsNorm,
           "shmemx_device_error_t": DeviceError,
           "shmemx_address_info_t": AddressInfo, "shmemx_memory_stats_t": MemoryStats}

# name: (result, arguments). A shmemx_coll_t goes by its address, which ctypes passes on faster than a pointer.
CALLS = {
    "shmemx_get_uniqueid": (c_int, [POINTER(UniqueId)]),
    "shmemx_init_attr": (c_int, [POINTER(InitAttr)]),
    "shmemx_error_text": (c_size_t, [c_char_p, c_size_t]),
    "shmemx_leave": (c_int, []),
    "shmem_finalize": (None, []),
    "shmemx_device_init": (c_int, []),
    "shmemx_suspend": (c_int, [c_int]),
    "shmemx_resume": (c_int, []),
    "shmemx_keep": (c_int, [c_void_p]),
    "shmemx_memory_stats": (c_int, [c_void_p, c_int, POINTER(MemoryStats)]),
    "shmemx_device_text": (c_size_t, [c_char_p, c_size_t]),
    "shmemx_break": (c_int, [c_char_p]),
    "shmemx_status": (c_int, [c_void_p, c_int, POINTER(DeviceError)]),
    "shmemx_team_create": (c_int, [c_void_p, c_int, c_uint64, POINTER(c_void_p)]),
    "shmem_team_destroy": (None, [c_void_p]),
    "shmemx_coll_on_host": (c_int, [c_void_p]),
    "shmemx_info_text": (c_size_t, [c_char_p, c_size_t]),
    "shmemx_team_break": (c_int, [c_void_p, c_char_p]),
    "shmemx_team_set_timeout": (c_int, [c_void_p, c_double]),
    "shmemx_device_error": (c_int, [POINTER(DeviceError)]),
    "shmemx_address_info": (c_int, [c_void_p, POINTER(AddressInfo)]),
    "shmemx_coll_explain": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "shmemx_coll_on_stream": (c_int, [c_void_p, c_void_p]),
    "shmemx_slots": (c_int, []),
    "shmemx_slot_prepare": (c_int, [c_void_p, c_int, c_int]),
    "shmemx_send_on_stream": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p]),
    "shmemx_recv_on_stream": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p]),
    "shmemx_coll_group_begin": (c_int, []),
    "shmemx_coll_group_end": (c_int, []),
    "shmemx_module_write": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "shmemx_library_write": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "shmemx_stream_create": (c_int, [POINTER(c_void_p)]),
    "shmemx_stream_destroy": (c_int, [c_void_p]),
    "shmemx_stream_synchronize": (c_int, [c_void_p]),
    "shmemx_stream_wait_stream": (c_int, [c_void_p, c_void_p]),
    "shmemx_putmem_on_stream": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p]),
    "shmemx_getmem_on_stream": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p]),
    "shmemx_putmem_signal_on_stream": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_int, c_int,
                                               c_void_p]),
    "shmemx_signal_op_on_stream": (c_int, [c_void_p, c_uint64, c_int, c_int, c_void_p]),
    "shmemx_signal_wait_until_on_stream": (c_int, [c_void_p, c_int, c_uint64, c_void_p]),
    "shmemx_quiet_on_stream": (c_int, [c_void_p]),
    "shmemx_barrier_on_stream": (c_int, [c_void_p, c_void_p]),
    "shmemx_team_malloc": (c_void_p, [c_void_p, c_size_t, c_int]),
    "shmemx_team_free": (c_int, [c_void_p, c_void_p]),
    "shmemx_local_malloc": (c_void_p, [c_size_t, c_int]),
    "shmemx_local_free": (None, [c_void_p]),
    "shmemx_offset_of": (c_int, [c_void_p, POINTER(c_uint64)]),
    "shmemx_at_offset": (c_void_p, [c_int, c_uint64]),
    "shmemx_device_ptr": (c_void_p, [c_void_p, c_int]),
    "shmemx_device_handle": (c_int, [c_void_p, c_int, c_void_p]),
    "shmem_ptr": (c_void_p, [c_void_p, c_int]),
    "shmem_putmem": (None, [c_void_p, c_void_p, c_size_t, c_int]),
    "shmem_getmem": (None, [c_void_p, c_void_p, c_size_t, c_int]),
    "shmem_putmem_signal": (None, [c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_int, c_int]),
    "shmem_signal_set": (None, [c_void_p, c_uint64, c_int]),
    "shmem_signal_add": (None, [c_void_p, c_uint64, c_int]),
    "shmem_signal_fetch": (c_uint64, [c_void_p]),
    "shmem_fence": (None, []),
    "shmem_quiet": (None, []),
}

_library = None
_named_early = None  # what ISOMER_LIB was at load_early, until the first load() behind it


FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")  # of the wheel


def chosen():
    """The file to load: what ISOMER_LIB names, else that of the wheel, else the one that the loader finds. No other one
    takes its place where it cannot be loaded: without the GPU's library, a job would go on without the GPU."""
    named = os.environ.get("ISOMER_LIB")
    if named:
        return named
    flavour, there = _flavour_of_torch(), os.listdir(FOLDER) if os.path.isdir(FOLDER) else []
    if f"libisomer_{flavour}.so" in there:
        return os.path.join(FOLDER, f"libisomer_{flavour}.so")
    if "libisomer_cpu.so" not in there:
        return "libisomer.so.0"
    warnings.warn(f"isomer: this package has no library for torch's GPU (libisomer_{flavour}.so), so it takes the one "
                  "for CPUs: build a wheel where the GPU's compiler is, or set ISOMER_LIB", stacklevel=2)
    return os.path.join(FOLDER, "libisomer_cpu.so")


def _flavour_of_torch():
    """The GPU of torch where the machine has one, else the CPU. Starts no GPU."""
    import torch
    if torch.version.hip and os.path.exists("/dev/kfd"):
        return "hip"
    if torch.version.cuda and os.path.exists("/dev/nvidiactl"):
        return "cuda"
    return "cpu"


def load():
    """The loaded library; IsomerError when there is none or it does not fit. Starts nothing."""
    global _library, _named_early
    if _named_early not in (None, os.environ.get("ISOMER_LIB", "")):
        _library = None
        flavour.cache_clear()
    _named_early = None
    if _library is None:
        library = _open()
        _check_version(library)
        _declare(library)
        _check_structs(library)
        _library = library
    return _library


def load_early():
    """At the import, as torch's own backends come with torch. What is wrong or missing is told by the first load()."""
    global _named_early
    with contextlib.suppress(IsomerError, UserWarning), warnings.catch_warnings():
        warnings.filterwarnings("error", "isomer: this package has no library", UserWarning)
        load()
        if _flavour_of_torch() == "cpu":  # else the answer starts the GPU, which a child that is forked could not use
            flavour()
        _named_early = os.environ.get("ISOMER_LIB", "")


def _open():
    try:
        return ctypes.CDLL(chosen())
    except OSError as error:
        raise IsomerError(f"libisomer.so cannot be loaded ({error}); set ISOMER_LIB to the file, or install what is "
                          "missing where the loader looks") from None


def _check_version(library):
    try:
        version = library.shmemx_version()
    except AttributeError:
        raise IsomerError("libisomer.so has no shmemx_version: the library is older than 0.1") from None
    if version // 100 != SERIES:
        raise IsomerError(f"libisomer.so is of version {version // 10000}.{version // 100 % 100}.{version % 100}; "
                          f"this package needs {SERIES // 100}.{SERIES % 100}.x")


def _declare(library):
    for name, types in CALLS.items():
        try:
            call = getattr(library, name)
        except AttributeError:
            raise IsomerError(f"{library._name} has no {name}, which this package calls: install the package and the "
                              "library of one version") from None
        call.restype, call.argtypes = types


def _check_structs(library):
    library.shmemx_struct_bytes.restype = c_size_t
    library.shmemx_struct_bytes.argtypes = [c_char_p]
    for name, struct in STRUCTS.items():
        there, here = library.shmemx_struct_bytes(name.encode()), ctypes.sizeof(struct)
        if there != here:
            raise IsomerError(f"{name} has {there} bytes in libisomer.so and {here} in this package: install the "
                              "package and the library of one version")


def device_file(name):
    """The path of a file that is installed beside the library for compilers of kernels."""
    library = chosen()
    folder = os.path.dirname(os.path.realpath(library) if os.sep in library else _loaded(library))
    folders = [os.path.join(folder, "isomer"), folder]
    for folder in folders:
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise IsomerError(f"there is no {name} in {', '.join(folders)}: build and install Isomer where a clang 19 or later "
                      "is found, or set ISOMER_LIB to the libisomer.so of such a build")


def _loaded(name):
    """The path of a library that the system's loader finds."""
    try:
        load()
    except IsomerError:
        return name
    with open("/proc/self/maps") as maps:
        return next((line.split(maxsplit=5)[5].strip() for line in maps if "/" + name in line), name)


@functools.cache
def flavour():
    """Of the loaded library: "cpu", "cuda" or "hip"."""
    return text_of(load().shmemx_info_text).partition("GPU=")[2].partition(",")[0]


def text_of(call):
    """The text of a call that writes as snprintf does."""
    text = Text()
    call(text, len(text))
    return text.value.decode(errors="replace")


def check(status, what):
    """Raises the library's own sentence when a call of it has failed."""
    if status != 0:
        raise IsomerError(text_of(load().shmemx_error_text) or f"{what} failed")


def new_uniqueid():
    """An id for one job, as 256 hexadecimal digits."""
    uniqueid = UniqueId()
    check(load().shmemx_get_uniqueid(byref(uniqueid)), "shmemx_get_uniqueid")
    return bytes(uniqueid.bytes).hex()
