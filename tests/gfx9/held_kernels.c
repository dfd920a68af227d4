/* SPDX-License-Identifier: MIT */
/* Kernels of held_test.c: code objects of their own, which that program loads by itself. */
#include "../../include/shmem_device.h"

struct held_args {
    uint64_t *data, *seen, *flag;
    uint64_t settles;
};

/* All waves store, then the first thread fences and stores a flag. The waves sleep behind the barrier, so that the flag
 * can be looked at while none has ended. */
PRIM_KERNEL(held_put, struct held_args, a)
{
    struct prim_group block = prim_group_block();
    uint32_t rank = prim_rank(block), size = prim_size(block);
    a.data[rank] = rank + 1;
    if (a.settles != 0)
        prim_settle_stores(block);
    prim_sync(block);
    if (rank == 0) {
        prim_fence_before_signal();
        prim_store_flag_u64(a.flag, 1);
        prim_fence_before_signal(); /* the flag has left */
    }
    for (int i = 0; i < 8; i++)
        prim_pause();
    a.seen[rank] = a.data[size - 1 - rank];
}
