# SPDX-License-Identifier: MIT
"""The backend "isomer" of torch.distributed: a ProcessGroup in Python, for tensors on the CPU and on the GPU of the
process.

torch calls the methods below by their names, from Python and from C++ (DDP, functional collectives). Calls that the
library does not have go to an inner gloo group: sparse tensors, sends with large tags. The choice follows from the
call, its tag and its type alone, so that all members choose alike; gloo starts at the first such call.
"""
import contextlib
import json
import os
import threading
import warnings
import weakref
from collections import namedtuple
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType
from torch.distributed import PrefixStore, ProcessGroup, ProcessGroupGloo

from . import _instruments, _world
from ._dispatch import CALLS, by_gloo, check_rank, in_lists, is_wrapper, message_by_gloo, options_of, unwrapped
from ._lib import IsomerError
from ._pairs import TAGS, PointToPoint
from ._device import streams_of
from ._instruments import is_new, modes_look, profiler_looks
from ._stream import Queue
from ._work import IN_CHILD, AllWork, IsomerWork, Limit, not_compiled
from .pool import device_pool_of, pool_of

_warned = set()


def _warn(sentence):
    """Once per process."""
    if sentence not in _warned:
        _warned.add(sentence)
        warnings.warn(f"isomer: {sentence}", stacklevel=4)


def warn_once(reason):
    """Says why gloo does what was asked of Isomer. An error with ISOMER_STRICT=1."""
    if os.environ.get("ISOMER_STRICT") == "1":
        raise IsomerError(f"{reason} (ISOMER_STRICT=1)")
    _warn(f"{reason}; gloo does it")


# What torch's options say of a new group; here of one that is there, or of a part of one.
Options = namedtuple("Options", "store group_rank group_size timeout global_ranks_in_group")


def create(options, _backend_options=None, is_default=False):
    """torch's creator: collective over the group's members, who all get a group or all an exception."""
    store, rank, size, timeout = options.store, options.group_rank, options.group_size, options.timeout
    ranks = list(options.global_ranks_in_group) or list(range(size))  # torch leaves the default group's away
    is_default = is_default or dist.group.WORLD is None
    # After a reconfigure the name is new, and members may have been in other jobs; else a destroyed default group may
    # have left names of groups that had other members.
    era = getattr(dist.group.WORLD, "uuid", "")
    time = "" if is_default or era else _world.default_time
    part, lease, reason = _world.join(PrefixStore(f"isomer/{era}/{time}", store), rank, ranks, timeout, is_default)
    if lease is None:
        warn_once(f"a group of {size} has no team, because {reason}")
    return IsomerGroup(options, ranks, lease, Gloo(PrefixStore("gloo", part), rank, size, timeout))


class Gloo:
    """The inner gloo group, which has descriptors and threads of its own: made when it is first needed, and its
    connections when they are. So it takes no receive from any source: who is to send may not have it yet."""

    def __init__(self, store, rank, size, timeout):
        self._store, self._rank, self._size, self._timeout = store, rank, size, timeout
        self._made, self._lock = None, threading.Lock()

    def __call__(self):
        with self._lock:
            if self._made is None:
                options = ProcessGroupGloo._Options()
                options._devices = [ProcessGroupGloo.create_default_device(lazy_init=True)]
                options._timeout = self._timeout
                self._made = ProcessGroupGloo(self._store, self._rank, self._size, options)
            return self._made

    def connect(self):
        """Makes the group and all its connections at once. Collective."""
        self._made = ProcessGroupGloo(self._store, self._rank, self._size, timeout=self._timeout)


class Ended:
    """In the place of a Gloo, of a group that has ended on this rank: its calls say why."""

    def __init__(self, reason):
        self.reason = reason

    def __call__(self):
        raise dist.DistBackendError(f"isomer: {self.reason}")


_beside = weakref.WeakKeyDictionary()  # groups of other backends: the IsomerGroup of the same ranks


