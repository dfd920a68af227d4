# SPDX-License-Identifier: MIT
"""FSDP2 by custom all-gathers and reduce-scatters, under gloo and under isomer, beside gloo alone; and by parts that lie
where torch has them, on streams of the CPU device, beside isomer alone."""
import contextlib
import gc
import math
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch._dynamo  # noqa: E402, F401 (here once, and not in each forked rank)
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.distributed.tensor import Shard  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

import host_streams  # noqa: E402
import isomer_shmem  # noqa: E402

STEPS = 6


def sharded(shape, precision, reshards):
    torch.manual_seed(3)
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(33, 33), torch.nn.GELU()) for _ in range(5)])
    options = {"mesh": init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape):]),
               "reshard_after_forward": reshards}
    if precision:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, **options)
    fully_shard(model, **options)
    for index in range(3):  # two all-gathers ahead
        model[index].set_modules_to_forward_prefetch([model[index + 1], model[index + 2]])
        model[index + 2].set_modules_to_backward_prefetch([model[index + 1], model[index]])
    return model


def train(model, steps, which=None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    which, losses = dist.get_rank() if which is None else which, []
    for step in range(steps):
        values = torch.randn(8, 33, generator=torch.Generator().manual_seed(10 * step + which))
        loss = (model(values).float() - values).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def plain(shape, precision, reshards, factor=None):
    model = sharded(shape, precision, reshards)
    if factor:
        model[0].set_gradient_divide_factor(factor)
        model[0].set_force_sum_reduction_for_comms(True)  # gloo has no PREMUL_SUM, so torch divides
    return train(model, STEPS)


def installed(shape, precision, reshards, factor=None):
    model = sharded(shape, precision, reshards)
    if factor:
        model[0].set_gradient_divide_factor(factor)
    handle = isomer_shmem.fsdp.install(model)
    losses = train(model, STEPS)
    stats = handle.stats()
    assert stats["all_gathers"] >= STEPS * 5 and stats["reduce_scatters"] == STEPS * 5, stats
    assert stats["most_busy"] >= 3, stats
    if reshards:
        assert stats["buffers"] <= 16, stats  # they are used again
    full = torch.cat([parameter.full_tensor().flatten() for parameter in model.parameters()])
    everyone = [torch.empty_like(full) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, full.detach())
    assert all(torch.equal(full, other) for other in everyone)
    handle.remove()
    train(model, 1)
    assert handle.stats()["all_gathers"] == stats["all_gathers"]
    del model, full, everyone
    gc.collect()
    return losses


CASES = {2: [((2,), False, True), ((2,), True, False)],
         3: [((3,), False, False)],
         4: [((2, 2), False, True), ((2, 2), True, False)]}


def of_all_cases(size, trains):
    """One process does all cases of a size: its first use of fully_shard takes seconds."""
    return [[function(*case) for case in CASES[size]] for function in trains]


def compare(size, mine, theirs):
    """Of each rank, losses by case."""
    for index, (_, precision, _) in enumerate(CASES[size]):
        within = 1e-6 if not precision else 1e-3  # of bfloat16, whose roundings follow the last bits of the sums
        for member in range(size):
            torch.testing.assert_close(torch.tensor(mine[member][index]), torch.tensor(theirs[member][index]),
                                       rtol=within, atol=within)


@pytest.mark.parametrize("size", (2, pytest.param(3, marks=pytest.mark.long), 4))
def test_losses_are_those_of_gloo(ranks, size):
    trains = (plain, installed) + ((tensor_parallel, tensor_parallel_installed) if size == 4 else ())
    of_gloo = list(zip(*ranks(size, of_all_cases, size, trains, backend="gloo")))
    of_isomer = list(zip(*ranks(size, of_all_cases, size, trains)))
    for reference, same in ((0, (0, 1)), (2, (2, 3)))[:len(trains) // 2]:
        for which in same:
            compare(size, of_gloo[which], of_gloo[reference])
            compare(size, of_isomer[which], of_gloo[reference])


def with_tensor_parallel(shape, precision, reshards, installs):
    """Losses of a network whose layers are cut in two by tensor parallelism, and sharded in two beside it."""
    torch.manual_seed(3)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("shard", "tensor"))
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(33, 66), torch.nn.GELU(), torch.nn.Linear(66, 33))
                                  for _ in range(3)])
    options = {"mesh": mesh["shard"], "reshard_after_forward": reshards}
    if precision:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        parallelize_module(layer, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(layer, **options)
    fully_shard(model, **options)
    handle = isomer_shmem.fsdp.install(model) if installs else None
    losses = train(model, STEPS, mesh["shard"].get_local_rank())
    assert handle is None or handle.stats()["all_gathers"] >= STEPS * 3
    return losses


def tensor_parallel(shape, precision, reshards):
    return with_tensor_parallel(shape, precision, reshards, False)


def tensor_parallel_installed(shape, precision, reshards):
    return with_tensor_parallel(shape, precision, reshards, True)


def test_a_factor_of_the_gradients(ranks):
    mine = torch.tensor(ranks(2, installed, (2,), False, True, 4.0, backend="isomer"))
    theirs = torch.tensor(ranks(2, plain, (2,), False, True, 4.0, backend="gloo"))
    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


def buffers():
    from isomer_shmem.pg import group_of
    from isomer_shmem.pool import pool_of
    pool = pool_of(group_of(None).lease.world)
    held = [pool.take((1000,), torch.float32) for _ in range(5)]
    for index, tensor in enumerate(held):
        tensor.fill_(index)
    assert [tensor[999].item() for tensor in held] == list(range(5)) and pool.busy == 5
    view = held[2][5:7]
    addresses = {tensor.data_ptr() for tensor in held}
    del held, tensor
    again = [pool.take((999,), torch.float32) for _ in range(4)]
    assert {each.data_ptr() for each in again} == addresses - {view.data_ptr() - 20}  # a view keeps its buffer
    assert pool.buffers == 5 and pool.busy == 5
    del again, view
    pool.trim()
    assert pool.buffers == 0 and pool.nbytes == 0 and pool.busy == 0
    assert pool.take((0,), torch.float32).numel() == 0
    with pytest.raises(ValueError, match="no parameters"):
        isomer_shmem.fsdp.install(torch.nn.Linear(2, 2))


def test_buffers_are_used_again_and_never_too_early(ranks):
    ranks(2, buffers)


# ---- parts that lie where torch has them ----

class Odd(torch.nn.Module):
    """Sizes that no number of ranks divides, fewer rows than ranks, a frozen parameter, one without a gradient, one that
    two modules have."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(33, 170), torch.nn.Linear(170, 33, bias=False)
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.cube = torch.nn.Parameter(torch.randn(5, 3, 2))
        self.frozen = torch.nn.Parameter(torch.randn(7, 170), requires_grad=False)
        self.unused = torch.nn.Parameter(torch.randn(3))
        self.same = self.first

    def forward(self, values):
        middle = self.first(values) * self.scale + self.frozen.mean() + self.cube.sum()
        return values + self.last(torch.nn.functional.gelu(middle)) + self.same(values).mean()


def odd(shape, changes, **options):
    torch.manual_seed(3)
    model = torch.nn.Sequential(Odd(), torch.nn.Linear(33, 33), Odd(), torch.nn.Linear(33, 33, bias=False))
    for parameter in model[1].parameters():
        parameter.requires_grad_(changes != "frozen")
    options["mesh"] = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape):])
    if changes == "dim1":  # of some parameters: their group goes with torch's copies
        options["shard_placement_fn"] = lambda parameter: Shard(1) if parameter.shape == (33, 48) else None
        model[1] = torch.nn.Sequential(torch.nn.Linear(33, 48), torch.nn.GELU(), torch.nn.Linear(48, 33))
    if changes == "groups":
        fully_shard([model[0], model[1]], **options)
    for layer in model[1 if changes == "groups" else 0:]:
        if layer is not model[1] or changes != "groups":
            fully_shard(layer, **options)
    fully_shard(model, **options)
    if changes == "ahead":
        model[0].set_modules_to_forward_prefetch([model[1], model[2]])
        model[3].set_modules_to_backward_prefetch([model[2], model[1]])
    if changes == "async":
        for layer in model:
            layer._set_unshard_async_op(True)
    return model


BF16, FLOAT = (torch.bfloat16, torch.float32), (None, None)
ODD = [(BF16, "", True), (FLOAT, "accumulates", True), (BF16, "accumulates", False),
       ((torch.bfloat16, None), "frozen", 2), ((None, torch.bfloat16), "groups", True),
       ((torch.float16, torch.float32), "dim1", True), (BF16, "ahead", True),
       (BF16, "async", False), (FLOAT, "unshards", True)]
ODD_OF = {(2,): [case for case in ODD if case[2] in (True, False)], (3,): ODD[:3], (4,): ODD[3:4], (2, 2): ODD[:3]}


def train_odd(shape, precision, changes, reshards, by_parts):
    """Losses, and all parameters at the end."""
    model = odd(shape, changes, reshard_after_forward=reshards,
                mp_policy=MixedPrecisionPolicy(param_dtype=precision[0], reduce_dtype=precision[1]))
    handle = isomer_shmem.fsdp.install(model) if by_parts else None
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    losses = []
    for step in range(4):
        if changes == "unshards":
            model[2].unshard()
        for part in range(2 if changes == "accumulates" else 1):
            model.set_requires_gradient_sync(part == 1 or changes != "accumulates")
            seed = 10 * step + dist.get_rank() + 100 * part
            values = torch.randn(8, 33, generator=torch.Generator().manual_seed(seed))
            loss = (model(values).float() - values).square().mean()
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
        if step == 2 and handle is not None:  # one more step goes with torch's copies
            stats = handle.stats()
            assert stats["by_parts"] > 4 * (step + 1), stats
            handle.remove()
    return losses, [parameter.full_tensor().flatten().tolist() for parameter in model.parameters()]


def train_all_odd(shape, by_parts):
    from isomer_shmem import _device, _parts, _stream
    _parts.PARTS_BYTES, _device.for_tests = 0, host_streams.HostStreams
    _stream.PARTS_STAGE_BYTES = 4096 * math.prod(shape)  # calls are of pieces
    enqueue = _stream.StreamCore.call

    def call(core, *arguments, **named):  # torch's operations on the CPU are in no stream
        enqueue(core, *arguments, **named)
        core.settle()
    _stream.StreamCore.call = call
    dist.init_process_group("isomer")
    isomer_shmem.prepare()
    with host_streams.on() if by_parts else contextlib.nullcontext():
        result = [train_odd(shape, *case, by_parts) for case in ODD_OF[shape]]
    dist.destroy_process_group()
    return result


def another_torch():
    """Its private parts are others: one warning, and the same losses by torch's copies."""
    from isomer_shmem import _device, _parts
    _device.for_tests = host_streams.HostStreams
    dist.init_process_group("isomer")
    _parts._TORCHS["foreach_all_gather_copy_out"] = lambda result, params: None
    theirs = _parts._fsdp_param_group.foreach_reduce
    isomer_shmem.prepare()
    with host_streams.on():
        for times in (1, 0):
            model = odd((2,), "", mp_policy=MixedPrecisionPolicy(*BF16))
            with pytest.warns(UserWarning, match="has another foreach_all_gather_copy_out") if times else (
                    warnings.catch_warnings(action="error")):
                handle = isomer_shmem.fsdp.install(model)
            assert _parts._fsdp_param_group.foreach_reduce is theirs and handle.stats()["by_parts"] == 0
            handle.remove()
    dist.destroy_process_group()


def test_another_torch_is_a_warning(ranks):
    ranks(2, another_torch, backend=None)


class Clock:
    """Streams whose events are done when the test says so."""

    def __init__(self):
        self.done, self.made = set(), 0

    def new(self):
        return None

    current = private = new

    def use(self, stream):
        return contextlib.nullcontext()

    def event(self, stream):
        self.made += 1
        return type("Event", (), {"number": self.made, "query": lambda event: event.number in self.done})()


def test_memory_is_written_behind_its_last_use():
    from isomer_shmem._parts import Room
    clock = Clock()
    room, large = Room(clock), 1 << 20
    groups = [[torch.empty(large), torch.empty(large // 2)] for _ in range(4)]
    for group in groups:
        for tensor in group:
            tensor.untyped_storage().resize_(0)

    def take(index, newest_too=False):
        return [event.number for event in room.take(lambda: groups[index], newest_too)[1]]

    def size(index):
        return sum(tensor.untyped_storage().size() for tensor in groups[index])
    assert take(0) == [] and size(0) == 6 * large
    room.let(groups[0])
    assert take(1) == [] and size(0) > 0  # the newest keeps its memory
    room.let(groups[1])
    assert size(0) == 0 and size(1) > 0
    for number, first, end in [(event.number, first, end) for first, end, event in room._freed]:
        assert number == 1 and end - first in (4 * large, 2 * large)
    again = take(1)  # let go and not freed: behind its own last use
    assert again[0] == 2 and size(1) > 0
    place = groups[1][0].data_ptr()
    room.let(groups[1])
    assert 3 in take(2, newest_too=True) or groups[2][0].data_ptr() not in range(place, place + 4 * large)
    clock.done.update((1, 2, 3))
    assert take(3) == [] and room._freed == []
    room.let(groups[2])
    room.free_all()
    assert size(2) == 0


@pytest.mark.parametrize("shape", ODD_OF, ids=str)
def test_parts_have_the_bits_of_copies(ranks, shape):
    size = math.prod(shape)
    expected = ranks(size, train_all_odd, shape, False, backend=None)
    got = ranks(size, train_all_odd, shape, True, backend=None)
    assert got == expected
