# SPDX-License-Identifier: MIT
"""FSDP2 without its copies: parameters are gathered where the module reads them, and gradients are reduced from where
autograd has left them. Three functions of torch's _fsdp_param_group and one of its _fsdp_collectives are replaced while
something is installed; each does what torch's own does unless it gets an object of isomer_shmem.fsdp. They are private:
where a torch has others than these, why_not() says so, and copies stay.

Memory that is gathered into is of a stream of its own, so that it is used again for parameters alone, of all models. A
copy engine may write it while the module before still computes, as soon as what has read it before is done: that is an
event for each range that was freed. The newest is freed last, or the next gather would wait for the computation that it
runs beside.
"""
import collections
import inspect
import threading
import weakref

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard import _fsdp_collectives, _fsdp_param, _fsdp_param_group
from torch.distributed.fsdp._fully_shard._fsdp_common import TrainingState

from . import _lib
from ._core import TYPES, is_plain, reduction_of
from ._stream import Parts

GATHER = "fsdp_params group async_op all_gather_copy_in_stream all_gather_stream device all_gather_comm"
RESULT = ("all_gather_output all_gather_event all_gather_work param_all_gather_input_dtypes "
          "param_all_gather_input_numels all_gather_input_split_sizes")
COPY_OUT = "all_gather_result fsdp_params group"
REDUCE = ("fsdp_params unsharded_grads reduce_scatter_group reduce_scatter_stream reduce_scatter_comm orig_dtype "
          "reduce_dtype device gradient_divide_factor")
COPY_IN = "unsharded_grads reduce_scatter_input world_size"
PARTS_BYTES = 1 << 20  # smaller groups of parameters go with torch's copies
OF_PARAM = "init_all_gather_outputs alloc_all_gather_outputs free_unsharded_param to_sharded"


def _names(function):
    return list(inspect.signature(function).parameters)


def why_not():
    """What this torch has otherwise; None: nothing."""
    theirs = _fsdp_collectives
    try:
        for name, expected in (("foreach_all_gather", GATHER), ("foreach_all_gather_copy_out", COPY_OUT),
                               ("foreach_reduce_scatter_copy_in", COPY_IN)):
            if _names(_TORCHS[name]) != expected.split():
                return name
        if _names(_TORCHS["foreach_reduce"])[:9] != REDUCE.split():
            return "foreach_reduce"
        code = set(_TORCHS["foreach_reduce"].__wrapped__.__code__.co_names)
        if not {"allocate", "foreach_reduce_scatter_copy_in", "_div_if_needed"} <= code:
            return "the steps of foreach_reduce"
        if list(theirs.AllGatherResult._fields) != RESULT.split():
            return "AllGatherResult"
        inspect.signature(theirs._get_param_all_gather_inputs).bind([])
        inspect.signature(theirs._get_all_gather_input_metadatas).bind([])
        for name in OF_PARAM.split():
            getattr(_fsdp_param.FSDPParam, name)
    except (AttributeError, KeyError, TypeError) as error:
        return str(error)
    return None


# ---- memory ----

class Room:
    """Where the parameters of all models of a job are gathered."""

    def __init__(self, streams):
        self._streams, self._own = streams, streams.private()
        self._let = collections.deque()  # of groups: storages that are still to be freed, and the event behind their use
        self._freed = []  # first byte, end, event

    def take(self, make, newest_too):
        """The tensors that make() returns, with memory, and the events behind which it may be written. `newest_too`: it
        may be that of the group which was let go last."""
        if newest_too:
            self._free(0)
        with self._streams.use(self._own):
            tensors = make()
            events = self.take_back(tensors)
            for tensor in tensors:
                storage, nbytes = tensor.untyped_storage(), tensor.nbytes
                if storage.size() != nbytes:
                    storage.resize_(nbytes)
        self._freed = [each for each in self._freed if not each[2].query()]
        for first, end, event in self._freed:
            if event not in events and any(first < tensor.data_ptr() + tensor.nbytes and tensor.data_ptr() < end
                                           for tensor in tensors):
                events.append(event)
        return tensors, events

    def take_back(self, tensors):
        """Those that were let go and not yet freed keep their memory: the events behind their last use."""
        first = tensors[0].untyped_storage()._cdata if tensors else None
        mine = [each for each in self._let if each[0][0]._cdata == first]
        self._let = collections.deque(each for each in self._let if each[0][0]._cdata != first)
        return [event for _, event in mine]

    def let(self, tensors):
        """Nothing behind what is in the current stream reads them."""
        event = self._streams.event(self._streams.current())
        self._let.append(([tensor.untyped_storage() for tensor in tensors], event))
        self._free(1)

    def _free(self, most):
        while len(self._let) > most:
            storages, event = self._let.popleft()
            for storage in storages:
                if storage.size():
                    self._freed.append((storage.data_ptr(), storage.data_ptr() + storage.size(), event))
                    storage.resize_(0)

    def free_all(self):
        self._free(0)


