/* SPDX-License-Identifier: MIT */
/* Collectives that move data inside kernels: fcollect and alltoall (one schedule), broadcast, permute. Up to
 * inbox_bytes by LL: one hop, no fence. Above that directly between the members' buffers: a push waits for the
 * receiver's flag "dest may be written", then data, then the flag "it is there"; a read waits for the owner's flag, and
 * the owner for the readers' one. Sizes are equal on all members; nothing is done for 0 bytes.
 * Includes: verbs of a session. Included by include/shmem_device_coll.h. */
#ifndef ISO_MOVE_DEVICE_H
#define ISO_MOVE_DEVICE_H

#include "call_device.h"
#include "grid_device.h"
#include "ll_device.h"
#include "stages_device.h"

/* Data for member m is at source + m * source_stride, data of member m goes to dest + m * dest_stride. */
struct isod_move {
    char *dest;
    const char *source;
    uint64_t bytes, dest_stride, source_stride;
    int32_t to, from; /* permute; broadcast: from is the root */
};

PRIM_FN struct isod_move isod_move_of(void *dest, const void *source, uint64_t bytes)
{
    struct isod_move w;
    w.dest = (char *)dest;
    w.source = (const char *)source;
    w.bytes = bytes;
    w.dest_stride = w.source_stride = 0;
    w.to = w.from = 0;
    return w;
}

PRIM_FN void isod_exchange_copy_own(const struct isod_coll *c, const struct isod_move *w)
{
    uint64_t me = (uint64_t)c->h.my_pe;
    isod_coll_copy_own(w->dest + me * w->dest_stride, w->source + me * w->source_stride, w->bytes);
}

/* ---- by LL: isod_exchange_ll, isod_broadcast_ll, isod_permute_ll ---- */

#define ISOD_PASTE_(a, b) a##_##b
#define ISOD_PASTE(a, b) ISOD_PASTE_(a, b)
#define ISOD_NAMED(what) ISOD_PASTE(what, ISOD_NAME)

#define ISOD_NAME ll
#define ISOD_LL(what) isod_ll_##what
#include "move_ll.h"

/* ---- fcollect, alltoall: each member has a piece for each member ---- */

PRIM_CALL_FN int isod_exchange_direct(shmemd_t h, struct isod_move w, uint32_t call)
{
    struct isod_coll c;
    if (!isod_coll_enter(&c, h, call))
        return 1;
    char *dest = w.dest + (uint64_t)c.h.my_pe * w.dest_stride;
    isod_coll_begin_epoch(&c);
    isod_coll_sync(&c);
    if (isod_coll_goes_on(&c)) {
        for (uint32_t i = 1; i <= isod_coll_others(&c); i++) {
            int32_t to = isod_coll_other(&c, i);
            isod_coll_put(&c, to, dest, w.source + (uint64_t)to * w.source_stride, w.bytes);
        }
        isod_exchange_copy_own(&c, &w);
        isod_coll_begin_epoch(&c);
        isod_coll_sync(&c);
    }
    return isod_coll_leave(&c);
}

PRIM_FN int isod_exchange(shmemd_t h, struct isod_move w, uint32_t call)
{
    struct isod_coll c;
    if (w.bytes == 0)
        return isod_coll_nothing(h);
    if (!isod_takes_ll(isod_facts_of(h, w.bytes)))
        return isod_exchange_direct(h, w, call);
    if (!isod_coll_enter(&c, h, call))
        return 1;
    isod_coll_begin_staged_epoch(&c);
    prim_sync(prim_group_block());
    isod_exchange_ll(&c, &w);
    return isod_coll_leave(&c);
}

PRIM_FN int isod_exchange_block(shmemd_t h, struct isod_move w, uint32_t call)
{
    int rc = 0;
    if (prim_call_begin())
        rc = isod_exchange(h, w, call);
    return prim_call_end(rc);
}

/* ---- broadcast ---- */

