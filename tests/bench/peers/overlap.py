# SPDX-License-Identifier: MIT
"""A collective of NCCL beside a matrix product, as ../overlap.c measures ours, in lines like those.
usage: torchrun --nproc-per-node N overlap.py [n of n x n x n [products of a sample [bytes of the larger buffer [kind]]]]"""
import contextlib
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


def begin_work(call, work, times):
    with torch.cuda.stream(moves) if work == "calls" else contextlib.nullcontext():
        for _ in range(times):
            call() if work == "calls" else torch.mm(a, b, out=c)


def sample(call, work, times, others):
    """us of one of the calls, or of the products, while some of the other ones are under way."""
    dist.barrier()
    if on_gpu:
        torch.cuda.synchronize()
    begin_work(call, "products" if work == "calls" else "calls", others)
    begin = time.perf_counter()
    begin_work(call, work, times)
    if on_gpu:
        (moves if work == "calls" else torch.cuda.current_stream()).synchronize()
    us = (time.perf_counter() - begin) / times * 1e6
    if on_gpu:
        torch.cuda.synchronize()
    return slowest(us)


sample(None, "products", 1, 0)
product = sample(None, "products", products, 0)
for kind, call in calls.items():
    if only not in (None, kind):
        continue
    sample(call, "calls", 1, 0)
    one = sample(call, "calls", 2, 0)
    times, lasting = 2 + int(product * products / one), 2 + int(3 * product * products / one)
    turns = [(sample(call, "calls", times, 0), sample(call, "products", products, 0),
              sample(call, "calls", times, 3 * products), sample(call, "products", products, lasting))
             for _ in range(TURNS)]
    alone, mine, beside, theirs = (statistics.median(turn) for turn in zip(*turns))
    if rank == 0:
        print(f"{dist.get_backend()},{kind},plain,{2 * elems},{n},{alone:.1f},{beside:.1f},{mine / theirs:.3f},"
              f"{beside * (1 - mine / theirs):.1f}", flush=True)
dist.destroy_process_group()
