# SPDX-License-Identifier: MIT
"""torch's instruments: the profiler, dispatch modes such as CommDebugMode, hooks of a group, the flight recorder.

While one of them looks, a call goes by torch's own method of ProcessGroup. The method enters the operation `c10d::...`,
which all instruments see, and the operation comes back here for the call itself: through a Backend where torch lets
Python have one (2.14), else through a dispatch mode below all others. No call goes that way while nothing looks: it
takes longer than most collectives of the library.
"""
import contextlib
import os
import threading
from functools import partial
from types import MappingProxyType

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed import ProcessGroup
from torch.distributed import distributed_c10d as c10d
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from ._work import IsomerWork

profiler_looks, modes_look = torch._C._autograd._profiler_enabled, torch._C._len_torch_dispatch_stack
_Record = torch._C._profiler._RecordFunctionFast
_TYPES = {torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.int64: "Long",
          torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte", torch.bool: "Bool",
          torch.bfloat16: "BFloat16", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}
# Old names whose C++ method looks for the new name first: torch's own method is left in their place.
RENAMED = {"allgather_into_tensor_coalesced": "all_gather_single_coalesced", "alltoall_base": "all_to_all_single",
           "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced",
           "_allgather_base": "all_gather_single", "_reduce_scatter_base": "reduce_scatter_single"}
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def _has_backends():
    """Whether torch lets Python have a Backend."""
    try:
        c10d.C10DBackend(0, 1)
    except (AttributeError, TypeError):
        return False
    return True


has_backends = _has_backends()


def is_left_to_torch(name):
    """Whether torch's own method of this name ends in one that has a newer name."""
    return name in RENAMED and VERSION >= ((2, 14) if name.startswith("_") else (2, 13))


class _Call(threading.local):
    """The call of this thread on its way through torch."""

    run = None  # what is to be done; None: it has come back, or there is none
    is_back = False  # run() is under way
    work = error = None


_call = _Call()
_done = IsomerWork("a synchronous call", [])
_done.finish()


def is_new():
    """Whether instruments that look are to see the call: it has not come back yet."""
    return not _call.is_back


def _come_back():
    """Makes the call, in the place of torch's kernel; a work."""
    run, _call.run = _call.run, None
    _call.is_back = True
    try:
        _call.work = run()
    except BaseException as error:
        _call.error = error
        raise
    finally:
        _call.is_back = False
    return _call.work if _call.work is not None else _done


class _Below(TorchDispatchMode):
    """A mode below all others of the program. Fake tensors are torch's."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace != "c10d" or _call.run is None or FakeTensor in types:
            return function(*args, **(kwargs or {}))
        boxed = _come_back().boxed()
        return (args[0], boxed) if len(function._schema.returns) == 2 else boxed


@contextlib.contextmanager
def _below_all():
    above = []
    while modes_look():
        above.append(_pop_mode())
    try:
        with _Below():
            for mode in reversed(above):
                _push_mode(mode)
            try:
                yield
            finally:
                for _ in above:
                    _pop_mode()
    finally:
        for mode in reversed(above):
            _push_mode(mode)


def entry(name, shown, count):
    """The way through torch's own method of ProcessGroup of a name: entry(group, method, operands, options) has the
    value of method(group, *operands, **options), which a trace shows as `shown`: a call of one list of tensors or
    none, or of outputs and inputs and what else `count` counts. None where torch has no such method."""
    of_torch = getattr(ProcessGroup, name, None)
    if of_torch is None:
        return None

    def enter(group, operands, options):
        return of_torch(group, *operands, **options)
    # C++ asks a Python group for its method first, unless the function that calls has that method's name.
    enter.__code__ = enter.__code__.replace(co_name=name)

    def by_torch(group, method, operands, options=MappingProxyType({})):
        def run():
            with record(group, shown, operands[:min(count, 2)]) if profiler_looks() else contextlib.nullcontext():
                return method(group, *operands, **options)
        return _travel(partial(enter, group, operands, options), run)
    return by_torch


def _travel(enter, run):
    """run() inside of torch's operation, which enter() begins: its work, or None."""
    _call.run, _call.work, _call.error = run, None, None
    try:
        with contextlib.nullcontext() if has_backends else _below_all():
            work = enter()
        return work if _call.run is not None else _call.work  # not None: a mode has answered itself
    except BaseException as error:
        if _call.error is not None:
            raise _call.error from None
        if type(error) is TypeError and _call.run is not None:  # torch's method takes no such operands; ours does
            _come_back()
            return _call.work
        raise
    finally:
        _call.run = _call.work = _call.error = None


