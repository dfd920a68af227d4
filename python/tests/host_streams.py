# SPDX-License-Identifier: MIT
"""The CPU device's streams in the place of torch's GPU streams, for CPU tensors: so the code for GPUs runs without one.

torch's own operations on CPU tensors are in no stream: a test calls settle() before it looks at results.
"""
import contextlib
import ctypes
import threading
from ctypes import byref, c_uint64, c_void_p

from isomer_shmem import _device, _lib

WORDS = 1 << 16  # events of a process


class Stream:
    def __init__(self, lib):
        self.lib, self.number = lib, c_void_p()
        assert lib.shmemx_stream_create(byref(self.number)) == 0

    def wait_event(self, event):
        """For all that is in the event's stream now, which is more than the event."""
        assert self.lib.shmemx_stream_wait_stream(self.number, event.stream.number) == 0


class Event:
    """A word that the stream writes."""

    def __init__(self, streams, stream):
        streams.events += 1
        assert streams.events < WORDS
        self.stream, self._address = stream, streams.words + 8 * streams.events
        status = streams.world.lib.shmemx_signal_op_on_stream(self._address, 1, _lib.SIGNAL_SET, streams.world.pe,
                                                              stream.number)
        assert status == 0 or streams.world.broken or streams.ends_badly

    def query(self):
        return c_uint64.from_address(self._address).value == 1

    def synchronize(self):
        self.stream.lib.shmemx_stream_synchronize(self.stream.number)


class HostStreams:
    active = False  # else calls are made on the host, as in a group without a GPU
    ends_badly = False  # the test breaks the job

    def __init__(self, world):
        import torch
        world.start_device()
        self.world, self.device, self.events, self.kept, self.held = world, torch.device("cpu"), 0, [], []
        self.words = world.lib.shmemx_local_malloc(8 * WORDS, _lib.DEVICE_MEMORY)
        ctypes.memset(self.words, 0, 8 * WORDS)
        self._default, self._of_thread = Stream(world.lib), threading.local()

    def takes(self, tensor):
        return HostStreams.active and tensor.is_cpu

    def check(self, name, tensor):
        pass

    def current(self):
        return getattr(self._of_thread, "stream", self._default)

    def new(self):
        return Stream(self.world.lib)

    private = new

    def handle(self, stream):
        return stream.number.value

    @contextlib.contextmanager
    def use(self, stream):
        before, self._of_thread.stream = self.current(), stream
        try:
            yield
        finally:
            self._of_thread.stream = before

    def event(self, stream):
        return Event(self, stream)

    def is_capturing(self):
        return False

    def keep(self, tensor, stream):
        self.held = [each for each in self.held if not each[0].query()]
        self.held.append((self.event(stream), tensor))

    def keep_copy(self, tensor):
        self.kept.append(tensor)

    def settle(self):
        assert self.world.lib.shmemx_stream_synchronize(self.current().number) == 0 or self.ends_badly

    def devices(self):
        return []

    synchronize = settle


def streams():
    """Of this process's job."""
    from isomer_shmem import _world
    return _device.streams_of(_world._world)


def settle():
    streams().settle()


@contextlib.contextmanager
def on():
    """Calls on CPU tensors go into streams. Before the first group is made, or in a job that was begun so."""
    _device.for_tests, HostStreams.active = HostStreams, True
    try:
        yield
    finally:
        HostStreams.active = False
