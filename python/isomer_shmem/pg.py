# SPDX-License-Identifier: MIT
"""The backend "isomer" of torch.distributed: a ProcessGroup in Python (torch up to 2.13), for tensors on the CPU and on
the GPU of the process.

torch calls the methods below by their names, from Python and from C++ (DDP, functional collectives). Calls that the
library does not have go to an inner gloo group of the same members: sparse tensors, sends with large tags. The choice
follows from the call, its tag and its type alone, so that all members choose alike.
"""
import os
import warnings
import weakref
from datetime import timedelta
from functools import partial
from operator import methodcaller

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, ProcessGroup, ProcessGroupGloo, ReduceOp

from . import _world
from ._core import Core, copy_into, flat, reduction_of
from ._lib import IsomerError
from ._pairs import TAGS, PointToPoint
from ._stream import Queue, streams_of
from ._work import AllWork, Sequence, not_compiled

NO_TIME = timedelta(0)
REDUCE_OPTIONS = (dist.AllreduceOptions, dist.AllreduceCoalescedOptions)
_warned = set()


def warn_of_one_slot():
    reason = "CUDA_DEVICE_MAX_CONNECTIONS is small on a rank, so all collectives of a group are one sequence"
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(f"isomer: {reason}", stacklevel=3)


def warn_once(reason):
    """Says once per process why gloo does what was asked of Isomer. An error with ISOMER_STRICT=1."""
    if os.environ.get("ISOMER_STRICT") == "1":
        raise IsomerError(f"{reason} (ISOMER_STRICT=1)")
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(f"isomer: {reason}; gloo does it", stacklevel=3)


def create(options, _backend_options=None):
    """torch's creator: collective over the group's members, who all get a group or all an exception."""
    store, rank, size, timeout = options.store, options.group_rank, options.group_size, options.timeout
    # A name may come again on the same store, with old keys under it. All members make it equally often.
    count = store.add(f"isomer/made/{rank}", 1)
    prefix = PrefixStore(f"isomer/{count}", store)
    lease, reason = _world.join(PrefixStore("join", prefix), rank, size, timeout)
    gloo = ProcessGroupGloo(PrefixStore("gloo", prefix), rank, size, timeout=timeout)
    if lease is None:
        warn_once(f"a group of {size} has no team, because {reason}")
    return IsomerGroup(store, rank, size, timeout, lease, gloo)


_beside = weakref.WeakKeyDictionary()  # groups of other backends: the IsomerGroup of the same ranks


def group_of(group):
    """The IsomerGroup of a group (None: the default one). For a group of another backend, one of the same ranks is made
    at the first call, which is collective over them; the job must run then, or the group be the default one."""
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise IsomerError("there is no default process group: call torch.distributed.init_process_group")
    if isinstance(group, IsomerGroup):
        return group
    made = _beside.get(group)
    if made is None or not made.is_open():
        if group is not dist.group.WORLD:
            group_of(None)  # so that all groups are in one job
        made = _beside[group] = create(Options(group))
    return made


def prepare(group=None):
    """Makes what the calls of a group on GPU tensors need, so that the first ones may be in the capture of a graph. Not
    for sends and receives. Collective over the group; does nothing without a GPU."""
    mine = group_of(group)
    if streams_of(mine.lease.world) is not None:
        mine.queue().prepare()


class Options:
    """What torch's options say of a new group, of one that is there."""

    def __init__(self, group):
        self.store = PrefixStore("isomer", dist.distributed_c10d._get_process_group_store(group))
        self.group_rank, self.group_size = group.rank(), group.size()
        self.timeout = dist.distributed_c10d.default_pg_timeout


class PartOptions:
    """Options of a group of some members of another one."""

    def __init__(self, store, rank, size, timeout):
        self.store, self.group_rank, self.group_size, self.timeout = store, rank, size, timeout


class GpuFace:
    """What a group shows torch as its backend for GPUs: torch asks it whether and how groups are split. It has nothing
    to connect, and those outside a new group nothing to do. The rest is the gloo group's."""

    supports_splitting, options = True, None

    def __init__(self, group, gloo):
        self._group, self._gloo = group, gloo

    def __getattr__(self, name):
        return getattr(self._gloo, name)

    def comm_split_count(self):
        return self._group.splits

    def perform_nocolor_split(self, device):
        pass

    def eager_connect_single_device(self, device):
        pass

    def _set_sequence_number_for_group(self):
        pass


