# SPDX-License-Identifier: MIT
"""Data-parallel training with a sharded optimizer, as ZeRO does it: each rank has the moments of its part of the
parameters alone. A step reduces and scatters the gradients, updates the own part, and gathers the parameters in place.
The result is compared with training whose ranks hold everything.

    ISOMER_LIB=build/lib/libisomer.so torchrun --nproc-per-node 2 examples/torch/zero_optimizer.py
"""
import torch
import torch.distributed as dist
from torch import nn

import isomer_shmem  # noqa: F401 (registers the backend)

all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # before torch 2.13
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

STEPS, BATCH, WIDTH = 20, 16, 33


def make_model():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(BATCH, WIDTH, generator=generator)


class ShardedAdamW:
    """All parameters are views of one array, all gradients of another. Both are as long as `size` equal parts."""

    def __init__(self, model, **options):
        self.size, rank = dist.get_world_size(), dist.get_rank()
        parameters = list(model.parameters())
        part = -(-sum(parameter.numel() for parameter in parameters) // self.size)
        self.values, self.gradients = torch.zeros(self.size * part), torch.zeros(self.size * part)
        at = 0
        for parameter in parameters:
            here = slice(at, at + parameter.numel())
            self.values[here] = parameter.detach().flatten()
            parameter.data = self.values[here].view(parameter.shape)
            parameter.grad = self.gradients[here].view(parameter.shape)
            at += parameter.numel()
        self.mine = nn.Parameter(self.values[rank * part:(rank + 1) * part])  # memory of the whole array
        self.mine.grad = self.gradients[rank * part:(rank + 1) * part]
        self.optimizer = torch.optim.AdamW([self.mine], **options)

    def step(self):
        reduce_scatter_single(self.mine.grad, self.gradients, dist.ReduceOp.AVG)  # in place
        self.optimizer.step()
        all_gather_single(self.values, self.mine.detach())  # in place
        self.gradients.zero_()

    def moments(self):
        state = self.optimizer.state[self.mine]
        return state["exp_avg"].numel() + state["exp_avg_sq"].numel()


def train_sharded():
    model = make_model()
    optimizer = ShardedAdamW(model, lr=1e-2)
    for step in range(STEPS):
        values = batch(step, dist.get_rank())
        (model(values) - values).square().mean().backward()
        optimizer.step()
    return optimizer.values, optimizer.moments()


def train_whole():
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(STEPS):
        values = batch(step, dist.get_rank())
        (model(values) - values).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def main():
    dist.init_process_group("isomer")
    (values, moments), expected = train_sharded(), train_whole()
    torch.testing.assert_close(values[:expected.numel()], expected, rtol=1e-5, atol=1e-6)
    if dist.get_rank() == 0:
        print(f"the same parameters after {STEPS} steps; {moments} of {2 * expected.numel()} moments on this rank")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
