# SPDX-License-Identifier: MIT
"""A Triton kernel that exchanges halos: each rank has a part of a bar of metal, sends its first and last cell to its
neighbours from inside the kernel, waits for theirs and computes the next temperatures. The result is compared with that
of one rank. Without a GPU the kernel is compiled for NVIDIA and AMD and not run.

    ISOMER_LIB=build/lib/libisomer.so python examples/torch/triton_halo.py
    ISOMER_LIB=build-cuda/lib/libisomer.so torchrun --nproc-per-node 2 examples/torch/triton_halo.py
"""
import os

import torch
import triton
import triton.language as tl

import isomer_shmem
import isomer_shmem.triton as shmem

CELLS, STEPS = 1024, 100  # of one rank; a power of two, because one program has them all


@triton.jit
def heat(handle, cells, halos, flags, steps, left, right, CELLS: tl.constexpr):
    """cells: 2 copies of CELLS. halos: 2 copies of the left and the right neighbour's cell. flags: of each side."""
    i = tl.arange(0, CELLS)
    for step in range(steps):
        now = cells + step % 2 * CELLS
        halo = halos + step % 2 * 2
        shmem.put_signal(handle, halo + 1, now, 1, flags + 1, step + 1, left)  # what is first here is right there
        shmem.put_signal(handle, halo, now + CELLS - 1, 1, flags, step + 1, right)
        gave_up = shmem.signal_wait_until(handle, flags, shmem.GE, step + 1)
        gave_up += shmem.signal_wait_until(handle, flags + 1, shmem.GE, step + 1)
        if gave_up == 0:
            before = tl.load(tl.where(i == 0, halo, now + i - 1))
            behind = tl.load(tl.where(i == CELLS - 1, halo + 1, now + i + 1))
            tl.store(cells + (step + 1) % 2 * CELLS + i, (before + 2 * tl.load(now + i) + behind) / 4)


def reference(cells):
    """All steps of the whole bar, a ring, by torch."""
    for _ in range(STEPS):
        cells = (cells.roll(1) + 2 * cells + cells.roll(-1)) / 4
    return cells


def compile_only():
    from triton.backends.compiler import GPUTarget
    types = {"handle": "*i64", "cells": "*fp32", "halos": "*fp32", "flags": "*i64", "steps": "i32", "left": "i32",
             "right": "i32", "CELLS": "constexpr"}
    source = triton.compiler.ASTSource(heat, signature=types, constexprs={"CELLS": CELLS})
    for target, kind in ((GPUTarget("cuda", 90, 32), "cubin"), (GPUTarget("hip", "gfx942", 64), "hsaco")):
        made = triton.compile(source, target=target, options=shmem.options(target))
        print(f"compiled for {target.arch}: {len(made.asm[kind])} bytes")
    print("there is no GPU: the kernel was compiled and not run")


def run():
    import torch.distributed as dist
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())  # before the first group
    dist.init_process_group("isomer")
    rank, size = dist.get_rank(), dist.get_world_size()
    bar = torch.sin(torch.arange(size * CELLS, dtype=torch.float32)).cuda()
    cells = isomer_shmem.zeros(2 * CELLS, device="cuda")
    halos = isomer_shmem.zeros(4, device="cuda")
    flags = isomer_shmem.zeros(2, dtype=torch.int64, device="cuda")
    cells[:CELLS] = bar[rank * CELLS:(rank + 1) * CELLS]
    heat[(1,)](shmem.handle(), cells, halos, flags, STEPS, (rank - 1) % size, (rank + 1) % size, CELLS, num_warps=8,
               **shmem.options())
    mine = cells[STEPS % 2 * CELLS:][:CELLS]
    torch.testing.assert_close(mine, reference(bar)[rank * CELLS:(rank + 1) * CELLS])
    if rank == 0:
        print(f"{STEPS} steps of {size} x {CELLS} cells: as on one rank")
    isomer_shmem.free(cells, halos, flags)
    dist.destroy_process_group()


if __name__ == "__main__":
    run() if torch.cuda.is_available() else compile_only()