def is_sparse(tensor):
    return tensor.layout != torch.strided


def each(name, first, *lists):
    """A body: the core's method for each of the lists' elements. partial() puts the core behind them."""
    *lists, core = first, *lists
    for arguments in zip(*lists):
        getattr(core, name)(*arguments)


def tensors_of(value):
    return [value] if isinstance(value, torch.Tensor) else list(value)


def check_alike(name, first, tensors):
    for tensor in tensors:
        if tensor.dtype != first.dtype:
            raise ValueError(f"isomer: {name}: all tensors have one type; {tensor.dtype} is not {first.dtype}")


@not_compiled
class IsomerGroup(ProcessGroup):
    """One group. Arguments are torch's own (options objects, or the values in their place)."""

    def __init__(self, store, rank, size, timeout, lease, gloo):
        super().__init__(rank, size)
        self._store, self._gloo, self._pid = store, gloo, os.getpid()
        self._timeout_seconds = timeout.total_seconds()
        # What C++ calls and this class lacks goes to gloo.
        self._register_backend(torch.device("cpu"), ProcessGroup.BackendType.CUSTOM, gloo)
        self._set_default_backend(ProcessGroup.BackendType.CUSTOM)
        if has_gpu():
            self._register_backend(torch.device("cuda"), ProcessGroup.BackendType.CUSTOM, gloo)
        self._core, self._sequence, self._coalesced = None, None, None
        self._streams, self._queue, self._messages = None, None, []
        self.splits = 0  # calls of split_group
        if lease is not None:
            self._core, self._pairs = Core(lease), PointToPoint(lease, self)
            self._sequence = Sequence(lease.world.names(lease.pes), lease.world.abort_here)
            self._streams = streams_of(lease.world)
            _world.enter(self)

    def is_open(self):
        return self._core is not None or self._sequence is None

    def getBackendName(self):
        return "isomer"

    def get_group_store(self):
        return self._store

    # ---- splitting ----

    def _get_backend(self, device):
        if torch.device(device).type == "cuda" and has_gpu():
            return GpuFace(self, self._gloo)
        return super()._get_backend(device)

    def split_group(self, ranks, timeout=None, opts=None, group_name=None, group_desc=None, device_types=None):
        """A group of these ranks of this one; None on its other ranks. All ranks call it, also for disjoint groups at
        once. A group takes tensors of both devices, whatever device_types says."""
        self.splits += 1
        ranks = sorted(ranks)
        if self.rank() not in ranks:
            return None
        if timeout is None:
            timeout = timedelta(seconds=self._timeout_seconds)
        name = group_name or f"{self.group_name}:split:{self.splits}:{ranks[0]}"
        store = PrefixStore(f"split/{name}", self._store)
        made = create(PartOptions(store, ranks.index(self.rank()), len(ranks), timeout))
        made._set_group_name(name)
        made._set_group_desc(group_desc or "undefined")
        return made

    # ---- for the other files of the package ----

    @property
    def lease(self):
        """The team, and the job."""
        return self.core().lease

    def core(self):
        if self._core is None:
            raise IsomerError("this group has no team of Isomer any more, or never had one (a warning said why)")
        return self._core

    def run_now(self, name, body):
        """body() in its turn among the group's calls, here and now; its value."""
        values = []
        self.core()
        self._sequence.run(name, lambda: values.append(body()), [], self.timeout_seconds(), False).wait()
        return values[0]

    def timeout_seconds(self):
        return self._timeout_seconds

    # ---- running a call ----

    def _run(self, name, tensors, options, body, outputs):
        """body(core), where the tensors are: at once on the host, or in a stream of the device."""
        is_async = getattr(options, "asyncOp", True) or self._coalesced is not None
        if self._on_device(name, tensors, outputs):
            work = self.queue().run(name, body, tensors, outputs, self._seconds(options), is_async)
        else:
            work = self._sequence.run(name, partial(body, self._core), outputs, self._seconds(options), is_async)
        return self._note(work)

    def _on_device(self, name, tensors, outputs):
        """Whether all tensors are on the device, and not on the host."""
        takes = self._streams.takes if self._streams is not None else None
        all_tensors = tensors if outputs is tensors else [*tensors, *outputs]
        found = takes is not None and any(takes(tensor) for tensor in all_tensors)
        for tensor in all_tensors:
            if found and takes(tensor):
                self._streams.check(name, tensor)
            elif found or not tensor.is_cpu:
                raise self._refusal(name, tensor, found)
        return found

    def _refusal(self, name, tensor, found):
        if found:
            return ValueError(f"isomer: {name}: some tensors are on a GPU and one is on {tensor.device}")
        return NotImplementedError(f"isomer: {name}: the tensor is on {tensor.device}; this process has the "
                                   f"{self.lease.world.device} flavour of libisomer.so, with its tensors alone")

    def queue(self):
        """What enqueues calls on the device; made at the first one."""
        if self._queue is None:
            core = self.core()
            if core.lease.one_slot:
                warn_of_one_slot()
            self._queue = Queue(self, self._streams, core.lease.one_slot, self.timeout_seconds)
        return self._queue

    def _seconds(self, options):
        """torch writes "as the group has it" as a negative or missing time."""
        timeout = getattr(options, "timeout", None)
        if timeout is None or timeout <= NO_TIME:
            return self._timeout_seconds
        return timeout.total_seconds()

    def _note(self, work):
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _start_coalescing(self, device):
        self._coalesced = []

    def _end_coalescing(self, device):
        works, self._coalesced = self._coalesced or [], None
        if self._messages:
            messages, self._messages = self._messages, []
            works.append(self.queue().batch(messages))
        return AllWork(works)

    # ---- reductions ----

    def allreduce(self, tensors, opts=None, timeout=None):
        if type(tensors) is not list:
            tensors = tensors_of(tensors)
        if type(opts) is not dist.AllreduceOptions:
            opts = reduce_options(opts)
        if self._core is None:
            return self._gloo.allreduce(tensors, opts)
        if len(tensors) == 1 and self._streams is None and self._coalesced is None:
            tensor = tensors[0]
            if tensor.is_cpu and not tensor.is_sparse:  # all of the below in fewer steps, for small tensors
                body = partial(self._core.all_reduce, tensor, reduction_of(opts.reduceOp, tensor.dtype))
                if not opts.asyncOp and type(opts) is dist.AllreduceOptions:  # there torch takes None for "done"
                    return self._sequence.do("all_reduce", body, self._seconds(opts))
                return self._sequence.run("all_reduce", body, tensors, self._seconds(opts), opts.asyncOp)
        for tensor in tensors:
            if is_sparse(tensor):
                warn_once("all_reduce of sparse tensors is not in the library")
                return self._note(self._gloo.allreduce(tensors, opts))
        reductions = [reduction_of(opts.reduceOp, tensor.dtype) for tensor in tensors]
        if len(tensors) == 1:
            body = methodcaller("all_reduce", tensors[0], reductions[0])
        else:
            body = partial(each, "all_reduce", tensors, reductions)
        return self._run("all_reduce", tensors, opts, body, tensors)

    def allreduce_coalesced(self, tensors, opts=None):
        if self._core is None:
            return self._gloo.allreduce_coalesced(tensors, opts or dist.AllreduceCoalescedOptions())
        return self.allreduce(tensors, opts)

    def reduce(self, tensors, opts=None, op=ReduceOp.SUM, timeout=None):
        tensors = tensors_of(tensors)
        if not isinstance(opts, dist.ReduceOptions):
            root, opts = opts or 0, dist.ReduceOptions()
            opts.rootRank, opts.reduceOp = root, op
        if self._core is None:
            return self._gloo.reduce(tensors, opts)
        reduction = reduction_of(opts.reduceOp, tensors[0].dtype)
        return self._run("reduce", tensors, opts,
                         lambda core: core.reduce(tensors[0], reduction, opts.rootRank), tensors)

    def reduce_scatter(self, outputs, inputs, opts=None, timeout=None):
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        opts = scatter_options(opts)
        if self._core is None:
            return self._gloo.reduce_scatter(outputs, inputs, opts)
        output, tensors = outputs[0], list(inputs[0])
        check_count("reduce_scatter", tensors, self.size())
        check_alike("reduce_scatter", output, tensors)
        check_size("reduce_scatter: output", output.numel(), tensors[self.rank()].numel())
        reduction = reduction_of(opts.reduceOp, output.dtype)
        return self._run("reduce_scatter", tensors, opts,
                         lambda core: core.reduce_scatter(output, tensors, reduction), outputs)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        opts = scatter_options(opts)
        if self._core is None:
            return self._gloo.reduce_scatter_single_coalesced(outputs, inputs, opts)
        for output, tensor in zip(outputs, inputs):
            check_alike("reduce_scatter_single", output, [tensor])
            check_size("reduce_scatter_single: input", tensor.numel(), self.size() * output.numel())
        op = opts.reduceOp
        reductions = [reduction_of(op, output.dtype) for output in outputs]
        body = partial(each, "reduce_scatter_single", outputs, inputs, reductions)
        return self._run("reduce_scatter_single", inputs, opts, body, outputs)

    def reduce_scatter_single(self, output, tensor, opts=None):
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    _reduce_scatter_base = reduce_scatter_single

    # ---- moves ----

    def broadcast(self, tensors, opts=None, timeout=None):
        tensors = tensors_of(tensors)
        if not isinstance(opts, dist.BroadcastOptions):
            root, opts = opts or 0, dist.BroadcastOptions()
            opts.rootRank = root
        if self._core is None:
            return self._gloo.broadcast(tensors, opts)
        if any(is_sparse(tensor) for tensor in tensors):
            raise NotImplementedError("isomer: broadcast: sparse tensors are not supported; broadcast their parts")

        def body(core):
            for tensor in tensors:
                core.broadcast(tensor, opts.rootRank)
        return self._run("broadcast", tensors, opts, body, tensors)

    def allgather(self, outputs, inputs, opts=None, timeout=None):
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        return self._all_gather_lists(outputs, inputs, opts)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        # torch gives one list for each rank here, allgather's form is one list for each tensor
        return self._all_gather_lists([list(column) for column in zip(*outputs)], inputs, opts)

    def _all_gather_lists(self, outputs, inputs, opts):
        opts = opts or dist.distributed_c10d.AllgatherOptions()
        if self._core is None:
            return self._gloo.allgather(outputs, inputs, opts)
        for tensors, tensor in zip(outputs, inputs):
            check_count("all_gather", tensors, self.size())
            check_alike("all_gather", tensor, tensors)
            check_size("all_gather: input", tensor.numel(), tensors[self.rank()].numel())

        def body(core):
            for tensors, tensor in zip(outputs, inputs):
                core.all_gather(tensors, tensor)
        return self._run("all_gather", inputs, opts, body, [tensor for tensors in outputs for tensor in tensors])

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        opts = opts or dist.distributed_c10d.AllgatherOptions()
        if self._core is None:
            return self._gloo.all_gather_single_coalesced(outputs, inputs, opts)
        for output, tensor in zip(outputs, inputs):
            check_alike("all_gather_single", output, [tensor])
            check_size("all_gather_single: output", output.numel(), self.size() * tensor.numel())

        body = partial(each, "all_gather_single", outputs, inputs)
        return self._run("all_gather_single", inputs, opts, body, outputs)

    def all_gather_single(self, output, tensor, opts=None):
        return self.all_gather_single_coalesced([output], [tensor], opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _allgather_base = all_gather_single

    def gather(self, outputs, inputs, opts=None, timeout=None):
        if isinstance(inputs, torch.Tensor):
            root, opts = opts or 0, dist.distributed_c10d.GatherOptions()
            opts.rootRank, outputs, inputs = root, [outputs] if outputs else [], [inputs]
        opts = opts or dist.distributed_c10d.GatherOptions()
        if self._core is None:
            return self._gloo.gather(outputs, inputs, opts)
        check_rank("gather: root", opts.rootRank, self.size())
        tensors = list(outputs[0]) if outputs else []
        if self.rank() == opts.rootRank:
            check_count("gather", tensors, self.size())
            check_alike("gather", inputs[0], tensors)
            for tensor in tensors:
                check_size("gather: output", tensor.numel(), inputs[0].numel())
        return self._run("gather", inputs, opts, lambda core: core.gather(tensors, inputs[0], opts.rootRank), tensors)

    def scatter(self, outputs, inputs, opts=None, timeout=None):
        if isinstance(outputs, torch.Tensor):
            root, opts = opts or 0, dist.distributed_c10d.ScatterOptions()
            opts.rootRank, outputs, inputs = root, [outputs], [inputs] if inputs else []
        opts = opts or dist.distributed_c10d.ScatterOptions()
        if self._core is None:
            return self._gloo.scatter(outputs, inputs, opts)
        check_rank("scatter: root", opts.rootRank, self.size())
        tensors = list(inputs[0]) if inputs else []
        if self.rank() == opts.rootRank:
            check_count("scatter", tensors, self.size())
            check_alike("scatter", outputs[0], tensors)
            for tensor in tensors:
                check_size("scatter: input", tensor.numel(), outputs[0].numel())
        return self._run("scatter", tensors, opts,
                         lambda core: core.scatter(outputs[0], tensors, opts.rootRank), outputs)

    def alltoall(self, outputs, inputs, opts=None, timeout=None):
        opts = opts if isinstance(opts, dist.AllToAllOptions) else dist.AllToAllOptions()
        outputs, inputs = list(outputs), list(inputs)
        if self._core is None:
            return self._gloo.alltoall(outputs, inputs, opts)
        for tensors in (outputs, inputs):
            check_count("all_to_all", tensors, self.size())
            check_alike("all_to_all", inputs[0], tensors)
        check_size("all_to_all: this rank's output from itself", outputs[self.rank()].numel(),
                   inputs[self.rank()].numel())
        return self._run("all_to_all", inputs, opts,
                         lambda core: core.lists(outputs, inputs), outputs)

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts=None, timeout=None):
        opts = opts if isinstance(opts, dist.AllToAllOptions) else dist.AllToAllOptions()
        if self._core is None:
            return self._gloo.all_to_all_single(output, tensor, output_splits, input_splits, opts)
        check_alike("all_to_all_single", tensor, [output])
        output_sizes = split_sizes("output", output, output_splits, self.size())
        input_sizes = split_sizes("input", tensor, input_splits, self.size())
        check_size("all_to_all_single: this rank's output from itself", output_sizes[self.rank()],
                   input_sizes[self.rank()])

        def body(core):
            core.all_to_all_single(output, tensor, output_sizes, input_sizes)
        return self._run("all_to_all_single", [tensor], opts, body, [output])

    alltoall_base = all_to_all_single

    def barrier(self, opts=None, timeout=None):
        opts = opts if isinstance(opts, dist.BarrierOptions) else dist.BarrierOptions()
        if self._core is None:
            return self._gloo.barrier(opts)
        return self._run("barrier", [], opts, self._barrier(), [])

    def _barrier(self):
        """All ranks have come, and what was in this rank's current stream is done."""
        event = None
        if self._queue is not None and not self._streams.is_capturing():
            event = self._streams.event(self._streams.current())

        def body(core):
            if event is not None:
                event.synchronize()
            core.barrier()
        return body

    # ---- point-to-point ----

    def send(self, tensors, rank, tag):
        tensors = tensors_of(tensors)
        check_rank("send: destination", rank, self.size())
        if self._core is not None and self._on_device("send", tensors, tensors):
            return self._message("send", tensors[0], rank, tag)
        if self._gloo_takes(tensors, tag):
            return self._note(self._gloo.send(tensors, rank, tag))
        return self._note(self._pairs.send(tensors[0], rank, tag))

    def recv(self, tensors, rank, tag):
        tensors = tensors_of(tensors)
        check_rank("recv: source", rank, self.size())
        if self._core is not None and self._on_device("recv", tensors, tensors):
            return self._message("recv", tensors[0], rank, tag)
        if self._gloo_takes(tensors, tag):
            return self._note(self._gloo.recv(tensors, rank, tag))
        return self._note(self._pairs.receive(tensors[0], rank, tag))

    def recv_anysource(self, tensors, tag):
        tensors = tensors_of(tensors)
        if self._core is not None and self._on_device("recv", tensors, tensors):
            raise NotImplementedError("isomer: recv from any source takes cpu tensors; name the source")
        if self._gloo_takes(tensors, tag):
            return self._note(self._gloo.recv_anysource(tensors, tag))
        return self._note(self._pairs.receive_from_any(tensors[0], tag))

    def _message(self, name, tensor, rank, tag):
        """On the device. Within a coalescing manager, all messages go together at its end."""
        if self._coalesced is not None:
            self._messages.append((name, tensor, rank, tag))
            return None
        queue = self.queue()
        return (queue.send if name == "send" else queue.receive)(tensor, rank, tag)

    def _gloo_takes(self, tensors, tag):
        if self._core is None:
            return True
        if not self._pairs.takes(tag):
            warn_once(f"send and recv are in the library for tags 0 to {TAGS - 1} and groups on one node")
            return True
        return False

    # ---- the end ----

    def set_timeout(self, timeout):
        self._timeout_seconds = timeout.total_seconds()

    def abort(self):
        """Ends the calls under way with an error; the group takes no more."""
        if self._core is not None and self._pid == os.getpid():
            self._core.world.abort_here("the process group was aborted")
        self.shutdown(0.0)

    def shutdown(self, seconds=None):
        """Ends the group on this rank. The last group of the process ends the job, when the other ranks come, too."""
        core, self._core = self._core, None
        if core is None or self._pid != os.getpid():
            return
        _world.leave(self)
        if seconds is None:
            seconds = _world.seconds_for_exit(self._timeout_seconds)
        if not self._pairs.close(min(seconds, _world.EXIT_SECONDS)) or not self._sequence.close(seconds):
            core.world.abort_here("the process group was destroyed while calls were under way")
            self._pairs.close(_world.EXIT_SECONDS)
            self._sequence.close(_world.EXIT_SECONDS)
        if self._queue is not None:
            self._queue.close()
            self._queue = None  # it has this object, too
        core.lease.close(seconds)
        _world.keep_store(core.lease.world, self._store)
        self._gloo = None

    def after_fork(self):
        """In a child, which has copies of locks and of calls under way, and not the threads that end them."""
        self._sequence.after_fork()
        self._pairs.after_fork()
        if self._queue is not None:
            self._queue.after_fork()


