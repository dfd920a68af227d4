# SPDX-License-Identifier: MIT
"""What a matmul loses beside a transfer, N GPUs: alone, beside copy-engine pushes to all peers, beside NCCL all-gather. usage: torchrun --nproc-per-node N overlap.py"""
import os, torch, torch.distributed as dist
import torch.distributed._symmetric_memory as sm
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # before torch 2.13
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank); dev = torch.device("cuda", rank)
dist.init_process_group("nccl", device_id=dev); g = dist.group.WORLD.group_name
for n in (4096, 8192):
    A = torch.randn(n, n, device=dev, dtype=torch.bfloat16); B = torch.randn(n, n, device=dev, dtype=torch.bfloat16); C = torch.empty_like(A)
    sz = 32 << 20
    S = sm.empty(world * sz, dtype=torch.bfloat16, device=dev); h = sm.rendezvous(S, g)
    peers = [h.get_buffer((rank + p) % world, (world * sz,), torch.bfloat16) for p in range(1, world)]
    mine = S[rank * sz:(rank + 1) * sz]; full = torch.empty(world * sz, dtype=torch.bfloat16, device=dev); part = torch.randn(sz, device=dev).to(torch.bfloat16)
    streams = [torch.cuda.Stream() for _ in peers]; reps = 40 if n == 4096 else 10
    def mm():
        for _ in range(reps): torch.mm(A, B, out=C)
    def t(side):
        out = []
        for r in range(6):
            dist.barrier(); torch.cuda.synchronize()
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            side(); a.record(); mm(); b.record(); torch.cuda.synchronize(); out.append(a.elapsed_time(b))
        v = torch.tensor(sorted(out[1:])[2], device=dev); dist.all_reduce(v, dist.ReduceOp.MAX); return v.item() / reps
    def ce():
        for s, p in zip(streams, peers):
            with torch.cuda.stream(s):
                for _ in range(60): p[rank * sz:(rank + 1) * sz].copy_(mine, non_blocking=True)
    def nccl():
        with torch.cuda.stream(streams[0]):
            for _ in range(25): all_gather_single(full, part)
    alone = t(lambda: None); c = t(ce); k = t(nccl)
    if rank == 0: print(f"matmul {n}: alone {alone:.3f} ms, beside copy engines {alone/c:.3f} of its speed, beside NCCL all-gather {alone/k:.3f}", flush=True)
dist.destroy_process_group()
