# SPDX-License-Identifier: MIT
"""FSDP2 by parts: is each use of memory ordered by streams and events? The streams here only count: each has a clock of
what comes before its next work, an event is a copy of it, a wait takes it over. Work itself runs at once, so a missing
wait makes no wrong number; but a use that is not behind an earlier one of the same memory is found."""
import contextlib
import weakref

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch._dynamo  # noqa: E402, F401 (here once, and not in each forked rank)
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402

import host_streams  # noqa: E402
import isomer_shmem  # noqa: E402

LAYERS, STEPS, WIDTH = 5, 4, 40


class Stream:
    made = 0

    def __init__(self, priority=0):
        self.number, Stream.made = Stream.made, Stream.made + 1
        self.clock = {}

    def work(self):
        """One more piece of work: its time."""
        self.clock[self.number] = self.clock.get(self.number, 0) + 1
        return self.number, self.clock[self.number]

    def is_behind(self, time):
        return self.clock.get(time[0], 0) >= time[1]

    def wait_event(self, event):
        self.clock = {number: max(self.clock.get(number, 0), event.clock.get(number, 0))
                      for number in self.clock.keys() | event.clock.keys()}

    wait_stream = wait_event

    def record_event(self):
        return Event().record(self)


class Event:
    def record(self, stream=None):
        self.clock = dict((stream or Device.current_stream()).clock)
        return self

    def query(self):
        return False

    def synchronize(self):
        pass


class Device:
    """In the place of torch.cuda."""

    Stream, Event, current = Stream, Event, [Stream()]

    @staticmethod
    def current_stream(*_):
        return Device.current[-1]

    @staticmethod
    @contextlib.contextmanager
    def stream(stream):
        Device.current.append(stream)
        try:
            yield
        finally:
            Device.current.pop()


class Streams(host_streams.HostStreams):
    """All library calls are in one stream of the CPU device, and done when they return."""

    current, new, use = (staticmethod(call) for call in (Device.current_stream, Stream, Device.stream))
    private = new

    def handle(self, stream):
        return self._default.number.value

    def event(self, stream):
        return stream.record_event()

    def settle(self):
        assert self.world.lib.shmemx_stream_synchronize(self._default.number) == 0

    def keep(self, tensor, stream):
        pass

    synchronize = settle


class Uses:
    """Of parameters' memory, in the order of the host; what is found wrong; for each gather the layers that were
    enqueued behind what it waits for."""

    def __init__(self):
        self.all, self.wrong, self.lags, self.ends = [], [], [], []

    def note(self, first, end, writes, what):
        stream = Device.current_stream()
        for begin, last, wrote, time, before in self.all:
            if begin < end and first < last and (writes or wrote) and not stream.is_behind(time):
                self.wrong.append(f"{what} is not behind {before}")
        self.all = [*self.all[-400:], (first, end, writes, stream.work(), what)]

    def when_freed(self, tensor, stream, time, what):
        """Its memory is next used in the stream, which is behind that time then."""
        weakref.finalize(tensor, self.ends.append, (stream, time, what))

    def look_at_ends(self):
        self.wrong += [f"{what} is freed too early" for stream, time, what in self.ends if not stream.is_behind(time)]
        self.ends.clear()


uses = Uses()


class Computes(torch.autograd.Function):
    """Reads all parameters of a layer, in both directions."""

    @staticmethod
    def forward(context, values, layer):
        context.layer = layer
        layer.read("forward")
        return values.clone()

    @staticmethod
    def backward(context, gradients):
        context.layer.read("backward")
        return gradients, None


