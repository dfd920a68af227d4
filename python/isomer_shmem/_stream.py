# SPDX-License-Identifier: MIT
"""Calls on streams: for tensors on the GPU of this PE.

A synchronous call is enqueued in its caller's current stream. An asynchronous one goes into the group's own stream,
behind what is in the current stream; its Work makes the stream that is current at wait() wait, and never the host. The
library has one sequence of calls for each slot, and the slot follows from the kind of the call, as on all ranks.
"""
import contextlib
import threading
import time
from ctypes import addressof, byref, c_size_t, c_void_p

import torch
import torch.distributed as dist

from . import _lib
from ._core import Core, new_like, plain, plain_dest
from ._device import synchronize
from ._lib import Coll, IsomerError, Splits
from ._work import IsomerWork, not_compiled, watch
from .pool import RING_STEP, Ring, pool_of

KINDS = (_lib.FCOLLECT, _lib.REDUCESCATTER, _lib.ALLREDUCE)  # with slots of their own; the others share one
POLL_SECONDS = 0.0005
# Memory that a slot may take for a stage: of copy engines, or between nodes of kernels, which take it in pieces.
STAGE_BYTES, FAR_STAGE_BYTES = 1 << 30, 32 << 20
PARTS_STAGE_BYTES = 256 << 20  # for calls of parts, which run beside a computation: it holds a piece of what goes by it


