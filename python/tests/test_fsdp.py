# SPDX-License-Identifier: MIT
"""FSDP2 by custom all-gathers and reduce-scatters, under gloo and under isomer, beside gloo alone."""
import gc

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch._dynamo  # noqa: E402, F401 (here once, and not in each forked rank)
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

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


@pytest.mark.parametrize("size", (2, 3, 4))
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