PRIM_FN void isod_broadcast_give(struct isod_coll *c, const struct isod_move *w)
{
    isod_coll_begin_epoch(c);
    prim_gather_stores(prim_group_block());
    if (c->rank < isod_coll_others(c))
        prim_fence_flag(); /* pairs with the readers' acquire */
    isod_flags_send(c, -1);
    isod_coll_copy_own(w->dest, w->source, w->bytes);
    isod_coll_begin_epoch(c);
    isod_flags_wait(c, -1, ISOD_DATA); /* they have read it */
    prim_acquire_from_peer();
}

PRIM_FN void isod_broadcast_take(struct isod_coll *c, const struct isod_move *w)
{
    isod_coll_begin_epoch(c);
    prim_sync(prim_group_block()); /* all threads are through with dest */
    if (c->rank == 0)
        isod_flag_wait(c, w->from, ISOD_DATA);
    prim_acquire_from_peer();
    bool goes_on = isod_coll_goes_on(c);
    if (goes_on)
        isod_coll_get(c, w->from, w->dest, w->source, w->bytes);
    isod_coll_begin_epoch(c);
    prim_gather_stores(prim_group_block()); /* of reads, too */
    if (goes_on && c->rank == 0) {
        prim_fence_flag(); /* pairs with the root's acquire */
        isod_flag_send(c, w->from);
    }
}

PRIM_CALL_FN int isod_broadcast_direct(shmemd_t h, struct isod_move w)
{
    struct isod_coll c;
    if (!isod_coll_enter(&c, h, ISOD_CALL_BROADCAST))
        return 1;
    if (h.my_pe == w.from)
        isod_broadcast_give(&c, &w);
    else
        isod_broadcast_take(&c, &w);
    return isod_coll_leave(&c);
}

PRIM_FN int isod_broadcast_refuse(shmemd_t h, struct prim_group g, const struct isod_move *w)
{
    return isod_coll_misuse_by(h, g, ISOD_CALL_BROADCAST, ISOD_MISUSE_ROOT, (uint64_t)h.n_pes,
                               (uint64_t)(int64_t)w->from);
}

PRIM_FN int isod_broadcast(shmemd_t h, struct isod_move w)
{
    struct isod_coll c;
    if ((uint32_t)w.from >= (uint32_t)h.n_pes)
        return isod_broadcast_refuse(h, prim_group_block(), &w);
    if (w.bytes == 0)
        return isod_coll_nothing(h);
    if (!isod_takes_ll(isod_facts_of(h, w.bytes)))
        return isod_broadcast_direct(h, w);
    if (!isod_coll_enter(&c, h, ISOD_CALL_BROADCAST))
        return 1;
    isod_coll_begin_staged_epoch(&c);
    prim_sync(prim_group_block());
    isod_broadcast_ll(&c, &w);
    return isod_coll_leave(&c);
}

PRIM_FN int isod_broadcast_block(shmemd_t h, struct isod_move w)
{
    int rc = 0;
    if (prim_call_begin())
        rc = isod_broadcast(h, w);
    return prim_call_end(rc);
}

/* ---- permute ---- */

/* A PE that sends to itself receives from itself; `seen` of the record is the argument that is wrong. */
PRIM_FN bool isod_permute_is_right(shmemd_t h, const struct isod_move *w)
{
    uint32_t n = (uint32_t)h.n_pes;
    return (uint32_t)w->to < n && (uint32_t)w->from < n && (w->to == h.my_pe) == (w->from == h.my_pe);
}

PRIM_FN int isod_permute_refuse(shmemd_t h, struct prim_group g, const struct isod_move *w)
{
    bool to = (uint32_t)w->to >= (uint32_t)h.n_pes || w->to == h.my_pe;
    return isod_coll_misuse_by(h, g, ISOD_CALL_PERMUTE, ISOD_MISUSE_PARTNER, (uint64_t)h.n_pes,
                               (uint64_t)(int64_t)(to ? w->to : w->from));
}

