# SPDX-License-Identifier: MIT
"""A collective of NCCL beside a matrix product, as ../overlap.c measures ours, in lines like those.
usage: torchrun --nproc-per-node N overlap.py [n of n x n x n [products of a sample [bytes of the larger buffer [kind]]]]"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

TURNS = 5
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
n, products, nbytes = (int(value) for value in (sys.argv[1:4] + ["4096", "20", str(384 << 20)][len(sys.argv) - 1:]))
only = sys.argv[4] if len(sys.argv) > 4 else None
on_gpu = torch.cuda.is_available()
device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
if on_gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if on_gpu else "gloo")
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # before torch 2.13
reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
elems = nbytes // 2 // world // 8 * 8 * world
whole, other = (torch.zeros(elems, dtype=torch.bfloat16, device=device) for _ in range(2))
part = torch.zeros(elems // world, dtype=torch.bfloat16, device=device)
a, b = (torch.randn(n, n, device=device).to(torch.bfloat16) for _ in range(2))
c = torch.empty_like(a)
moves = torch.cuda.Stream() if on_gpu else None
calls = {"fcollect": lambda: all_gather(whole, part), "reducescatter": lambda: reduce_scatter(part, whole),
         "allreduce": lambda: dist.all_reduce(whole), "alltoall": lambda: dist.all_to_all_single(other, whole),
         "broadcast": lambda: dist.broadcast(whole, 0)}


def slowest(value):
    value = torch.tensor([value], device=device)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return value.item()


def sample(call, times, some, timed):
    """us of one of the calls, or of one of some products. The others are under way."""
    dist.barrier()
    if on_gpu:
        torch.cuda.synchronize()
    begin, us = time.perf_counter(), 0
    with torch.cuda.stream(moves):
        for _ in range(times):
            call()
    for _ in range(some):
        torch.mm(a, b, out=c)
    if timed == "calls":
        if on_gpu:
            moves.synchronize()
        us = (time.perf_counter() - begin) / times * 1e6
    if on_gpu:
        torch.cuda.current_stream().synchronize()
    if timed == "products":
        us = (time.perf_counter() - begin) / some * 1e6
    if on_gpu:
        torch.cuda.synchronize()
    return slowest(us)


sample(None, 0, 1, "products")
product = sample(None, 0, products, "products")
for kind, call in calls.items():
    if only not in (None, kind):
        continue
    sample(call, 1, 0, "calls")
    one = sample(call, 2, 0, "calls")
    times, lasting = 2 + int(product * products / one), 2 + int(3 * product * products / one)
    turns = [(sample(call, times, 0, "calls"), sample(call, 0, products, "products"),
              sample(call, times, 3 * products, "calls"), sample(call, lasting, products, "products"))
             for _ in range(TURNS)]
    alone, mine, beside, theirs = (statistics.median(turn) for turn in zip(*turns))
    if rank == 0:
        print(f"{dist.get_backend()},{kind},plain,{2 * elems},{n},{alone:.1f},{beside:.1f},{mine / theirs:.3f},"
              f"{beside * (1 - mine / theirs):.1f}", flush=True)
dist.destroy_process_group()
