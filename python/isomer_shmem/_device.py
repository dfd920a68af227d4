# SPDX-License-Identifier: MIT
"""The streams of this PE's GPU, as the package uses them."""
from ctypes import byref, c_void_p

import torch

from . import _lib
from ._pairs import wait


class _Use:
    """torch.cuda.stream for streams of one device, which is the current one."""

    __slots__ = ("_stream", "_before")

    def __init__(self, stream):
        self._stream = stream

    def __enter__(self):
        self._before = torch._C._cuda_getCurrentStream(self._stream.device_index)
        torch.cuda.set_stream(self._stream)

    def __exit__(self, *error):
        number, device, kind = self._before
        torch._C._cuda_setStream(stream_id=number, device_index=device, device_type=kind)


class TorchStreams:
    """The streams of torch's GPU. Tests put the CPU device's streams in its place, by `for_tests`. What torch does for
    a look at the current stream takes longer than a call of the library, so known streams are found by their handles."""

    def __init__(self, device):
        self.device, self._known = device, {}  # by handle

    def takes(self, tensor):
        return tensor.is_cuda

    def check(self, name, tensor):
        if tensor.device != self.device:
            raise ValueError(f"isomer: {name}: the tensor is on {tensor.device}; this process uses {self.device}: call "
                             "torch.cuda.set_device before the first process group is made")

    def current(self):
        handle = torch._C._cuda_getCurrentRawStream(self.device.index)
        stream = self._known.get(handle)
        if stream is None:
            stream = self._known[handle] = torch.cuda.current_stream(self.device)
        return stream

    def new(self):
        return torch.cuda.Stream(self.device, priority=-1)

    def private(self):
        """One that torch gives to no one else, as it does with those that it makes: so memory that is allocated in it
        goes to no one else. Lives as long as the process."""
        number = c_void_p()
        _lib.check(_lib.load().shmemx_stream_create(byref(number)), "shmemx_stream_create")
        return torch.cuda.ExternalStream(number.value, self.device)

    def handle(self, stream):
        return stream.cuda_stream

    def use(self, stream):
        return _Use(stream) if torch.cuda.current_device() == self.device.index else torch.cuda.stream(stream)

    def event(self, stream):
        event = torch.cuda.Event()
        event.record(stream)
        return event

    def is_capturing(self):
        return torch.cuda.is_current_stream_capturing()

    def keep(self, tensor, stream):
        """The tensor's memory is not used again before what is in the stream now is done. Memory of empty() is freed
        behind all work of the device anyway, and torch knows nothing of it."""
        tensor.record_stream(stream)

    def keep_copy(self, tensor):
        """The same for a copy that this package has made: torch uses its memory again in the stream's order."""

    def settle(self):
        """torch's own operations come next; they are in the order of the current stream."""

    def devices(self):
        return [self.device]

    def synchronize(self):
        torch.cuda.synchronize(self.device)


for_tests = None  # a class in the place of TorchStreams


def streams_of(world):
    """The streams of the job's device, or None: it has CPU tensors alone."""
    if world.streams is None:
        if for_tests is not None:
            world.streams = for_tests(world)
        elif world.device != "cpu":
            world.streams = TorchStreams(torch.device("cuda", world.device_number))
    return world.streams


def synchronize(world, streams):
    """The host waits for the current stream, and learns of errors in it: of a dead rank also where the stream stands
    still. A driver may need seconds to end the process of that rank, and hold up this one's streams meanwhile."""
    stream = streams.current()
    event = streams.event(stream)
    wait(world.check_alive, event.query)
    world.check_stream(streams.handle(stream))
