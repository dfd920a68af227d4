/* SPDX-License-Identifier: MIT */
/* Barrier and sync inside kernels: each member flags each other, one hop. sync is arrival only: it orders no memory, so
 * no fence stands in the way of its flags; barrier completes what this PE has issued and makes it seen.
 * Includes: coll_device.h. Included by include/shmem_device_coll.h. */
#ifndef ISO_SYNC_DEVICE_H
#define ISO_SYNC_DEVICE_H

#include "coll_device.h"

PRIM_FN int isod_sync_block(shmemd_t h)
{
    struct isod_coll c;
    if (!isod_coll_enter(&c, h, ISOD_CALL_SYNC))
        return 1;
    isod_coll_step(&c);
    prim_sync(prim_group_block()); /* all threads of the block have arrived, before any flag says so */
    isod_flags_send(&c, -1);
    isod_flags_wait(&c, -1, ISOD_ARRIVAL);
    return isod_coll_leave(&c);
}

/* Each thread that stores a flag first completes what this PE has sent by the ring: no flag passes it by. */
PRIM_FN int isod_barrier_block(shmemd_t h)
{
    struct isod_coll c;
    if (!isod_coll_enter(&c, h, ISOD_CALL_BARRIER))
        return 1;
    isod_coll_step(&c);
    prim_gather_stores(prim_group_block());
    if (c.rank == 0 || c.rank < isod_coll_others(&c)) {
        bool used = isod_ring_used(h); /* this load and the fence wait together */
        prim_fence_flag();             /* pairs with the acquire below, of the members that wait */
        if (used)
            isod_ring_quiet(h);
    }
    isod_flags_send(&c, -1);
    isod_flags_wait(&c, -1, ISOD_DATA);
    prim_acquire_from_peer();
    return isod_coll_leave(&c);
}

PRIM_FN int isod_sync_grid(shmemd_t h)
{
    if (isod_grid_sync(h))
        return 1;
    if (prim_block_index() == 0)
        (void)isod_sync_block(h);
    return isod_grid_leave(h);
}

PRIM_FN int isod_barrier_grid(shmemd_t h)
{
    if (isod_grid_sync(h))
        return 1;
    if (prim_block_index() == 0)
        (void)isod_barrier_block(h);
    return isod_grid_leave(h);
}

#endif