def reduce_options(opts):
    if isinstance(opts, REDUCE_OPTIONS):
        return opts
    made = dist.AllreduceOptions()
    if opts is not None:
        made.reduceOp = opts
    return made


def scatter_options(opts):
    if isinstance(opts, dist.ReduceScatterOptions):
        return opts
    made = dist.ReduceScatterOptions()
    if opts is not None:
        made.reduceOp = opts
    return made


def check_count(name, tensors, size):
    if len(tensors) != size:
        raise ValueError(f"isomer: {name}: the list has {len(tensors)} tensors; the group has {size} ranks")


def check_size(name, nelems, expected):
    if nelems != expected:
        raise ValueError(f"isomer: {name} has {nelems} elements; it must have {expected}")


def check_rank(name, rank, size):
    if not 0 <= rank < size:
        raise ValueError(f"isomer: {name} {rank} is outside 0..{size - 1}")


def split_sizes(name, tensor, splits, size):
    """Elements for each member: splits count rows; none means equal parts."""
    rows = tensor.size(0) if tensor.dim() else 1
    if not splits:
        if rows % size != 0:
            raise ValueError(f"isomer: all_to_all_single: {name} has {rows} rows, which {size} ranks do not divide; "
                             "give split sizes")
        return [tensor.numel() // size] * size
    if len(splits) != size or sum(splits) != rows:
        raise ValueError(f"isomer: all_to_all_single: {name} has {rows} rows; the {len(splits)} split sizes must be "
                         f"{size} numbers with that sum")
    return [split * (tensor.numel() // max(rows, 1)) for split in splits]


def has_gpu():
    """Whether torch is built for GPUs. Starts none."""
    return bool(torch.version.cuda or torch.version.hip)


def register():
    """Makes "isomer" a name of init_process_group."""
    if not hasattr(dist.Backend, "ISOMER"):
        dist.Backend.register_backend("isomer", create, extended_api=True,
                                      devices=["cpu", "cuda"] if has_gpu() else ["cpu"])