def group_of(group):
    """The IsomerGroup of a group (None: the default one). For a group of another backend, one of the same ranks is made
    at the first call, which is collective over them; the job must run then, or the group be the default one."""
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise IsomerError("there is no default process group: call torch.distributed.init_process_group")
    if isinstance(group, IsomerGroup):
        return group
    if not isinstance(group, ProcessGroup):
        raise ValueError(f"isomer: group is {group}; where new_group gave no process group, this rank is not a member")
    made = _beside.get(group)
    if made is None or not made.is_open():
        if group is not dist.group.WORLD:
            group_of(None)  # so that all groups are in one job
        made = _beside[group] = create(Options(
            PrefixStore("isomer", dist.distributed_c10d._get_process_group_store(group)), group.rank(), group.size(),
            dist.distributed_c10d.default_pg_timeout, dist.get_process_group_ranks(group)),
            is_default=group is dist.group.WORLD)
    return made


def prepare(group=None):
    """Makes what the calls of a group on GPU tensors need, so that the first ones may be in the capture of a graph. Not
    for sends and receives. Without a GPU, the default group makes the CPU a device for kernels. Collective over the
    group."""
    mine = group_of(group)
    world = mine.lease.world
    if streams_of(world) is not None:
        mine.queue().prepare()
    elif len(mine.lease.pes) == world.size:
        mine.run_now("prepare", lambda _: world.start_device())


# What torch's options say of new members.
ReconfigureOptions = namedtuple("ReconfigureOptions", "uuid handles timeout")


def get_reconfigure_handle(group=None):
    """What names this rank's object of a group (None: the default one) in reconfigure. A text, for any channel but calls
    of the group itself: they end with an error on a rank that is still in one when another one reconfigures. The
    group's store also works after a death."""
    return _ours("get_reconfigure_handle", group).get_reconfigure_handle()


def _ours(name, group):
    group = group if group is not None else dist.group.WORLD
    if group is not None and not isinstance(group, IsomerGroup):
        raise IsomerError(f"{name}: the process group is of another backend, which would have to change members, too")
    return group_of(group)


def reconfigure(uuid, handles, timeout=None, group=None):
    """The group (None: the default one) has other members from here on, in the same process and as the same object,
    also after a death, a timeout or abort(): those whose handles are given, in this order, which is that of their new
    ranks. uuid: a number that the group has not had yet. Collective over the new members, with equal uuid and handles;
    others take no part. Calls of the group that have not returned end with an error, also where all their data came.

    The members stay in their job where all of them are in one, no PE of it has died, and it has no other PEs or these
    processes have other groups. Else they leave their jobs and begin one: symmetric tensors are gone then, and other
    groups of these processes raise; whole jobs that have other groups are not left, but raise on all members. The
    group's store must be in a process that stays: torchrun's is in its agent. torch 2.14 has it as
    torch.distributed._reconfigure. Returns a work that has ended."""
    return _ours("reconfigure", group).reconfigure(ReconfigureOptions(uuid, list(handles), timeout))


def shrink(ranks_to_exclude, group=None):
    """The other ranks of a group (None: the default one) go on in it, after a death or without one: reconfigure() with
    those that are left, in their old order. All of them call it with the same list; those in the list do not. Where the
    default group shrinks, all other groups of these processes end, as with torch's shrink_group, since ranks are counted
    anew. Returns the group, which is the same object."""
    mine, excluded = _ours("shrink", group), sorted(set(ranks_to_exclude))
    size, me = mine.size(), mine.rank()
    for rank in excluded:
        check_rank("shrink: rank", rank, size)
    staying = [rank for rank in range(size) if rank not in excluded]
    if not excluded or me in excluded:
        raise ValueError(f"isomer: shrink: ranks_to_exclude is {excluded}; it must name at least one rank of "
                         f"0..{size - 1}, and not rank {me}, which calls")
    uuid, timeout = f"{mine.uuid} without {excluded}", timedelta(seconds=mine.timeout_seconds())
    handles = _world.exchange(PrefixStore(f"isomer/shrink/{uuid}", mine.get_group_store()), "handle", staying.index(me),
                              len(staying), timeout, mine.get_reconfigure_handle())
    names = dist.distributed_c10d._world.pg_names
    for other in sorted(names, key=names.get, reverse=True) if mine is dist.group.WORLD else ():
        if isinstance(other, IsomerGroup) and other is not mine:
            other.abort()  # ranks that do not stay may be in its calls
        if other is not mine:
            dist.destroy_process_group(other)
    mine.reconfigure(ReconfigureOptions(uuid, handles, None))
    return mine


