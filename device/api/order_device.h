/* SPDX-License-Identifier: MIT */
/* Fence and quiet of kernels over all paths: stores (by fences), and the ring (by waiting for the proxy, whose copies
 * and messages are then visible at their targets). Every thread of the group calls.
 * Includes: ring.h. Used by include/shmem_device.h. */
#ifndef ISO_ORDER_DEVICE_H
#define ISO_ORDER_DEVICE_H

#include "place_device.h"
#include "ring.h"

/* One thread, which knows whether the ring was used, waits for everything that the group has put on it, and for the
 * threads with which it synchronised. The last sync is unconditional: other threads may not know. */
PRIM_FN void isod_order_ring(shmemd_t h, shmemd_group_t g, bool used)
{
    if (used && prim_is_first(g))
        isod_ring_quiet(h);
    prim_sync(g);
}

/* Any thread of the group may store the flag that comes next, so each has the fence. Pairs with the acquire of waits. A
 * put by the ring could still be under way when a store passes it, hence the wait for the ring. */
PRIM_FN void isod_fence(shmemd_t h, shmemd_group_t g)
{
    prim_gather_stores(g);
    bool used = isod_ring_used(h); /* behind the sync: any thread's first use; this load and the fence wait together */
    prim_fence_flag();
    isod_order_ring(h, g, used);
    if (used)
        prim_fence_flag(); /* also behind what the ring has completed */
    if (g.kind == PRIM_THREAD)
        prim_pass();
}

/* Each thread completes its own stores, then the group synchronises: when a thread returns, all stores are complete. */
PRIM_FN void isod_quiet(shmemd_t h, shmemd_group_t g)
{
    bool used = isod_ring_used(h); /* by this thread or before; the wait of the fence covers that of the load */
    prim_fence_full();             /* pairs with prim_fence_full of a peer: stores before, loads after */
    isod_order_ring(h, g, prim_sync_or(g, used));
    if (g.kind == PRIM_THREAD)
        prim_pass();
}

/* A put has read its source when it returns, by the ring too (isod_ring_put), so only threads are waited for. */
PRIM_FN void isod_flush(shmemd_t h, shmemd_group_t g)
{
    (void)h;
    prim_sync_settled(g);
    if (g.kind == PRIM_THREAD)
        prim_pass();
}

/* The thread whose atomic it was acquires, whichever that is; the sync passes it on. */
PRIM_FN void isod_acquire(shmemd_t h, shmemd_group_t g)
{
    (void)h;
    prim_acquire_after_atomic(); /* pairs with the fence of who made the atomic's old value */
    prim_sync(g);
}

PRIM_FN void isod_pe_quiet(shmemd_t h, shmemd_group_t g, const int *pes, size_t npes)
{
    (void)pes; /* a fence does not choose its targets */
    if (npes != 0)
        isod_quiet(h, g);
}

#endif
