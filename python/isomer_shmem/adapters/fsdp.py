# SPDX-License-Identifier: MIT
"""FSDP2 (torch.distributed.fsdp.fully_shard) over Isomer, under any backend of the process groups:

    installed = isomer_shmem.fsdp.install(model)   # after the last fully_shard, on all ranks
    ...
    installed.remove()

All-gathers run in place, in buffers that peers reach by pointer. On GPUs, copy engines carry the large ones of a group
on one node, so that they take no compute units from the matrix products beside them; and parameters and gradients move
without FSDP2's copies (_parts.py). The operator is torch's own: AVG, or a sum with a factor. On a GPU, calls go into the
streams that torch has made current for them.
"""
import contextlib
import functools
import math
import warnings
import weakref

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed.fsdp import FSDPModule

from . import _lib, _parts
from ._core import reduction_of
from ._device import streams_of
from .memory import check_device
from .pg import background, ended, group_of
from .pool import pool_of

try:  # torch 2.9 and later; a private module, so the tests of this file must pass with each new torch
    from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather as _AllGather, ReduceScatter as _ReduceScatter
except ImportError:
    raise ImportError(f"isomer_shmem.fsdp needs torch 2.9 or later, with set_custom_all_gather; this is torch "
                      f"{torch.__version__}") from None


class _Adapter:
    """The part of torch's Comm that allocates, and counts."""

    def __init__(self, options, group, background):
        self.background = background
        self.group = group_of(group) if group is not None else None
        self.calls = self.nbytes = self.by_engines = self.by_parts = 0
        self.plans, self.direct = {}, None  # of _parts
        self._options = options(), options()  # of calls, asynchronous ones last
        self._options[0].asyncOp = False

    def _core(self, device):
        """What makes the group's calls on the GPU, where copy engines may carry them; else None. Alike on all
        members."""
        if self.group is None:
            return None
        streams = streams_of(self.group.lease.world)
        if streams is None or streams.device.type != torch.device(device).type:
            return None
        core = self.group.queue().core
        return core if core.has_engines() else None

    def allocate(self, size, *, dtype, device):
        world = group_of(None).lease.world
        check_device(device, world)
        return pool_of(world, device).take(size, dtype)

    def _beside(self, group):
        return background(group, True) if self.background else contextlib.nullcontext()

    def count(self, nbytes, by_engines, by_parts=False):
        self.by_parts += by_parts
        self.calls, self.nbytes, self.by_engines = self.calls + 1, self.nbytes + nbytes, self.by_engines + by_engines

    def core_for_parts(self, group, device):
        """What moves parts that lie apart for this group, or None."""
        core = self._core(device) if self.room is not None else None
        return core if core is not None and core.n > 1 and group_of(group) is self.group else None

    room = None  # has it where torch's private parts are those that are known


