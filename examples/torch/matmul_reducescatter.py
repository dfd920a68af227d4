# SPDX-License-Identifier: MIT
"""Products whose blocks of rows go to their owners while the next ones are made: each rank has some columns of X and the
rows of W that belong to them, and wants its rows of X @ W. It puts each block of its product into the owner's memory,
with a signal, its own one last; the owner adds them in the order of ranks. Compared with a product and a reduce-scatter
behind it.

    ISOMER_LIB=build/lib/libisomer.so torchrun --nproc-per-node 2 examples/torch/matmul_reducescatter.py
"""
import time

import torch
import torch.distributed as dist

import isomer_shmem as iso

reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor  # before torch 2.13

ROWS, INNER, COLUMNS, STEPS = 96, 64, 128, 5


class MatmulReduceScatter:
    """Collective over the default group. Calls have two banks of memory in turn: a rank that has the signals of a call
    knows that the others have done with the call before the last."""

    def __init__(self, rows, columns):
        self.rank, self.size, self.calls = dist.get_rank(), dist.get_world_size(), 0
        self.banks = [iso.zeros(self.size, rows, columns) for _ in range(2)]
        self.signals = iso.zeros(self.size, dtype=torch.int64)

    def __call__(self, mine, weight):
        """mine: size * rows of this rank's columns. Returns this rank's rows."""
        self.calls += 1
        bank, blocks = self.banks[self.calls % 2], mine.view(self.size, -1, mine.shape[1])
        for step in range(1, self.size):
            owner = (self.rank + step) % self.size
            iso.put_signal(bank[self.rank], blocks[owner] @ weight, self.signals[self.rank], self.calls, owner)
        torch.matmul(blocks[self.rank], weight, out=bank[self.rank])
        for step in range(1, self.size):
            iso.wait(self.signals[(self.rank - step) % self.size], self.calls)
        total = bank[0].clone()
        for part in bank[1:]:
            total += part
        return total

    def close(self):
        iso.barrier()
        iso.free(*self.banks, self.signals)


@torch.inference_mode()
def main():
    dist.init_process_group("isomer")
    rank, size = dist.get_rank(), dist.get_world_size()
    multiply = MatmulReduceScatter(ROWS, COLUMNS)
    both = alone = 0.0  # ms of the last step
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step * size + rank)
        mine = torch.randint(-3, 4, (size * ROWS, INNER), generator=generator).float()  # sums have no rounding
        weight = torch.randint(-3, 4, (INNER, COLUMNS), generator=generator).float()
        iso.barrier()
        begin = time.perf_counter()
        result = multiply(mine, weight)
        both = (time.perf_counter() - begin) * 1e3
        begin = time.perf_counter()
        product = mine @ weight
        alone = (time.perf_counter() - begin) * 1e3
        expected = torch.empty_like(result)
        reduce_scatter_single(expected, product)
        assert torch.equal(result, expected), f"step {step} differs"
    multiply.close()
    if rank == 0:
        print(f"{STEPS} products of {size} ranks are those of a matmul and a reduce-scatter; {both:.3f} ms, the product "
              f"alone {alone:.3f} ms, ratio {both / alone:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
