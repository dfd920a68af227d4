# SPDX-License-Identifier: MIT
"""Tensor-parallel inference: each rank has a part of every matrix, and the parts meet in an all-reduce with the residual
and the norm behind it. The logits are compared with those of the whole network on one rank.

    ISOMER_LIB=build/lib/libisomer.so torchrun --nproc-per-node 2 examples/torch/tensor_parallel.py
"""
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import isomer_shmem

WIDTH, INNER, WORDS, LAYERS, TOKENS = 256, 1024, 512, 4, 32


def make_weights():
    """The same on all ranks; a real program reads its part from a file."""
    generator = torch.Generator().manual_seed(7)

    def matrix(rows, columns):
        return torch.randn(rows, columns, generator=generator) / columns ** 0.5
    layers = [{"up": matrix(INNER, WIDTH), "down": matrix(WIDTH, INNER), "norm": torch.ones(WIDTH)}
              for _ in range(LAYERS)]
    return {"words": matrix(WORDS, WIDTH), "layers": layers, "head": matrix(WORDS, WIDTH)}


def part_of(weights, rank, size):
    """Rows of `up` and the columns of `down` that belong to them: one all-reduce for a layer."""
    layers = [{"up": layer["up"].chunk(size, 0)[rank].contiguous(), "norm": layer["norm"],
               "down": layer["down"].chunk(size, 1)[rank].contiguous()} for layer in weights["layers"]]
    return {**weights, "layers": layers}


def forward(weights, tokens, add_and_norm):
    residual = weights["words"][tokens].clone()
    hidden = F.rms_norm(residual, (WIDTH,))
    for layer in weights["layers"]:
        partial = F.silu(hidden @ layer["up"].T) @ layer["down"].T
        hidden = add_and_norm(partial, residual, layer["norm"])
    return hidden @ weights["head"].T


def whole_add_and_norm(partial, residual, weight):
    residual += partial
    return F.rms_norm(residual, (WIDTH,), weight, 1e-6)


@torch.inference_mode()
def main():
    dist.init_process_group("isomer")
    rank, size = dist.get_rank(), dist.get_world_size()
    weights, tokens = make_weights(), torch.arange(TOKENS) * 11 % WORDS
    reduce = isomer_shmem.inference.AllReduce(None, "cpu", max_bytes=8 << 20)
    mine = part_of(weights, rank, size)
    logits = forward(mine, tokens, reduce.all_reduce_rms_norm)
    torch.testing.assert_close(logits, forward(weights, tokens, whole_add_and_norm), rtol=1e-4, atol=1e-4)
    everyone = [torch.empty_like(logits) for _ in range(size)]
    dist.all_gather(everyone, logits)
    assert all(torch.equal(logits, other) for other in everyone), "the ranks' bits differ"
    begin = time.perf_counter()
    for _ in range(20):
        forward(mine, tokens, reduce.all_reduce_rms_norm)
    if rank == 0:
        milliseconds = (time.perf_counter() - begin) / 20 * 1e3
        print(f"{size} ranks have the same logits; {milliseconds:.2f} ms for {TOKENS} tokens")
    reduce.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