def background(group=None, on=True):
    """A context: calls of a group on GPU tensors that this rank enqueues in it say that a computation runs beside them,
    to which copy engines or few blocks leave the multiprocessors, where the library's tables have that. They may take
    longer; results are the same. All ranks make the same calls in it. Nothing changes on CPUs."""
    mine = group_of(group)
    return mine.queue().background(on) if streams_of(mine.lease.world) is not None else contextlib.nullcontext()


def ended_work(name):
    work = IsomerWork(name, [])
    work.finish()
    return work


def ended(work, async_op):
    """A work, or None behind a call that is not asynchronous."""
    if work is not None and not async_op:
        work.wait()
        return None
    return work


class BackendFace:
    """What a group shows torch as its backend for a device: torch asks it whether and how groups are split. It has
    nothing to connect, and those outside a new group nothing to do."""

    supports_splitting, supports_coalescing, options = True, True, None

    def __init__(self, group, rank, size):
        self.group = weakref.ref(group)  # which has this object

    def __getattr__(self, name):
        return getattr(self.group(), name)

    def name(self):
        return "isomer"

    def rank(self):
        return self.group().rank()

    def size(self):
        return self.group().size()

    def comm_split_count(self):
        return self.group().splits

    def perform_nocolor_split(self, device):
        pass

    def eager_connect_single_device(self, device):
        pass

    def _set_sequence_number_for_group(self):
        pass


Backend = _instruments.backend_class(BackendFace)


