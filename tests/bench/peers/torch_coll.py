# SPDX-License-Identifier: MIT
"""Peer baselines on N GPUs of one host: NCCL, NCCL with symmetric windows, torch symmetric memory.

usage: torchrun --nproc-per-node N torch_coll.py OUT.csv [most bytes]
prints: system,collective,dtype,bytes,us   (bytes = per-rank message: allreduce in==out, allgather/rs = full output/input)
"""
import csv, os, sys, time
import torch, torch.distributed as dist
import torch.distributed._symmetric_memory as sm
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # before torch 2.13
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

if os.environ["RANK"] == "0": open(sys.argv[1], "w").close()
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
dev = torch.device("cuda", rank)
dist.init_process_group("nccl", device_id=dev)
gname = dist.group.WORLD.group_name
rows = []

def timed(fn, iters):
    """median us over graph replays, max over ranks"""
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(5): fn()
    torch.cuda.current_stream().wait_stream(s)
    torch.cuda.synchronize(); dist.barrier()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(iters): fn()
    g.replay(); torch.cuda.synchronize(); dist.barrier()
    ts = []
    for _ in range(11):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        dist.barrier(); torch.cuda.synchronize()
        a.record(); g.replay(); b.record(); torch.cuda.synchronize()
        ts.append(a.elapsed_time(b) * 1e3 / iters)
    t = torch.tensor(sorted(ts)[len(ts)//2], device=dev)
    dist.all_reduce(t, dist.ReduceOp.MAX)
    del g
    return t.item()

def add(system, coll, nbytes, fn):
    iters = 50 if nbytes <= (4 << 20) else 10
    try:
        us = timed(fn, iters)
    except Exception as e:
        if rank == 0: print("SKIP", system, coll, nbytes, repr(e)[:160], flush=True)
        return
    rows.append((system, coll, "bf16", nbytes, round(us, 2)))
    if rank == 0:
        print(*rows[-1], sep=",", flush=True)
        with open(sys.argv[1], "a") as f: csv.writer(f).writerow(rows[-1])

sizes = [1 << 10, 8 << 10, 64 << 10, 256 << 10] + [r * 8192 * 2 for r in (32, 64, 128, 256, 1024, 2048, 4096, 16384)]
if len(sys.argv) > 2: sizes = [s for s in sizes if s <= int(sys.argv[2])]
biggest = max(sizes)
pool = None
try:
    backend = dist.group.WORLD._get_backend(dev)
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        wbuf = torch.empty(biggest // 2, dtype=torch.bfloat16, device=dev)
        wbuf2 = torch.empty(biggest // 2, dtype=torch.bfloat16, device=dev)
    backend.register_mem_pool(pool, symm=True)
except Exception as e:
    pool = None
    if rank == 0: print("no nccl symm:", repr(e)[:200], flush=True)

plain = torch.randn(biggest // 2 + world, device=dev).to(torch.bfloat16)
out = torch.empty(biggest // 2 + world, dtype=torch.bfloat16, device=dev)
sbuf = sm.empty(biggest // 2, dtype=torch.bfloat16, device=dev); sm.rendezvous(sbuf, gname)
sbuf.normal_()
for nb in sizes:
    n = nb // 2; per = n // world
    add("nccl", "allreduce", nb, lambda: dist.all_reduce(plain[:n]))
    if pool: add("nccl_symm", "allreduce", nb, lambda: dist.all_reduce(wbuf[:n]))
    add("torch_symm_one_shot", "allreduce", nb, lambda: torch.ops.symm_mem.one_shot_all_reduce(sbuf[:n], "sum", gname))
    add("torch_symm_two_shot", "allreduce", nb, lambda: torch.ops.symm_mem.two_shot_all_reduce_(sbuf[:n], "sum", gname))
    add("nccl", "allgather", nb, lambda: all_gather_single(out[:per*world], plain[:per]))
    if pool: add("nccl_symm", "allgather", nb, lambda: all_gather_single(wbuf2[:per*world], wbuf[:per]))
    add("nccl", "reducescatter", nb, lambda: reduce_scatter_single(out[:per], plain[:per*world]))
    if pool: add("nccl_symm", "reducescatter", nb, lambda: reduce_scatter_single(wbuf2[:per], wbuf[:per*world]))
    add("nccl", "alltoall", nb, lambda: dist.all_to_all_single(out[:per*world], plain[:per*world]))
    add("nccl", "broadcast", nb, lambda: dist.broadcast(plain[:n], 0))
    # Other operators, blocks of an element more: at the sizes of coll.c.
    if nb not in (1 << 16, 1 << 20, 1 << 21) and nb < 1 << 24: continue
    for op in ("max", "min", "prod"):
        by = getattr(dist.ReduceOp, {"prod": "PRODUCT"}.get(op, op.upper()))
        add("nccl", "allreduce_" + op, nb, lambda: dist.all_reduce(plain[:n], by))
        if op != "min": add("nccl", "reducescatter_" + op, nb, lambda: reduce_scatter_single(out[:per], plain[:per*world], by))
    odd = per + 1
    add("nccl", "allgather_odd", nb, lambda: all_gather_single(out[:odd*world], plain[:odd]))
    add("nccl", "alltoall_odd", nb, lambda: dist.all_to_all_single(out[:odd*world], plain[:odd*world]))
    add("nccl", "reducescatter_odd", nb, lambda: reduce_scatter_single(out[:odd], plain[:odd*world]))
    add("nccl", "broadcast_odd", nb, lambda: dist.broadcast(plain[:n + 1], 0))
h = sm.rendezvous(sbuf, gname)
add("torch_symm", "barrier", 0, lambda: h.barrier(channel=0))
# all-gather + matmul (tensor-parallel column linear): C = allgather(A) @ B, TFLOP/s per GPU
def agmm(M, K, N):
    A = sm.empty((M // world, K), dtype=torch.bfloat16, device=dev); sm.rendezvous(A, gname)
    A.copy_(torch.randn_like(A)); B = torch.randn(K, N, device=dev, dtype=torch.bfloat16)
    full = torch.empty((M, K), dtype=torch.bfloat16, device=dev); C = torch.empty((M, N), dtype=torch.bfloat16, device=dev)
    def serial():
        all_gather_single(full, A); torch.mm(full, B, out=C)
    def bench(fn, n=10):
        for _ in range(4): fn()
        ts = []
        for _ in range(7):
            dist.barrier(); torch.cuda.synchronize()
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            for _ in range(n): fn()
            b.record(); torch.cuda.synchronize(); ts.append(a.elapsed_time(b) / n)
        t = torch.tensor(sorted(ts)[3], device=dev); dist.all_reduce(t, dist.ReduceOp.MAX); return t.item()
    for name, fn in (("matmul_only", lambda: torch.mm(full, B, out=C)), ("nccl_then_mm", serial),
                     ("torch_async_tp", lambda: torch.ops.symm_mem.fused_all_gather_matmul(A, [B], 0, gname))):
        try:
            ms = bench(fn)
            if rank == 0: print(f"{name},ag_gemm,bf16,{M}x{K}x{N},{ms:.3f} ms,{2*M*K*N/ms/1e9:.0f} TFLOP/s", flush=True)
        except Exception as e:
            if rank == 0: print("SKIP", name, repr(e)[:200], flush=True)
for shape in ((32768, 16384, 8192), (8192, 8192, 8192), (4096, 8192, 4096)): agmm(*shape)
# physical limits: copy engine between two GPUs, both directions alone
if rank == 0 and world > 1:
    a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:0"); b = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:1")
    for _ in range(3): b.copy_(a)
    torch.cuda.synchronize()
    t = time.perf_counter()
    for _ in range(10): b.copy_(a, non_blocking=True)
    torch.cuda.synchronize()
    print("limit,copy_engine_p2p_GBps,,,%.1f" % (10 * 1.0737 / (time.perf_counter() - t)), flush=True)
dist.barrier()
dist.destroy_process_group()