def backend_class(face):
    """A subclass of face that torch's ProcessGroup can call; face itself before torch 2.14. Made with the group."""
    if not has_backends:
        return face

    class IsomerBackend(face, c10d.C10DBackend):
        def __init__(self, group, rank, size):
            c10d.C10DBackend.__init__(self, rank, size)
            face.__init__(self, group, rank, size)
            self._options = c10d.C10DBackend.Options("isomer")
            self._options.global_ranks_in_group = group.global_ranks()

        options = property(lambda self: self._options)
        mem_allocator = property(lambda self: self.group().mem_allocator)

        def getBackendName(self):
            return "isomer"

    def method(name):
        def call(self, *operands):
            if _call.run is not None:
                return _come_back()
            work = getattr(self.group(), name)(*operands)
            return work if work is not None else _done
        return call
    for name in NAMES:
        setattr(IsomerBackend, name, method(name))
    for name in OF_GROUP:
        setattr(IsomerBackend, name, lambda self, *operands, name=name, **options: getattr(self.group(), name)(
            *operands, **options))
    return IsomerBackend


NAMES = ("allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_single",
         "reduce_scatter_single_coalesced", "broadcast", "allgather", "allgather_coalesced", "all_gather_single",
         "all_gather_single_coalesced", "gather", "scatter", "alltoall", "all_to_all_single", "barrier", "send", "recv",
         "recv_anysource")
OF_GROUP = ("abort", "allocate_tensor", "get_error", "get_reconfigure_handle", "memory_stats", "reconfigure",
            "register_abort_hook", "set_timeout", "shutdown", "supports_tensor_alloc", "unregister_abort_hook")


def hooks_of_torch(group):
    """Whether torch has hooks on all groups; the flight recorder's is put on this one."""
    if not has_backends:
        return False
    if int(os.environ.get("TORCH_FR_BUFFER_SIZE", "0")) > 0:
        group.recorder = torch._C._distributed_c10d.FlightRecorderHook.attach(group)
        return True
    return os.environ.get("TORCH_DIST_NAN_CHECK") == "1"


def add_hooks(cls):
    """Where torch calls hooks of a group before and behind each operation, the group must know of them."""
    for when in ("pre", "post"):
        if hasattr(ProcessGroup, f"register_{when}_hook"):
            setattr(cls, f"register_{when}_hook", _with_note(f"register_{when}_hook"))


def _with_note(name):
    method = getattr(ProcessGroup, name)

    def register(self, hook_id, hook):
        method(self, hook_id, hook)
        self.has_hooks = True
    return register


# ---- what a trace says of a call ----

def record(group, name, operands):
    """The region that shows a call in a profiler's trace. Its arguments have the names that NCCL's have; it cannot have
    the name record_param_comms, for which torch wants facts that Python cannot give, and crashes without."""
    lists = [_tensors(operand) for operand in operands] or [[]]
    inputs, outputs = lists[-1], lists[0]
    first = (inputs + outputs or [None])[0]
    return _Record(f"isomer:{name}", inputs, {
        "Collective name": name,
        "dtype": _TYPES.get(first.dtype, str(first.dtype)) if first is not None else "Byte",
        "In msg nelems": sum(tensor.numel() for tensor in inputs),
        "Out msg nelems": sum(tensor.numel() for tensor in outputs),
        "Group size": group.size(),
        "Process Group Name": group.group_name,
        "Process Group Description": group.group_desc,
        "Process Group Ranks": str(list(group.global_ranks())),
        "Rank": group.rank(),
    })


def _tensors(operand):
    """The tensors of an operand, which may be one, a list, or lists in a list."""
    if isinstance(operand, torch.Tensor):
        return [operand]
    return [tensor for each in operand for tensor in _tensors(each)] if isinstance(operand, (list, tuple)) else []
