# SPDX-License-Identifier: MIT
"""Training by torch's own wrappers beside gloo: DDP to the bit, FSDP2 within 1e-6."""
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch._dynamo  # noqa: E402, F401 (here once, and not in each forked rank)
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook  # noqa: E402
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

STEPS = 20


def stepped(shape):
    """A sharded network and its optimizer after some steps."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(33, 7), torch.nn.Linear(7, 33))
    names = ("replicate", "shard")[-len(shape):]
    fully_shard(model, mesh=init_device_mesh("cpu", shape, mesh_dim_names=names))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(3):
        model(torch.randn(8, 33, generator=torch.Generator().manual_seed(step))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def whole(model, optimizer):
    """All that a checkpoint has, unsharded."""
    parameters = list(model.parameters())
    moments = [optimizer.state[parameter][name] for parameter in parameters for name in ("exp_avg", "exp_avg_sq")]
    return [tensor.full_tensor().detach() for tensor in parameters + moments]


def save(folder, shape):
    model, optimizer = stepped(shape)
    names = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    dcp.save({**names, "step": 3, "note": f"rank {dist.get_rank()}"}, checkpoint_id=folder)
    waiting = dcp.async_save(names, checkpoint_id=folder + "/later", process_group=dist.new_group(backend="gloo"))
    waiting.result()
    return [tensor.tolist() for tensor in whole(model, optimizer)]


def load(folder, shape, saved):
    for which in (folder, folder + "/later"):
        model, optimizer = stepped(shape)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        model_state, optimizer_state = get_state_dict(model, optimizer)
        state = {"model": model_state, "optimizer": optimizer_state}
        if which == folder:
            state["step"] = 0
        dcp.load(state, checkpoint_id=which)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        assert state.get("step", 3) == 3
        assert [tensor.tolist() for tensor in whole(model, optimizer)] == saved


def test_checkpoints_are_saved_and_loaded_by_other_numbers_of_ranks(ranks, tmp_path):
    saved = ranks(3, save, str(tmp_path), (3,))
    ranks(2, load, str(tmp_path), (2,), saved[0])
    ranks(4, load, str(tmp_path), (2, 2), saved[0])


class Branches(torch.nn.Module):
    """Two linear maps; odd steps use one of them alone."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 8), torch.nn.Linear(16, 8)

    def forward(self, values, uses_both):
        result = self.first(values)
        return result + self.second(values) if uses_both else result


def whole_numbers(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randint(-2, 3, parameter.shape, generator=generator))


def batch(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randint(-3, 4, (4, 16), generator=generator).float()


def ddp(group, static, unused, hook):
    """Parameters after STEPS steps whose gradients are whole numbers: sums have no rounding in any order."""
    model = Branches()
    whole_numbers(model, 1)
    model = DistributedDataParallel(model, process_group=group, static_graph=static, find_unused_parameters=unused,
                                    bucket_cap_mb=0.0005)
    if hook:
        model.register_comm_hook(group, fp16_compress_hook)
    for step in range(STEPS):
        values, uses_both = batch(step, dist.get_rank()), not unused or step % 2 == 0
        if step % 5 == 4 and not static:
            with model.no_sync():
                model(values, uses_both).sum().backward()
        else:
            model(values, uses_both).sum().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter -= parameter.grad / 4
                        parameter.grad = None
    return [parameter.detach().clone() for parameter in model.parameters()]


def ddp_beside_gloo():
    gloo = dist.new_group(backend="gloo")
    for static, unused, hook in ((False, False, False), (True, False, False), (False, True, False),
                                 (False, False, True)):
        for mine, theirs in zip(ddp(dist.group.WORLD, static, unused, hook), ddp(gloo, static, unused, hook)):
            assert torch.equal(mine, theirs), (static, unused, hook)


@pytest.mark.parametrize("size", (2, 4))
def test_ddp_is_gloo_to_the_bit(ranks, size):
    ranks(size, ddp_beside_gloo)


def compiled_ddp():
    """torch.compile of the wrapped model: its own calls, which come from C++ in the middle of it, are not traced."""
    results = []
    for compiled in (False, True):
        torch.manual_seed(3)
        layers = [torch.nn.Linear(33, 33), torch.nn.GELU(), torch.nn.Linear(33, 7)]
        model = DistributedDataParallel(torch.nn.Sequential(*layers))
        called = torch.compile(model, backend="eager") if compiled else model
        for step in range(4):
            values = torch.randn(8, 33, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))
            called(values).square().mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= parameter.grad / 4
                    parameter.grad = None
        results.append([parameter.detach().clone() for parameter in model.parameters()])
    for eager, other in zip(*results):
        assert torch.equal(eager, other)


def test_a_compiled_ddp_model_is_the_eager_one(ranks):
    ranks(2, compiled_ddp)


def shard_and_train(shape, precision, reshards):
    """Losses of 10 steps of a sharded network."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(33, 33), torch.nn.GELU()) for _ in range(4)])
    names = ("replicate", "shard")[-len(shape):]
    options = {"mesh": init_device_mesh("cpu", shape, mesh_dim_names=names), "reshard_after_forward": reshards}
    if precision:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, **options)
    fully_shard(model, **options)
    model[0].set_modules_to_forward_prefetch([model[1], model[2]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(10):
        values = torch.randn(8, 33, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))
        loss = (model(values).float() - values).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    full = torch.cat([parameter.full_tensor().flatten() for parameter in model.parameters()])
    return torch.stack(losses), full.detach()


def fsdp(shape, precision, reshards):
    losses, parameters = shard_and_train(shape, precision, reshards)
    everyone = [torch.empty_like(parameters) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, parameters)
    assert all(torch.equal(parameters, other) for other in everyone)
    return losses.tolist()


CASES = {2: [((2,), False, True)], 3: [((3,), False, False)],
         4: [((4,), True, True), ((2, 2), False, True), ((2, 2), True, False)]}


def fsdp_cases(size):
    """One process does all cases of a size: its first use of fully_shard takes seconds."""
    return [fsdp(*case) for case in CASES[size]]


@pytest.mark.parametrize("size", (2, 3, 4))
def test_fsdp2_is_gloo_within_a_millionth(ranks, size):
    of_all, of_gloo = ranks(size, fsdp_cases, size), ranks(size, fsdp_cases, size, backend="gloo")
    for mine, theirs in zip(of_all, of_gloo):
        for (_, precision, _), losses, expected in zip(CASES[size], mine, theirs):
            within = 1e-6 if not precision else 1e-3
            torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=within, atol=within)