class StreamCore(Core):
    """The collectives of one group on tensors of the device."""

    def __init__(self, group, streams, one_slot):
        super().__init__(group.lease)
        lease, self._group, self._streams = group.lease, group, streams
        self.streams = streams
        # The last of the library's slots: small numbers are the program's, for handles in kernels.
        self.rest = lease.world.lib.shmemx_slots() - 1 - len(KINDS)
        self.slots = {} if one_slot else {kind: slot for slot, kind in enumerate(KINDS, self.rest + 1)}
        self._pairs, self._coll_on_stream = lease.pairs, lease.world.lib.shmemx_coll_on_stream
        self._said = {}  # by the facts of a call
        # A copy engine that waits would hold up other calls of a group with one slot.
        self._args.stage_bytes = FAR_STAGE_BYTES if not self._pairs.is_near else STAGE_BYTES if self.slots else 0

    def call(self, kind, dest=0, source=0, nelems=0, type=_lib.UINT8, op=0, root=0):
        """Enqueues one call in the current stream."""
        if self.lease.broken is not None:
            self.lease.check_usable()
        self._write(self._args, 0, kind, self._team, dest, source, nelems, type, op, root)
        self._args.slot = self.slots.get(kind, self.rest)
        self._args.same_place = kind == _lib.FCOLLECT and dest in self._pairs.at_one_place
        status = self._coll_on_stream(self._args_address, self._streams.handle(self._streams.current()))
        if status != 0:
            self.lease.check_call(status)

    def call_with_norm(self, norm, dest, source, nelems, type):
        """An all-reduce with what a RmsNorm says."""
        self._args.rms_norm = addressof(norm)
        try:
            self.call(_lib.ALLREDUCE, dest, source, nelems, type, _lib.SUM)
        finally:
            self._args.rms_norm = None

    @contextlib.contextmanager
    def background(self, on):
        """Calls in it say whether a computation runs beside them."""
        before, self._args.background = self._args.background, on
        try:
            yield
        finally:
            self._args.background = before

    def new(self, tensor, shape=None):
        """A buffer that is reachable by peers where the tensor is: all members must agree in that."""
        shape = tensor.shape if shape is None else shape
        return self.keep(pool_of(self.world, tensor.device).take(shape, tensor.dtype) if self.is_reachable(tensor) else
                         new_like(tensor, shape))

    def _plain(self, tensor):
        return plain(tensor, self.new)

    def is_reachable(self, tensor):
        info = _lib.AddressInfo()
        return tensor.numel() and self.world.lib.shmemx_address_info(tensor.data_ptr(), byref(info)) == 0

    def keep(self, tensor):
        self._streams.keep_copy(tensor)
        return tensor

    def settle(self):
        self._streams.settle()

    # ---- copy engines ----

    def has_engines(self):
        """Whether copy engines may carry calls: pointers reach all members, and a copy that waits holds up nothing. Not
        in a capture, in which a buffer could not be used again."""
        pairs = self._pairs
        return pairs.is_near and pairs.has_room and bool(self.slots) and not self._streams.is_capturing()

    def ring_buffer(self, nbytes, shape, dtype):
        """At one place on all members, which take such buffers in one order, and give them to all_gather_single. The
        rings live as long as the team, for later groups of the same members, too. None on all of them: there is no
        room."""
        nbytes = -(-nbytes // RING_STEP) * RING_STEP
        ring = self._pairs.rings.get(nbytes)
        if ring is None:
            ring = self._pairs.rings[nbytes] = Ring(nbytes)
        return ring.take(self._group, self._streams, shape, dtype)

    def parts(self, kind, parts, dest=0, source=0, reduction=None, background=False):
        """An all-gather of bytes, or a reduce-scatter, of parts that lie apart, by copy engines."""
        args = self._args
        before = args.background, args.stage_bytes
        args.background, args.stage_bytes = background, min(args.stage_bytes, PARTS_STAGE_BYTES)
        args.splits, args.to_float = addressof(parts.splits), parts.to_float
        try:
            self.call(kind, dest, source, parts.nelems, parts.type, reduction.op if reduction is not None else 0)
        finally:
            (args.background, args.stage_bytes), args.splits, args.to_float = before, None, 0

    def begin_parts(self, kind):
        """Whether calls of parts can be made, alike on all members: by a first one, which makes the slot and its
        stage. A stage that is there may fail to grow, and then serves as it is. Collective."""
        if not self.has_engines():
            return False
        values, parts = torch.zeros(2, 4 * self.n, device=self.streams.device), Parts([4], _lib.FLOAT)
        asked = self._asked_parts(kind, parts, *values)
        status = self._coll_on_stream(addressof(asked), self._streams.handle(self._streams.current()))
        self.keep(values)
        return status == 0

    def takes_parts(self, kind, parts):
        """Whether copy engines carry such a call, alike on all members. Behind begin_parts."""
        key = kind, parts.nelems, parts.type, parts.to_float
        if key not in self._said:
            here = torch.empty(4, device=self.streams.device)  # any memory
            asked = self._asked_parts(kind, parts, here, here)
            said = _lib.text_of(lambda text, room: self.world.lib.shmemx_coll_explain(byref(asked), text, room))
            self._said[key] = ": engines" in said
        return self._said[key]

    def _asked_parts(self, kind, parts, dest, source):
        """Each part at the same place."""
        parts.lie([dest.data_ptr()] * parts.n, [source.data_ptr()] * parts.n)
        return Coll(kind=kind, team=self._team, nelems=parts.nelems, type=parts.type, scale=1.0,
                    slot=self.slots.get(kind, self.rest), splits=addressof(parts.splits),
                    stage_bytes=min(self._args.stage_bytes, PARTS_STAGE_BYTES), to_float=parts.to_float)

    def says_engines(self, kind, dest, source, nelems, type, op=0):
        """Whether the library lets copy engines carry such a call of two addresses, by what it follows from alike on all
        members. Not before the first call of the kind."""
        at_one_place = dest in self._pairs.at_one_place
        key = kind, nelems, type, op, at_one_place, self._args.background
        if key not in self._said:
            asked = Coll(kind=kind, team=self._team, dest=dest, source=source, nelems=nelems, type=type, op=op,
                         scale=1.0, slot=self.slots.get(kind, self.rest), same_place=at_one_place,
                         background=self._args.background, stage_bytes=self._args.stage_bytes)
            said = _lib.text_of(lambda text, room: self.world.lib.shmemx_coll_explain(byref(asked), text, room))
            if "made no call yet" in said:
                return False
            self._said[key] = ": engines" in said
        return self._said[key]


class Parts:
    """Tensors that one call moves from where they lie to where they are wanted: elements of each, and the type."""

    def __init__(self, sizes, type=_lib.UINT8, to_float=False):
        self.n, self.nelems, self.type, self.to_float = len(sizes), sum(sizes), type, to_float
        self._sizes = (c_size_t * self.n)(*sizes)
        self._addresses = c_void_p * self.n
        self.splits = Splits(self.n, addressof(self._sizes))

    def lie(self, dests=None, sources=None):
        """Addresses, until the next call of this."""
        self._dests = self._addresses(*dests) if dests is not None else None
        self._sources = self._addresses(*sources) if sources is not None else None
        self.splits.dests = addressof(self._dests) if dests is not None else None
        self.splits.sources = addressof(self._sources) if sources is not None else None


@not_compiled
class StreamWork(IsomerWork):
    """One call in a stream."""

    def __init__(self, name, outputs, queue, stream, event=None):
        super().__init__(name, outputs)
        self._queue, self._stream, self._event = queue, stream, event

    def _ended(self):
        """The event behind the call; that of a synchronous call is made when it is first asked for."""
        if self._event is None:
            self._event = self._queue.streams.event(self._stream)
        return self._event

    def wait(self, timeout=None):
        """The current stream waits, and the host does not. With a timeout the host waits until the call has ended."""
        self._queue.check_usable(self._name)
        streams = self._queue.streams
        here = streams.current()
        if streams.handle(here) != streams.handle(self._stream):
            here.wait_event(self._ended())
        if timeout is not None and timeout.total_seconds() > 0:
            self._wait(timeout.total_seconds())
        return True

    def _wait(self, seconds):
        end = time.monotonic() + seconds
        while not self._ended().query():
            self._queue.check_usable(self._name)
            if time.monotonic() > end:
                raise dist.DistBackendError(f"isomer: wait for {self._name}: not done after {seconds} s")
            time.sleep(POLL_SECONDS)
        self._queue.check_gave_up(self._name)

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return self._ended().query()

    def is_success(self):
        return self.exception() is None and self.is_completed()

    def exception(self):
        broken = self._queue.core.lease.broken
        return dist.DistBackendError(f"isomer: {self._name}: {broken}") if broken else None

    def get_future(self):
        """Its value is there at once; torch has streams that use it wait for the call."""
        if self._future is None:
            streams = self._queue.streams
            here, future = streams.current(), torch.futures.Future(devices=streams.devices())
            if streams.handle(here) == streams.handle(self._stream):
                future.set_result(self._outputs)
            else:
                with streams.use(self._stream):
                    future.set_result(self._outputs)
            self._future = future
        return self._future


class Queue:
    """What enqueues the calls of one group on the device."""

    def __init__(self, group, streams, one_slot, limit):
        lease = group.lease
        self.world, self.streams, self._limit = lease.world, streams, limit
        self._group = lease.world.names(lease.pes)
        self.core = StreamCore(group, streams, one_slot)
        self._team, self._lock = lease.team, threading.RLock()
        self._own, self._channels = None, {}  # streams: of the group; by (peer, direction)
        self._under_way, self._is_closed, self._seconds = None, False, None
        self.set_limit()
        watch.add(self)

    def set_limit(self):
        """Waits of this team's kernels are reported after the group's time; the watch looks for the reports."""
        self._seconds = self.world.limits[self.core.lease] = self._limit.seconds
        self.world.lib.shmemx_team_set_timeout(self._team, self._seconds)

    def run(self, name, body, outputs, options, is_async, inputs=()):
        """body(core) enqueues the call and what belongs to it in the current stream. Returns an asynchronous one's work.
        """
        if not is_async:
            self._enqueue(name, body, options)
            return None
        used = inputs if outputs is inputs else [*inputs, *outputs]
        return self.run_beside(self._own_stream(), name, body, used, outputs, options)

    @contextlib.contextmanager
    def background(self, on):
        """Other threads' calls of the group come before it or behind it."""
        with self._lock, self.core.background(on):
            yield

    def _own_stream(self):
        if self._own is None:
            self._own = self.streams.new()
        return self._own

    def run_beside(self, stream, name, body, tensors, outputs, options=None):
        """The same in another stream than the caller's, which waits for what is in the caller's now."""
        streams = self.streams
        stream.wait_event(streams.event(streams.current()))
        with streams.use(stream):
            self._enqueue(name, body, options)
            event = streams.event(stream)
        for tensor in tensors:
            streams.keep(tensor, stream)
        return StreamWork(name, outputs, self, stream, event)

    def _enqueue(self, name, body, options):
        with self._lock:
            if self._is_closed:
                raise dist.DistBackendError(f"isomer: {name}: the process group has been destroyed")
            self._under_way = name, time.monotonic(), options  # the first call of a slot waits for the other members
            try:
                self.core.lease.check_usable()
                body(self.core)
            except IsomerError as error:
                raise dist.DistBackendError(f"isomer: {name} of group {self._group}: {error}") from error
            finally:
                self._under_way = None

    def prepare(self):
        """Makes the slots, as the first call of each kind would, and the group's stream. Collective."""
        def body(core):
            for slot in (core.rest, *core.slots.values()):
                self.world.check(self.world.lib.shmemx_slot_prepare(self._team, slot, 0))
            core.call(_lib.SYNC)
        self._own_stream()
        self._enqueue("prepare", body, None)

    def begin_parts(self, kind):
        """As the core's, in its turn."""
        answers = []
        self._enqueue("prepare", lambda core: answers.append(core.begin_parts(kind)), None)
        return answers[0]

    # ---- messages ----

    def message(self, name, tensor, peer, tag):
        """"send" or "recv"."""
        def body(core):
            end = self._message(core, name, tensor, peer, tag)
            if name == "recv":
                core.put_back(tensor, end)
        return self.run_beside(self._channel(peer, name), name, body, [tensor], [tensor])

    def _message(self, core, name, tensor, peer, tag):
        """Enqueues it: the tensor or its copy, which lives until the call is enqueued."""
        lib = self.world.lib
        call, end = ((lib.shmemx_send_on_stream, plain(tensor, core.new)) if name == "send" else
                     (lib.shmemx_recv_on_stream, plain_dest(tensor, core.new)))
        self.core.lease.check_usable()
        stream = self.streams.handle(self.streams.current())
        self.core.lease.check_call(call(self._team, end.data_ptr(), end.nbytes, peer, tag, stream))
        return end

    def _channel(self, peer, name):
        """A stream of its own for each peer and direction, so that a send waits for no other message."""
        with self._lock:
            if (peer, name) not in self._channels:
                self._channels[peer, name] = self.streams.new()
            return self._channels[peer, name]

    def batch(self, messages):
        """Messages ("send" or "recv", tensor, peer, tag) by one kernel, in any order: one Work for all of them."""
        def body(core):
            lib, ends = self.world.lib, []
            core.lease.check_call(lib.shmemx_coll_group_begin())
            try:
                for message in messages:
                    ends.append(self._message(core, *message))
            finally:
                status = lib.shmemx_coll_group_end()
            core.lease.check_call(status)
            for (name, tensor, _, _), end in zip(messages, ends):
                if name == "recv":
                    core.put_back(tensor, end)
        return self.run("messages", body, [message[1] for message in messages if message[0] == "recv"], None, True,
                        [message[1] for message in messages])

    # ---- errors and the end ----

    def check_usable(self, name):
        broken = self.core.lease.broken
        if broken is not None:
            raise dist.DistBackendError(f"isomer: {name} of group {self._group}: {broken}")

    def check_gave_up(self, name):
        """Raises where a wait of this group's kernels has given up. Not during a capture."""
        self.check_usable(name)  # streams still tell of this end once
        for slot in (self.core.rest, *self.core.slots.values()):
            self.core.lease.learn(slot)
        self.check_usable(name)

    def check_time(self):
        """By the watch: a call that waits for other members on the host, or in a kernel, for too long."""
        call = self._under_way
        if call is not None and time.monotonic() > call[1] + (seconds := self._limit.of(call[2])):
            self.core.lease.abort_here(f"{call[0]} of group {self._group} has passed its timeout of {seconds:g} s")
        if self._seconds != self._limit.seconds:
            self.set_limit()

    def synchronize(self):
        """The host waits for the current stream, and learns of errors in it."""
        synchronize(self.world, self.streams)

    def after_fork(self):
        self._lock = threading.RLock()

    def close(self):
        """Takes no more calls. What is enqueued goes on."""
        with self._lock:
            self._is_closed = True
        watch.remove(self)
        self.world.limits.pop(self.core.lease, None)