class Layer(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number, self.up = number, torch.nn.Linear(WIDTH, WIDTH + 3)
        self.down = torch.nn.Linear(WIDTH + 3, WIDTH, bias=False)

    def read(self, where):
        for name, parameter in self.named_parameters():
            first = parameter.data_ptr()
            uses.note(first, first + parameter.nbytes, False, f"{name} of layer {self.number} in {where}")

    def forward(self, values):
        return Computes.apply(values + self.down(torch.tanh(self.up(Computes.apply(values, self)))), self)


def watch(parts, stream):
    """Notes what the package's calls touch, and what torch frees behind them."""
    enqueue, call, gather, reduce = (stream.StreamCore.call, stream.StreamCore.parts, parts.gather, parts.reduce)
    compute, times = Device.current_stream(), []

    def call_and_settle(core, *arguments, **named):
        enqueue(core, *arguments, **named)
        core.settle()

    def noted(core, kind, moved, *arguments, **named):
        here, before = Device.current_stream(), compute.clock.get(compute.number, 0)
        call(core, kind, moved, *arguments, **named)
        uses.lags.append(before - here.clock.get(compute.number, 0))
        for size, dest in zip(moved._sizes, moved._dests or ()):
            if size:
                uses.note(dest, dest + core.n * size, True, "a gather")
        times.append(here.work())

    def gathered(params, group, async_op, copy_in_stream, *arguments):
        uses.look_at_ends()
        result = gather(params, group, async_op, copy_in_stream, *arguments)
        for source in result.all_gather_output:
            uses.when_freed(source, copy_in_stream, times[-1], "a source")
        return result

    def reduced(params, gradients, *arguments, **named):
        uses.look_at_ends()
        result = reduce(params, gradients, *arguments, **named)
        for gradient in result[0]:
            uses.when_freed(gradient, compute, times[-1], "a gradient")
        return result
    stream.StreamCore.call, stream.StreamCore.parts, parts.gather, parts.reduce = (call_and_settle, noted, gathered,
                                                                                   reduced)
    stream.StreamWork.wait = lambda work, timeout=None: Device.current_stream().wait_event(work._ended())


def train(way):
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives, _fsdp_param_group, _fsdp_state

    from isomer_shmem import _device, _parts, _stream
    _parts.PARTS_BYTES, _device.for_tests = 0, Streams
    for module in (_fsdp_collectives, _fsdp_param_group, _fsdp_state):
        module._get_device_handle = lambda kind: Device
    torch.accelerator.current_stream = Device.current_stream
    watch(_parts, _stream)
    if way == "no events":
        take = _parts.Room.take
        _parts.Room.take = lambda *arguments: (take(*arguments)[0], [])
    dist.init_process_group("isomer")
    with host_streams.on():
        model = torch.nn.Sequential(*map(Layer, range(LAYERS)))
        options = {"mesh": init_device_mesh("cpu", (2,)), "reshard_after_forward": way != "keeps",
                   "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
        for layer in model:
            fully_shard(layer, **options)
            layer._set_unshard_async_op(way == "async")
        fully_shard(model, **options)
        for index in range(3 if way == "ahead" else 0):
            model[index].set_modules_to_forward_prefetch([model[index + 1], model[index + 2]])
            model[index + 2].set_modules_to_backward_prefetch([model[index + 1], model[index]])
        installed = isomer_shmem.fsdp.install(model)
        for step in range(STEPS):
            for part in range(2 if way == "accumulates" else 1):
                model.set_requires_gradient_sync(part == 1 or way != "accumulates")
                model(torch.randn(3, WIDTH)).float().sum().backward()
            with torch.no_grad():
                uses.lags.clear()
                model(torch.randn(3, WIDTH))
        assert installed.stats()["by_parts"] > 2 * LAYERS * STEPS
        installed.remove()
    dist.destroy_process_group()
    return uses.wrong, uses.lags


@pytest.mark.parametrize("way", ("plain", "keeps", "ahead", "async", "accumulates", "no events"))
def test_uses_of_memory_are_ordered(ranks, way):
    for wrong, lags in ranks(2, train, way, backend=None):
        if way == "no events":  # are faults found?
            assert any("a gather is not behind" in what for what in wrong)
            continue
        assert wrong == []
        if way == "plain":  # the layer before a gather may still compute
            assert len(lags) == LAYERS and min(lags[1:]) > 0, lags