def room_of(streams):
    """Of a job."""
    if not hasattr(streams, "room"):
        streams.room = Room(streams)
    return streams.room


# ---- all-gathers ----

class Gathered(_fsdp_collectives.AllGatherResult):
    """Its parameters are where they are wanted."""


def takes(core, kind, parts, nbytes):
    return nbytes * core.n >= PARTS_BYTES and core.takes_parts(kind, parts)


def plan_of(comm, params, group, core):
    """The Parts of the gathers of these parameters as they are sharded now; None: torch's copies."""
    key = params[0].sharded_state, group
    plans = comm.plans.setdefault(params[0], {})
    if key not in plans:
        plans[key] = None
        if all(param.fsdp_placement.dim == 0 and not hasattr(param._sharded_local_tensor, "fsdp_pre_all_gather")
               for param in params):
            inputs = _fsdp_collectives._get_param_all_gather_inputs(params)
            parts = Parts([tensor.nbytes for tensors in inputs for tensor in tensors])
            parts.dtypes, parts.numels, _ = _fsdp_collectives._get_all_gather_input_metadatas(inputs)
            plans[key] = parts if takes(core, _lib.FCOLLECT, parts, parts.nelems) else None
        if plans[key] is not None:
            comm.free_by(params)
    return plans[key]


def gather(params, group, async_op, copy_in_stream, gather_stream, device, comm):
    """In the place of foreach_all_gather."""
    core = comm.core_for_parts(group, device) if hasattr(comm, "core_for_parts") else None
    parts = plan_of(comm, params, group, core) if core is not None else None
    if parts is None:
        if getattr(comm, "room", None) is not None:  # torch copies into what was let go, behind its use
            comm.room.take_back([tensor for param in params for tensor in param.all_gather_outputs])
        return _TORCHS["foreach_all_gather"](params, group, async_op, copy_in_stream, gather_stream, device, comm)
    handle = _fsdp_collectives._get_device_handle(device.type)
    with torch.no_grad():
        with handle.stream(copy_in_stream):
            inputs = _fsdp_collectives._get_param_all_gather_inputs(params)
        sources = [tensor for tensors in inputs for tensor in tensors]

        def make():
            for param, numels, dtypes in zip(params, parts.numels, parts.dtypes):
                if not param.all_gather_outputs:
                    param.init_all_gather_outputs(numels, dtypes, core.n, device)
            return [tensor for param in params for tensor in param.all_gather_outputs]
        outputs, events = comm.room.take(make, params[0]._isomer_group._training_state != TrainingState.FORWARD)
        gather_stream.wait_stream(copy_in_stream)
        with handle.stream(gather_stream):
            here = core.streams.current()
            for event in events:
                here.wait_event(event)
            parts.lie([tensor.data_ptr() for tensor in outputs], [tensor.data_ptr() for tensor in sources])
            work = comm.group.queue().run("all_gather", lambda core: core.parts(
                _lib.FCOLLECT, parts, background=comm.background), outputs, None, async_op, sources)
            comm.count(parts.nelems * core.n, True, True)
            result = Gathered(sources, gather_stream.record_event(), work, parts.dtypes, parts.numels, [])
    result.core = core
    return result


def copy_out(result, params, group):
    """In the place of foreach_all_gather_copy_out."""
    if not isinstance(result, Gathered):
        return _TORCHS["foreach_all_gather_copy_out"](result, params, group)
    if result.all_gather_event is not None:
        _fsdp_collectives._get_device_handle(params[0].device.type).current_stream().wait_event(result.all_gather_event)
    if isinstance(result.all_gather_work, dist.Work):
        result.all_gather_work.wait()
    result.core.settle()


# ---- reduce-scatters ----

