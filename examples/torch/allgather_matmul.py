# SPDX-License-Identifier: MIT
"""An all-gather under the matrix products that use it: each rank has some rows of X, and all want X @ W. A rank puts
its rows into the others' memory, piece by piece, each with a signal. It multiplies its own rows at once, and each other
piece when its signal has come. The result is compared with an all-gather and one product behind it.

    ISOMER_LIB=build/lib/libisomer.so torchrun --nproc-per-node 2 examples/torch/allgather_matmul.py
"""
import time

import torch
import torch.distributed as dist

import isomer_shmem as iso

all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # before torch 2.13

ROWS, INNER, COLUMNS, PIECES, STEPS = 96, 128, 64, 3, 5


class AllGatherMatmul:
    """Collective over the default group. Calls have two banks of memory in turn: a rank that has the signals of a call
    knows that the others have done with the call before the last."""

    def __init__(self, rows, inner):
        self.rank, self.size, self.calls = dist.get_rank(), dist.get_world_size(), 0
        self.piece = rows // PIECES
        self.banks = [iso.zeros(self.size, PIECES, self.piece, inner) for _ in range(2)]
        self.signals = iso.zeros(self.size, PIECES, dtype=torch.int64)

    def __call__(self, mine, weight):
        self.calls += 1
        bank, pieces = self.banks[self.calls % 2], mine.view(PIECES, self.piece, -1)
        result = torch.empty(self.size, PIECES, self.piece, weight.shape[1])
        others = [(self.rank + step) % self.size for step in range(1, self.size)]
        for index in range(PIECES):
            for other in others:
                iso.put_signal(bank[self.rank, index], pieces[index], self.signals[self.rank, index], self.calls, other)
        torch.matmul(pieces, weight, out=result[self.rank])
        for index in range(PIECES):
            for other in reversed(others):  # the first that this rank is a target of
                iso.wait(self.signals[other, index], self.calls)
                torch.matmul(bank[other, index], weight, out=result[other, index])
        return result.view(self.size * mine.shape[0], -1)

    def close(self):
        iso.barrier()
        iso.free(*self.banks, self.signals)


@torch.inference_mode()
def main():
    dist.init_process_group("isomer")
    rank, size = dist.get_rank(), dist.get_world_size()
    multiply = AllGatherMatmul(ROWS, INNER)
    both = alone = 0.0  # ms of the last step
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        rows = torch.randint(-3, 4, (size * ROWS, INNER), generator=generator).float()  # sums have no rounding
        weight = torch.randint(-3, 4, (INNER, COLUMNS), generator=generator).float()
        mine = rows[rank * ROWS:(rank + 1) * ROWS].contiguous()
        iso.barrier()
        begin = time.perf_counter()
        result, gathered = multiply(mine, weight), torch.empty_like(rows)
        both = (time.perf_counter() - begin) * 1e3
        all_gather_single(gathered, mine)
        begin = time.perf_counter()
        product = gathered @ weight
        alone = (time.perf_counter() - begin) * 1e3
        assert torch.equal(result, product), f"step {step} differs"
    multiply.close()
    if rank == 0:
        print(f"{STEPS} products of {size} ranks are those of an all-gather and a matmul; {both:.3f} ms, the "
              f"product alone {alone:.3f} ms, ratio {both / alone:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