class AllGather(_Adapter, _AllGather):
    """For FSDPModule.set_custom_all_gather. Only one that knows its group uses copy engines: they need buffers that all
    members of the group take in one order."""

    def __init__(self, group=None, background=True):
        super().__init__(dist.distributed_c10d.AllgatherOptions, group, background)
        self.plans, self._frees = weakref.WeakKeyDictionary(), []

    def allocate(self, size, *, dtype, device):
        core, nbytes = self._core(device), math.prod(size) * dtype.itemsize
        buffer = core.ring_buffer(nbytes, size, dtype) if core is not None and nbytes else None
        return buffer if buffer is not None else super().allocate(size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        core = self._core(output_tensor.device)
        with self._beside(group):
            work = group_of(group).all_gather_single(output_tensor, input_tensor, self._options[async_op])
            by_engines = core is not None and core.says_engines(
                _lib.FCOLLECT, output_tensor.data_ptr(), input_tensor.data_ptr(), input_tensor.nbytes, _lib.UINT8)
        self.count(output_tensor.nbytes, by_engines)
        return ended(work, async_op)

    def free_by(self, params):
        """The last one of a group lets the memory of all of them go."""
        def let():
            tensors = [tensor for param in params for tensor in param.all_gather_outputs]
            if tensors and any(tensor.untyped_storage().size() for tensor in tensors):
                self.room.let(tensors)
            for param in params:
                for tensor in param._unsharded_inner_tensors:
                    tensor.untyped_storage().resize_(0)
        for param in params:
            param.free_unsharded_param = let if param is params[-1] else _nothing
            self._frees.append(weakref.ref(param))

    def close(self):
        for param in filter(None, (each() for each in self._frees)):
            vars(param).pop("free_unsharded_param", None)
        self._frees, self.room = [], None


def _nothing():
    """Another parameter of the group does it."""


class ReduceScatter(_Adapter, _ReduceScatter):
    """For FSDPModule.set_custom_reduce_scatter. One that knows its group has engines bring what is to be combined."""

    def __init__(self, group=None, background=True):
        super().__init__(dist.ReduceScatterOptions, group, background)

    def allocate(self, size, *, dtype, device):
        if self.direct is not None:
            first, self.direct.is_begun = not self.direct.is_begun, True
            # What would be copied into is no memory; a write to it fails.
            return torch.empty(1, dtype=dtype, device=device).expand(size) if first else torch.empty(
                size, dtype=dtype, device=device)
        core = self._core(device)
        if core is not None and size:
            anywhere = torch.empty(size, dtype=dtype, device=device)  # engines read any memory
            with self._beside(self.group):
                if self._says_engines(core, anywhere.view(-1), anywhere.numel() // core.n, ReduceOp.SUM):
                    return anywhere
        return super().allocate(size, dtype=dtype, device=device)

    @staticmethod
    def _says_engines(core, source, nelems, op):
        reduction = reduction_of(op, source.dtype)
        own = source.data_ptr() + core.me * nelems * source.element_size()  # the result may be there
        return core.says_engines(_lib.REDUCESCATTER, own, source.data_ptr(), nelems, reduction.type, reduction.op)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        options, nbytes = self._options[async_op], input_tensor.nbytes
        options.reduceOp = op
        core = self._core(input_tensor.device)
        if self.direct is not None:
            self.count(sum(gradient.nbytes for gradient in self.direct.held), True, True)
            return _parts.scatter(self, self.direct, output_tensor, op, core)
        with self._beside(group):
            work = group_of(group).reduce_scatter_single(output_tensor, input_tensor, options)
            by_engines = core is not None and self._says_engines(core, input_tensor, output_tensor.numel(), op)
        self.count(nbytes, by_engines)
        return ended(work, async_op)


def _param_groups(module):
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)  # torch 2.12 and later
    return [group for group in (groups if groups is not None else [state._fsdp_param_group]) if group is not None]


class Installed:
    """What install() has changed."""

    def __init__(self, model, background):
        self._background, self._room = background, None
        self.all_gathers, self.reduce_scatters, self._before = {}, {}, []  # the first two by group
        self.device = torch.device("cpu")
        for module in model.modules():
            if isinstance(module, FSDPModule):
                self._install(module)
        if not self._before:
            raise ValueError("isomer_shmem.fsdp.install: the model has no parameters that fully_shard was called for")

    def _install(self, module):
        for param_group in _param_groups(module):
            self.device = param_group.device
            group = group_of(param_group._all_gather_process_group)  # collective now, and not in the first step
            scatters = group_of(param_group._reduce_scatter_process_group)
            self._before.append((param_group, param_group._all_gather_comm, param_group._reduce_scatter_comm))
            for param in param_group.fsdp_params[:1]:
                param._isomer_group = param_group
            param_group._all_gather_comm = self.all_gathers.setdefault(group, AllGather(group, self._background))
            param_group._reduce_scatter_comm = self.reduce_scatters.setdefault(
                scatters, ReduceScatter(scatters, self._background))

    def begin_parts(self):
        """From now on without torch's copies, where engines carry calls. Collective."""
        streams, reason = streams_of(group_of(None).lease.world), _parts.why_not()
        if streams is None or streams.device.type != self.device.type:
            return
        if reason is not None:
            _warn_of(reason)
            return
        self._room = _parts.room_of(streams)
        for kind, comms in ((_lib.FCOLLECT, self.all_gathers), (_lib.REDUCESCATTER, self.reduce_scatters)):
            for comm in comms.values():
                comm.room = self._room if comm.group.queue().begin_parts(kind) else None
        _parts.begin(self)

    def remove(self):
        """Gives each module what it had before. Not collective, but on all ranks between the same steps."""
        if self._room is not None:
            _parts.end(self)
            for all_gather in self.all_gathers.values():
                all_gather.close()
            self._room.free_all()
            self._room = None
        for param_group, all_gather, reduce_scatter in self._before:
            param_group._all_gather_comm, param_group._reduce_scatter_comm = all_gather, reduce_scatter
        self._before = []

    def stats(self):
        """Numbers of calls and bytes of this rank since install(), and of the buffers that it has now."""
        pool, gathers, scatters = (pool_of(group_of(None).lease.world, self.device), self.all_gathers.values(),
                                   self.reduce_scatters.values())
        pairs = {each.group.lease.pairs for each in (*gathers, *scatters)}
        rings = [ring for each in pairs for ring in each.rings.values()]
        return {"all_gathers": sum(each.calls for each in gathers),
                "all_gather_bytes": sum(each.nbytes for each in gathers),
                "reduce_scatters": sum(each.calls for each in scatters),
                "reduce_scatter_bytes": sum(each.nbytes for each in scatters),
                "by_engines": sum(each.by_engines for each in (*gathers, *scatters)),
                "by_parts": sum(each.by_parts for each in (*gathers, *scatters)),
                "buffers": pool.buffers + sum(ring.buffers for ring in rings),
                "buffer_bytes": pool.nbytes + sum(ring.nbytes for ring in rings),
                "most_busy": pool.most_busy + sum(ring.most_busy for ring in rings)}


@functools.cache
def _warn_of(reason):
    warnings.warn(f"isomer_shmem.fsdp.install: torch {torch.__version__} has another {reason} than is known: FSDP2's "
                  "copies stay", stacklevel=5)


def install(model, background=True, copies=False):
    """Has all FSDP modules in `model` gather and scatter by Isomer. `background`: calls say that the model's products
    run beside them (isomer_shmem.background). `copies`: with those that FSDP2 makes of parameters and gradients.
    Collective over the default group: all ranks call it with equal arguments, after fully_shard and before or between
    steps."""
    group_of(None)
    installed = Installed(model, background)
    if not copies:
        installed.begin_parts()
    return installed