class Gradients:
    """Those of one reduce-scatter, where they are: `held` from the step on in which torch would copy them."""

    def __init__(self, parts):
        self.parts, self.held, self.is_begun = parts, None, False


_under_way = threading.local()


def reduce(params, gradients, group, stream, comm, orig_dtype, reduce_dtype, device, factor, *rest, **named):
    """In the place of foreach_reduce, whose steps it leaves to it but for the copies."""
    core = comm.core_for_parts(group, device) if group is not None and hasattr(comm, "core_for_parts") else None
    parts = scatter_plan(comm, params, gradients, reduce_dtype, factor, core) if core is not None else None
    if parts is not None:
        _under_way.scatter = comm.direct = Gradients(parts)
    try:
        result = _TORCHS["foreach_reduce"](params, gradients, group, stream, comm, orig_dtype, reduce_dtype, device,
                                           factor, *rest, **named)
    finally:
        direct, _under_way.scatter = getattr(_under_way, "scatter", None), None
        if direct is not None:
            comm.direct = None
    return result if direct is None else (direct.held, *result[1:])  # torch holds the first one until it is reduced


def scatter_plan(comm, params, gradients, reduce_dtype, factor, core):
    """The Parts of it, or None. Of facts that are alike on all members."""
    types = {gradient.dtype for gradient in gradients}
    if len(types) != 1 or factor not in (None, core.n):  # another factor multiplies before the sum
        return None
    dtype, = types
    reduce_dtype = reduce_dtype or dtype
    to_float = reduce_dtype == torch.float32 and dtype in (torch.bfloat16, torch.float16)
    if reduce_dtype not in (torch.float32, torch.bfloat16) or not (to_float or dtype == reduce_dtype):
        return None
    sizes = tuple(-(-gradient.size(0) // core.n) * (gradient.numel() // gradient.size(0)) if gradient.numel() else 0
                  for gradient in gradients)
    key = sizes, dtype, reduce_dtype
    if key not in comm.plans:
        parts = Parts(sizes, TYPES[dtype], to_float)
        comm.plans[key] = parts if takes(core, _lib.REDUCESCATTER, parts, sum(sizes) * dtype.itemsize) else None
    return comm.plans[key] if all(param.fsdp_placement.dim == 0 for param in params) else None


def padded(gradient, members):
    """Its rows in equal numbers for each member, one behind the other."""
    more = -gradient.size(0) % members
    if more:
        gradient = torch.cat((gradient, gradient.new_zeros((more, *gradient.shape[1:]))))
    return gradient if is_plain(gradient) else gradient.contiguous()


def copy_in(gradients, buffer, members):
    """In the place of foreach_reduce_scatter_copy_in."""
    direct = getattr(_under_way, "scatter", None)
    if direct is None:
        return _TORCHS["foreach_reduce_scatter_copy_in"](gradients, buffer, members)
    direct.held = [padded(gradient, members) for gradient in gradients]


def scatter(comm, direct, output, op, core):
    """The call, in the current stream."""
    reduction = reduction_of(op, output.dtype)
    direct.parts.lie(sources=[gradient.data_ptr() for gradient in direct.held])
    comm.group.queue().run("reduce_scatter", lambda core: core.parts(
        _lib.REDUCESCATTER, direct.parts, output.data_ptr(), 0, reduction, comm.background), [output], None, False)
    core.settle()


# ---- torch's ----

_TORCHS = {name: getattr(_fsdp_collectives, name, None)
           for name in ("foreach_all_gather", "foreach_all_gather_copy_out", "foreach_reduce",
                        "foreach_reduce_scatter_copy_in")}
_users = weakref.WeakSet()


def begin(user):
    """Replaces torch's functions."""
    _users.add(user)
    _fsdp_param_group.foreach_all_gather, _fsdp_param_group.foreach_all_gather_copy_out = gather, copy_out
    _fsdp_param_group.foreach_reduce, _fsdp_collectives.foreach_reduce_scatter_copy_in = reduce, copy_in


def end(user):
    """Puts them back behind the last user."""
    _users.discard(user)
    if not _users:
        for name in ("foreach_all_gather", "foreach_all_gather_copy_out", "foreach_reduce"):
            setattr(_fsdp_param_group, name, _TORCHS[name])
        _fsdp_collectives.foreach_reduce_scatter_copy_in = _TORCHS["foreach_reduce_scatter_copy_in"]