class IsomerGroup(ProcessGroup):
    """One group. torch's collectives are added to it below, from _dispatch.CALLS."""

    def __init__(self, options, ranks, lease, gloo):
        self._rank, self._size, self._ranks = options.group_rank, options.group_size, ranks
        super().__init__(options.group_rank, options.group_size)
        self._store, self._pid, self._handle, self._uuids = options.store, os.getpid(), os.urandom(16).hex(), set()
        self.uuid = ""  # of the last reconfigure()
        self._limit = Limit(options.timeout.total_seconds())
        self._devices = [torch.device("cpu"), torch.device("cuda")] if has_gpu() else [torch.device("cpu")]
        self._name, self._description = "", "undefined"
        self._backend = Backend(self, options.group_rank, options.group_size)
        for device in self._devices if _instruments.has_backends else ():
            self._register_backend(device, ProcessGroup.BackendType.CUSTOM, self._backend)
        self._set_default_backend(ProcessGroup.BackendType.CUSTOM)
        self.splits = 0  # calls of split_group
        self.has_hooks = _instruments.hooks_of_torch(self)
        self._begin(options.group_rank, ranks, lease, gloo)

    def _begin(self, rank, ranks, lease, gloo):
        """The group has these members from here on. lease: None: gloo does it all."""
        self._rank, self._size, self._ranks, self._gloo = rank, len(ranks), ranks, gloo
        self._core, self._sequence, self._coalesced = None, None, None
        self._streams, self._queue, self._messages = None, None, []
        if lease is None or not lease.pairs.is_near:  # it does all sends and receives
            gloo.connect()
        if lease is not None:
            self._sequence, self._pairs = lease.sequence, PointToPoint(lease, self._limit)
            self._sequence.limit, self._core = self._limit, self._sequence.core
            self._streams = streams_of(lease.world)
            _world.enter(self)

    # torch's own fields keep what they were at first, so both its names in Python and those in C++ are here.

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    getRank, getSize = rank, size

    def is_open(self):
        return self._core is not None or self._sequence is None

    def getBackendName(self):
        return "isomer"

    def get_group_store(self):
        return self._store

    # C++ asks for these; of a group without a backend in C++ it knows no names itself.

    def getGroupName(self):
        return self._name

    def setGroupName(self, name):
        self._name = name

    def getGroupDesc(self):
        return self._description

    def setGroupDesc(self, description):
        self._description = description

    # ---- splitting ----

    @property
    def _device_types(self):
        return self._devices

    def _get_backend(self, device):
        if torch.device(torch.device(device).type) not in self._devices:
            raise RuntimeError(f"isomer: the group takes tensors on {self._devices}, not on {device}")
        return self._backend

    def global_ranks(self):
        """The members, as the default group counts them."""
        return self._ranks

    def split_group(self, ranks, timeout=None, opts=None, group_name=None, group_desc=None, device_types=None):
        """A group of these ranks of this one; None on its other ranks. All ranks call it, also for disjoint groups at
        once. A group takes tensors of both devices, whatever device_types says."""
        self.splits += 1
        ranks = list(ranks)
        if self.rank() not in ranks:
            return None
        if timeout is None:
            timeout = timedelta(seconds=self._limit.seconds)
        name = group_name or f"{self.group_name}:split:{self.splits}:{ranks[0]}"
        store = PrefixStore(f"split/{name}", self._store)
        made = create(Options(store, ranks.index(self.rank()), len(ranks), timeout, [self._ranks[r] for r in ranks]))
        made._set_group_name(name)
        made._set_group_desc(group_desc or "undefined")
        return made

    # ---- other members: torch 2.14 has these names ----

    supports_reconfigure = True

    def get_reconfigure_handle(self):
        """Names this rank's object of the group to the others, as long as the process lives."""
        return json.dumps({"id": self._handle, "rank": self._ranks[self._rank]})

    def reconfigure(self, opts):
        """isomer_shmem.reconfigure, of opts.uuid, opts.handles and opts.timeout. Returns a work that has ended."""
        if self._pid != os.getpid():
            raise IsomerError(IN_CHILD)
        try:
            handles = [json.loads(handle) for handle in opts.handles]
            objects = [handle["id"] for handle in handles]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"isomer: reconfigure: handles is {opts.handles}; its entries come from "
                             "get_reconfigure_handle()") from error
        if self._handle not in objects or len(set(objects)) < len(objects):
            found = "none of them of this rank" if self._handle not in objects else "two of one rank"
            raise ValueError(f"isomer: reconfigure: handles has {len(handles)} entries, {found}; it must have one of "
                             "each member, by its get_reconfigure_handle()")
        if opts.uuid in self._uuids:
            raise RuntimeError(f"isomer: reconfigure: uuid {opts.uuid} was already used by this group; take another")
        self._uuids.add(opts.uuid)
        timeout = opts.timeout or timedelta(seconds=self._limit.seconds)
        rank, store = objects.index(self._handle), PrefixStore(f"isomer/reconfigured/{opts.uuid}", self._store)
        is_default = self is dist.group.WORLD
        ranks = list(range(len(handles))) if is_default else [handle["rank"] for handle in handles]
        hooks = {}
        if self._core is not None:  # calls under way end
            hooks = self._core.lease.abort_quietly("the process group was reconfigured")
            self.shutdown(0.0, ends_job=False)
        of_torch = dist.distributed_c10d._world
        lease, reason, named = _world.join_others(store, rank, ranks, timeout, of_torch.group_count)
        if is_default:  # torch names new groups by this count
            of_torch.group_count = named
        if lease is not None:
            lease.abort_hooks = hooks
        else:
            warn_once(f"a group of {len(handles)} has no team, because {reason}")
        self._begin(rank, ranks, lease, Gloo(PrefixStore("gloo", store), rank, len(handles), timeout))
        self.uuid = opts.uuid
        if _instruments.has_backends:
            self._backend.options.global_ranks_in_group = ranks
        if self in of_torch.pg_group_ranks:
            of_torch.pg_group_ranks[self] = {each: number for number, each in enumerate(ranks)}
        return ended_work("reconfigure")

    # ---- for the other files of the package ----

    @property
    def lease(self):
        """The team, and the job."""
        return self.core().lease

    def core(self):
        if isinstance(self._gloo, Ended):
            self._gloo()
        if self._core is None:
            raise IsomerError("this group has no team of Isomer any more, or never had one (a warning said why)")
        return self._core

    def run_now(self, name, body):
        """body(core) in its turn among the group's calls, here and now; its value."""
        values = []
        self.core()
        self._sequence.run(name, lambda core: values.append(body(core)), [], None, False)
        return values[0]

    def timeout_seconds(self):
        return self._limit.seconds

    def event_here(self):
        """Behind what is in this rank's current stream, where calls may be there; else None."""
        if self._queue is None or self._streams.is_capturing():
            return None
        return self._streams.event(self._streams.current())

    # ---- running a call ----

    def _on_device(self, name, inputs, outputs):
        """Whether all tensors are on the device, and not on the host. body(core) runs in a stream there. None: one is a
        wrapper."""
        tensors = inputs if outputs is inputs else [*inputs, *outputs]
        found = self._streams is not None and any(map(self._streams.takes, tensors))
        for tensor in tensors:
            if is_wrapper(tensor):
                return None
            if found and self._streams.takes(tensor):
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
                _warn("CUDA_DEVICE_MAX_CONNECTIONS is small on a rank, so all collectives of a group are one sequence")
            self._queue = Queue(self, self._streams, core.lease.one_slot, self._limit)
        return self._queue

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

    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing  # the names of C++

    # ---- point-to-point ----

    def send(self, tensors, rank, tag):
        if (profiler_looks() or modes_look() or self.has_hooks) and is_new():
            return _send(self, IsomerGroup.send, (tensors, rank, tag))
        return self._message("send", "destination", tensors, rank, tag)

    def recv(self, tensors, rank, tag):
        if (profiler_looks() or modes_look() or self.has_hooks) and is_new():
            return _recv(self, IsomerGroup.recv, (tensors, rank, tag))
        return self._message("recv", "source", tensors, rank, tag)

    def _message(self, name, what, tensors, rank, tag):
        tensors = unwrapped(in_lists([tensors])[0])
        check_rank(f"{name}: {what}", rank, self.size())
        if self._core is not None and self._on_device(name, tensors, tensors):
            if self._coalesced is not None:  # all messages go together at the end of the coalescing manager
                self._messages.append((name, tensors[0], rank, tag))
                return None
            return self.queue().message(name, tensors[0], rank, tag)
        if self._gloo_takes(tag):
            return self._note(message_by_gloo(getattr(self._gloo(), name), name == "recv", tensors, rank, tag))
        return self._note(self._pairs.message(name, tensors[0], rank, tag))

    def recv_anysource(self, tensors, tag):
        if (profiler_looks() or modes_look() or self.has_hooks) and is_new():
            return _recv_anysource(self, IsomerGroup.recv_anysource, (tensors, tag))
        tensors = unwrapped(in_lists([tensors])[0])
        if self._core is not None and self._on_device("recv", tensors, tensors):
            raise NotImplementedError("isomer: recv from any source takes cpu tensors; name the source")
        if self._gloo_takes(tag):
            if self._core is not None and self._core.lease.pairs.is_near:
                raise NotImplementedError(f"isomer: recv from any source: the tag is {tag}; it must be in "
                                          f"0..{TAGS - 1}, or name the source")
            return self._note(message_by_gloo(self._gloo().recv_anysource, True, tensors, tag))
        return self._note(self._pairs.receive_from_any(tensors[0], tag))

    def _gloo_takes(self, tag):
        if self._core is None:
            return True
        if not self._pairs.takes(tag):
            warn_once(f"send and recv are in the library for tags 0 to {TAGS - 1} and groups on one node")
            return True
        return False

    # ---- memory: FSDP2 asks for it under set_allocate_memory_from_process_group_for_comm ----

    def supports_tensor_alloc(self, device):
        kind = torch.device(device).type
        return self._core is not None and kind == ("cpu" if self._streams is None else "cuda") and (
            kind == "cpu" or torch.cuda.get_allocator_backend() == "native")  # others have no pools

    def allocate_tensor(self, size, *, dtype, device):
        """Memory of the library, with undefined contents, which other members read by pointer."""
        from .memory import check_device
        check_device(device, self.lease.world)
        return pool_of(self.lease.world, device).take((size,), dtype)

    @property
    def mem_allocator(self):
        """The library's local memory for torch.cuda.MemPool, as torch's NCCL has it; isomer_shmem.mem_pool() is such a
        pool. An error where the job has no GPU."""
        return device_pool_of(self, "mem_allocator").allocator

    def new_window(self, tensor=None):
        """A tensor of each member for one-sided calls: isomer_shmem.new_window. torch's own has no constructor."""
        from .window import Window
        return Window(self, tensor)

    def memory_stats(self):
        """isomer_shmem.memory_stats."""
        from .memory import memory_stats
        return memory_stats(self)

    # ---- the end ----

    def set_timeout(self, timeout):
        self._limit.seconds = timeout.total_seconds()

    def register_abort_hook(self, hook_id, hook):
        """hook() is called once, before the group breaks: by a timeout, a dead rank, abort()."""
        self.lease.abort_hooks[hook_id] = hook

    def unregister_abort_hook(self, hook_id):
        self.lease.abort_hooks.pop(hook_id, None)

    def get_error(self):
        """torch's word for what has happened to the group."""
        why = (self._core.lease.broken if self._core is not None else
               self._gloo.reason if isinstance(self._gloo, Ended) else None)
        if why is None:
            return ErrorType.SUCCESS
        return ErrorType.TIMEOUT if "timeout" in why else ErrorType.COMM_ERROR

    def abort(self):
        """Ends the calls under way with an error, on all ranks of the group, which takes no more."""
        if self._core is not None and self._pid == os.getpid():
            self._core.lease.abort_here("the process group was aborted")
        self.shutdown(0.0)

    def shutdown(self, seconds=None, ends_job=True):
        """Ends the group on this rank. The last group of the process ends the job, when the other ranks come, too.
        ends_job: False: the job goes on without a group."""
        core, self._core = self._core, None
        if core is None or self._pid != os.getpid():
            return
        _world.leave(self)
        core.lease.abort_hooks.clear()
        if seconds is None:
            seconds = _world.seconds_for_exit(self._limit.seconds)
        if not self._pairs.close(min(seconds, _world.EXIT_SECONDS)) or not self._sequence.close(seconds):
            core.lease.abort_here("the process group was destroyed while calls were under way")
            self._pairs.close(_world.EXIT_SECONDS)
            self._sequence.close(_world.EXIT_SECONDS)
        if self._queue is not None:
            self._queue.close()
            self._queue = None  # it has this object, too
        core.lease.close(seconds, ends_job)
        _world.keep_store(core.lease.world, self._store)
        self._gloo = Ended(core.lease.broken or "the process group was destroyed")
        if ends_job:
            self.recorder = None

    def after_fork(self):
        """In a child, which has copies of locks and of calls under way, and not the threads that end them."""
        self._sequence.after_fork()
        self._pairs.after_fork()
        if self._queue is not None:
            self._queue.after_fork()


