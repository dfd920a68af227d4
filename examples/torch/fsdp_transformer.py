# SPDX-License-Identifier: MIT
"""Trains a small transformer, sharded by FSDP2, to repeat what it has read. Its all-gathers run in place in memory that
all ranks reach, its gradients are averaged by Isomer.

    ISOMER_LIB=build/lib/libisomer.so torchrun --nproc-per-node 2 examples/torch/fsdp_transformer.py
"""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import isomer_shmem  # registers the backend

WORDS, WIDTH, LENGTH, STEPS = 32, 64, 16, 40


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(3)])
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(LENGTH))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def batch(step, rank):
    """Half a line of random words, then the same again; every rank has lines of its own."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    half = torch.randint(0, WORDS, (16, LENGTH // 2), generator=generator)
    return torch.cat([half, half], dim=1)


def main():
    dist.init_process_group("isomer")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model, mesh = Transformer(), init_device_mesh("cpu", (size,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    installed = isomer_shmem.fsdp.install(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        tokens = batch(step, rank)
        logits = model(tokens)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if step == 0:
            first = mean.item()
        if rank == 0 and step % 10 == 9:
            print(f"step {step + 1}: loss {mean.item():.3f}", flush=True)
    assert mean.item() < 0.95 * first, "it has learnt nothing"
    if rank == 0:
        stats = installed.stats()
        print(f"{stats['all_gathers']} all-gathers, {stats['all_gather_bytes'] >> 20} MiB, in {stats['buffers']} buffers")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