PRIM_CALL_FN int isod_permute_direct(shmemd_t h, struct isod_move w)
{
    struct isod_coll c;
    if (!isod_coll_enter(&c, h, ISOD_CALL_PERMUTE))
        return 1;
    bool itself = w.to == c.h.my_pe;
    isod_coll_begin_epoch(&c);
    prim_gather_stores(prim_group_block());
    if (c.rank == 0 && !itself) {
        prim_fence_flag(); /* pairs with the sender's acquire: dest may be written */
        isod_flag_send(&c, w.from);
        isod_flag_wait(&c, w.to, ISOD_DATA);
    }
    prim_acquire_from_peer();
    if (isod_coll_goes_on(&c)) {
        if (itself)
            isod_coll_copy_own(w.dest, w.source, w.bytes);
        else
            isod_coll_put(&c, w.to, w.dest, w.source, w.bytes);
        isod_coll_begin_epoch(&c);
        prim_gather_stores(prim_group_block());
        if (c.rank == 0 && !itself) {
            prim_fence_flag(); /* pairs with the receiver's acquire: it is there */
            isod_flag_send(&c, w.to);
            isod_flag_wait(&c, w.from, ISOD_DATA);
        }
        prim_acquire_from_peer();
    }
    return isod_coll_leave(&c);
}

PRIM_FN int isod_permute(shmemd_t h, struct isod_move w)
{
    struct isod_coll c;
    if (!isod_permute_is_right(h, &w))
        return isod_permute_refuse(h, prim_group_block(), &w);
    if (w.bytes == 0)
        return isod_coll_nothing(h);
    if (!isod_takes_ll(isod_facts_of(h, w.bytes)))
        return isod_permute_direct(h, w);
    if (!isod_coll_enter(&c, h, ISOD_CALL_PERMUTE))
        return 1;
    isod_coll_begin_staged_epoch(&c);
    prim_sync(prim_group_block());
    isod_permute_ll(&c, &w);
    return isod_coll_leave(&c);
}

PRIM_FN int isod_permute_block(shmemd_t h, struct isod_move w)
{
    int rc = 0;
    if (prim_call_begin())
        rc = isod_permute(h, w);
    return prim_call_end(rc);
}

/* ---- by all blocks of a grid: each moves a part of every piece ---- */

PRIM_FN int isod_exchange_grid(shmemd_t h, struct isod_move w, uint32_t call)
{
    int rc = 1;
    if (prim_call_begin() && !isod_grid_sync(h)) {
        if (isod_grid_part(h, &w.dest, &w.source, &w.bytes))
            (void)isod_exchange_block(isod_without_lane(h), w, call);
        rc = isod_grid_leave(h);
    }
    return prim_call_end(rc);
}

PRIM_FN int isod_broadcast_grid(shmemd_t h, struct isod_move w)
{
    int rc = 1;
    if ((uint32_t)w.from >= (uint32_t)h.n_pes) /* all blocks say so */
        return isod_broadcast_block(h, w);
    if (prim_call_begin() && !isod_grid_sync(h)) {
        if (isod_grid_part(h, &w.dest, &w.source, &w.bytes))
            (void)isod_broadcast_block(isod_without_lane(h), w);
        rc = isod_grid_leave(h);
    }
    return prim_call_end(rc);
}

PRIM_FN int isod_permute_grid(shmemd_t h, struct isod_move w)
{
    int rc = 1;
    if (!isod_permute_is_right(h, &w))
        return isod_permute_refuse(h, prim_group_block(), &w);
    if (prim_call_begin() && !isod_grid_sync(h)) {
        if (isod_grid_part(h, &w.dest, &w.source, &w.bytes))
            (void)isod_permute_block(isod_without_lane(h), w);
        rc = isod_grid_leave(h);
    }
    return prim_call_end(rc);
}

#endif