_send, _recv, _recv_anysource = (_instruments.entry(name, name, 1) for name in ("send", "recv", "recv_anysource"))


def _method(call, row):
    """The method `call` by which torch, in Python or C++, makes the call of a row. torch takes None for done."""
    def method(self, *operands, opts=None, op=None, timeout=None):
        if (profiler_looks() or modes_look() or self.has_hooks) and is_new() and enter is not None:
            given = {"opts": opts, "op": op, "timeout": timeout}
            return enter(self, method, operands, {key: value for key, value in given.items() if value is not None})
        options = operands[-1] if operands else None
        if type(options) is options_type:
            operands = operands[:-1]
        else:
            operands, given = operands[:count], operands[count:]
            options = options_of(row, given + (opts, op)[len(given):])
        if takes_lists and (type(operands[0]) is not list or type(operands[-1]) is not list):
            operands = in_lists(operands)
        prepared = prepare(self, options, *operands) if self._core is not None else None
        if prepared is None:
            if self._core is not None:
                warn_once(f"{name} of sparse tensors is not in the library")
            return self._note(by_gloo(row, self._gloo(), operands, options))
        inputs, outputs, body = prepared
        is_async = options.asyncOp or self._coalesced is not None
        on_device = self._on_device(name, inputs, outputs)
        if on_device is None:
            return method(self, *map(unwrapped, operands), options)
        if on_device:
            return self._note(self.queue().run(name, body, outputs, options, is_async, inputs))
        work = self._sequence.run(name, body, outputs, options, is_async)
        return work if work is None else self._note(work)
    name, prepare, count, options_type = row[:4]
    takes_lists, enter = 0 < count <= 2, _instruments.entry(call, name, count)
    return method


for _name, _row in CALLS.items():
    if not _instruments.is_left_to_torch(_name):
        setattr(IsomerGroup, _name, _method(_name, _row))
_instruments.add_hooks(IsomerGroup)
not_compiled(IsomerGroup)


def has_gpu():
    """Whether torch is built for GPUs. Starts none."""
    return bool(torch.version.cuda or torch.version.hip)


def register():
    """Makes "isomer" a name of init_process_group."""
    if not hasattr(dist.Backend, "ISOMER"):
        dist.Backend.register_backend("isomer", create, extended_api=True,
                                      devices=["cpu", "cuda"] if has_gpu() else ["cpu"])
