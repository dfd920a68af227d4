/* SPDX-License-Identifier: MIT */
/* The two ends of a collective by copy engines, each a kernel of one block: engine_begin before the copies, engine_end
 * behind them. They are the two epochs of one call of lane 0: it stays in use between them, and its numbers do not wrap
 * there.
 * Around both stand prim_call_begin and prim_call_end.
 * Includes: call_device.h, on_stream.h. Included by coll_kernels.c. */
#ifndef ISO_ENGINE_DEVICE_H
#define ISO_ENGINE_DEVICE_H

#include "../on_stream.h" /* first */

#include "../../kernel/call_device.h"

#define ISOD_ENGINE_EPOCHS 2u

/* All members are here: engines may write to all dests. What it returns is the same for all threads.
 * The word that engines copy is read after this kernel has ended, by the order of the stream. When a member does not
 * come, the copies run all the same. They bring the number of an epoch that all have been sent before, so engine_end of
 * no member takes them for a call that has begun; only the payload is written, wherever the others are. */
PRIM_FN int isod_engine_begin(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    if (!isod_coll_enter_near_for(&c, a->h, a->call, ISOD_ENGINE_EPOCHS))
        return 1;
    isod_coll_begin_epoch(&c);
    isod_coll_sync_near(&c);
    int rc = isod_coll_leave(&c);
    if (c.rank == 0) {
        prim_store_relaxed_u64(&c.lane->engine, rc == 0 ? c.epoch + 1 : c.epoch); /* not into a cache: engines read it */
        if (rc == 0)
            prim_store_relaxed_u64(&c.lane->users, 1);
    }
    return rc;
}

/* All data that comes to this PE in this call is here: flags are copied by engines of the senders, each behind its
 * payload; or stored by this kernel of theirs, behind all their payload. */
PRIM_FN int isod_engine_end(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    if (!isod_coll_enter_near_for(&c, a->h, a->call, 0))
        return 1; /* engine_begin has failed, or another call has used the lane since */
    c.epoch = c.lane->engine;
    c.users = 0;                   /* this call itself: engine_begin has left 1 */
    prim_sync(prim_group_block()); /* all have read the lane */
    for (uint32_t i = c.rank; i < a->tell; i += c.size) {
        char *memory = isod_coll_memory(&c, (int32_t)(((uint32_t)a->tell_first + i) % (uint32_t)a->h.n_pes));
        prim_store_release_u64((uint64_t *)(void *)memory + a->h.my_pe, c.epoch); /* pairs with isod_flag_wait */
    }
    if (a->to < 0)
        isod_flags_wait(&c, -1, ISOD_DATA);
    else if (a->from != a->h.my_pe && c.rank == 0)
        isod_flag_wait(&c, a->from, ISOD_DATA);
    prim_acquire_from_peer();
    return isod_coll_leave(&c);
}

#endif
