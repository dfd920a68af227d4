/* SPDX-License-Identifier: MIT */
/* Kernels that move data on streams: fcollect and alltoall (one schedule, "exchange"), broadcast, permute, alltoallv;
 * barrier, sync; the two ends of collectives by copy engines. By LL and staged: move_stream.h. By pushes and reads:
 * straight between the members' buffers, when all members that write or are read have come.
 * Launched by stream_algorithm.c and coll_engine.c. Includes: engine_device.h, move_stream.h. */
#include "engine_device.h"
#include "move_stream.h"

/* isod_stream_announce and _await, where some members may be reached by the ring only. */
PRIM_FN bool arrive(struct isod_coll *c)
{
    isod_coll_begin_epoch(c);
    isod_flags_send(c, -1);
    return isod_stream_await(c);
}

PRIM_FN int exchange_push(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    struct isod_move w;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter(&c, a->h, a->call))
        return 1;
    if (arrive(&c)) {
        struct isod_waves waves = isod_waves_of(&c);
        struct isod_part p = isod_part_of(w.bytes, waves.nth, waves.of);
        char *dest = w.dest + (uint64_t)(uint32_t)a->h.my_pe * w.dest_stride;
        for (uint32_t i = waves.first; i <= isod_coll_others(&c); i += waves.stride) {
            int32_t to = isod_coll_other(&c, i);
            isod_wave_put(&c, to, dest, w.source + (uint64_t)(uint32_t)to * w.source_stride, p);
        }
        isod_coll_begin_epoch(&c);
        isod_coll_sync(&c);
    }
    return isod_coll_leave(&c);
}

/* Lengths may differ between members; so all blocks take part, each with its part of each length. */
PRIM_FN int alltoallv_push(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    if (!isod_coll_enter(&c, a->h, a->call))
        return 1;
    if (arrive(&c)) {
        struct isod_waves waves = isod_waves_of(&c);
        for (uint32_t i = waves.first; i <= isod_coll_others(&c); i += waves.stride) {
            int32_t to = isod_coll_other(&c, i);
            struct isod_part mine =
                isod_part_of(prim_load_const_u64(&a->v_bytes[to]), prim_block_index(), prim_block_count());
            char *dest = a->dest + prim_load_const_u64(&a->v_dest[to]) + mine.at;
            const char *source = a->source + prim_load_const_u64(&a->v_source[to]) + mine.at;
            isod_wave_put(&c, to, dest, source, isod_part_of(mine.bytes, waves.nth, waves.of));
        }

        /* The lengths, for the receivers. */
        if (prim_block_index() == 0 && a->v_received != 0)
            for (int32_t to = (int32_t)c.rank; to < a->h.n_pes; to += (int32_t)c.size)
                isod_coll_put_word(&c, to, a->v_received + a->h.my_pe, prim_load_const_u64(&a->v_bytes[to]));

        isod_coll_begin_epoch(&c);
        isod_coll_sync(&c);
    }
    return isod_coll_leave(&c);
}

/* Tells one member that dest is ready, or written, and waits until another one has told the same. */
PRIM_FN void permute_sync(struct isod_coll *c, int32_t tell, int32_t wait_for)
{
    if (c->rank == 0 && tell != c->h.my_pe) {
        isod_flag_send(c, tell);
        isod_flag_wait(c, wait_for, ISOD_DATA);
    }
    prim_acquire_from_peer();
}
PRIM_FN int permute_push(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    struct isod_move w;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter(&c, a->h, a->call))
        return 1;
    isod_coll_begin_epoch(&c);
    permute_sync(&c, w.from, w.to);
    if (isod_coll_goes_on(&c)) {
        if (w.to == a->h.my_pe)
            isod_coll_copy_own(w.dest, w.source, w.bytes);
        else
            isod_coll_put(&c, w.to, w.dest, w.source, w.bytes);
        isod_coll_begin_epoch(&c);
        prim_gather_stores(prim_group_block());
        if (c.rank == 0)
            prim_fence_flag(); /* pairs with the acquire of the member that is written to */
        permute_sync(&c, w.to, w.from);
    }
    return isod_coll_leave(&c);
}

/* The flags of the root say that its kernel is here, those of the others that they have read: loads whose values were
 * stored before a sync are done, so these flags need no fence. */
PRIM_FN int broadcast_read(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    struct isod_move w;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter(&c, a->h, a->call))
        return 1;

    isod_coll_begin_epoch(&c);
    if (a->h.my_pe == w.from) {
        isod_flags_send(&c, -1);
        isod_coll_copy_own(w.dest, w.source, w.bytes);
        isod_coll_begin_epoch(&c);
        isod_flags_wait(&c, -1, ISOD_DATA);
        prim_acquire_from_peer();
        prim_sync(prim_group_block()); /* all have read the lane */
        return isod_coll_leave(&c);
    }

    if (c.rank == 0)
        isod_flag_wait(&c, w.from, ISOD_DATA);
    prim_acquire_from_peer();
    if (isod_coll_goes_on(&c)) {
        isod_coll_get(&c, w.from, w.dest, w.source, w.bytes);
        isod_coll_begin_epoch(&c);
        prim_sync(prim_group_block());
        if (c.rank == 0)
            isod_flag_send(&c, w.from);
    }
    return isod_coll_leave(&c);
}

/* The members beside the root read a part each, and store it to all of them. So the data leaves the root once, and
 * little more leaves each of the others. Whole aligned units first, several of a thread under way at once. */
struct spread {
    const char *source; /* the root's */
    const int64_t *dests;
    uint64_t first, whole, last; /* units; from `whole` on they may be odd */
};
PRIM_FN struct spread spread_of(const struct isod_coll *c, const struct isod_move *w)
{
    uint64_t readers = isod_coll_others(c), units = isod_units(w->bytes), each = (units + readers - 1) / readers;
    int32_t place = c->h.my_pe - w->from - 1;
    struct spread s = {isod_near(c->h, w->source, w->from), isod_table_dest(), 0, 0, 0};
    bool odd = (((uintptr_t)s.source | (uintptr_t)w->dest) & 15) != 0;
    s.first = each * (uint64_t)(place < 0 ? place + c->h.n_pes : place);
    s.last = s.first + each < units ? s.first + each : units;
    s.whole = s.last < w->bytes / 16 ? s.last : w->bytes / 16;
    odd = isod_table_fill(c, isod_table_dest(), w->dest) || odd;
    if (prim_sync_or(prim_group_block(), odd))
        s.whole = 0;
    return s;
}
PRIM_FN char *spread_dest(const struct isod_coll *c, const struct isod_move *w, const struct spread *s, uint32_t i)
{
    int32_t m = isod_coll_other(c, i);
    return m != w->from ? w->dest + (m != c->h.my_pe ? s->dests[m] : 0) : (char *)0;
}
PRIM_FN void spread_units(const struct isod_coll *c, const struct isod_move *w, const struct spread *s)
{
    for (uint64_t u = s->first + c->rank; u < s->whole; u += ISOD_BATCH * (uint64_t)c->size) {
        struct prim_vec16 v[ISOD_BATCH];
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_BATCH; k++)
            if (u + k * (uint64_t)c->size < s->whole)
                v[k] = prim_load16(s->source + (u + k * (uint64_t)c->size) * 16);
        for (uint32_t i = 0; i <= isod_coll_others(c); i++) {
            char *dest = spread_dest(c, w, s, i);
            PRIM_UNROLL
            for (uint32_t k = 0; k < ISOD_BATCH; k++)
                if (dest != 0 && u + k * (uint64_t)c->size < s->whole)
                    prim_store16(dest + (u + k * (uint64_t)c->size) * 16, v[k]);
        }
    }
}
PRIM_FN void spread_odd_units(const struct isod_coll *c, const struct isod_move *w, const struct spread *s)
{
    uint64_t from = s->whole > s->first ? s->whole : s->first;
    for (uint64_t u = from + c->rank; u < s->last; u += c->size) {
        struct prim_vec16 v = isod_unit_load_odd(s->source + u * 16, w->bytes - u * 16);
        for (uint32_t i = 0; i <= isod_coll_others(c); i++) {
            char *dest = spread_dest(c, w, s, i);
            if (dest != 0)
                isod_unit_store_odd(dest + u * 16, v, w->bytes - u * 16);
        }
    }
}
PRIM_FN int broadcast_twoshot_read(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    struct isod_move w;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter(&c, a->h, a->call))
        return 1;
    isod_stream_announce(&c);
    if (a->h.my_pe == w.from) {
        isod_coll_copy_own(w.dest, w.source, w.bytes);
        (void)isod_stream_await(&c);
    } else {
        struct spread s = spread_of(&c, &w);
        if (isod_stream_await(&c)) {
            spread_units(&c, &w, &s);
            spread_odd_units(&c, &w, &s);
        }
    }
    if (!c.failed) {
        isod_coll_begin_epoch(&c);
        isod_coll_sync_near(&c);
    }
    return isod_coll_leave(&c);
}

/* ---- kernels ---- */

ISOD_STREAM_KERNEL(exchange_ll, move_pieces(&a, EXCHANGE_LL))
ISOD_STREAM_KERNEL(exchange_push, exchange_push(&a))
ISOD_STREAM_KERNEL(exchange_staged, move_pieces(&a, EXCHANGE_STAGED))
ISOD_STREAM_KERNEL(broadcast_ll, move_pieces(&a, BROADCAST_LL))
ISOD_STREAM_KERNEL(broadcast_read, broadcast_read(&a))
ISOD_STREAM_KERNEL(broadcast_twoshot_read, broadcast_twoshot_read(&a))
ISOD_STREAM_KERNEL(broadcast_staged, move_pieces(&a, BROADCAST_STAGED))
ISOD_STREAM_KERNEL(permute_ll, move_pieces(&a, PERMUTE_LL))
ISOD_STREAM_KERNEL(permute_push, permute_push(&a))
ISOD_STREAM_KERNEL(permute_staged, move_pieces(&a, PERMUTE_STAGED))
ISOD_STREAM_KERNEL(alltoallv_push, alltoallv_push(&a))
ISOD_STREAM_KERNEL(barrier, isod_synchronise(a.h, a.call, ISOD_DATA))
ISOD_STREAM_KERNEL(sync, isod_synchronise(a.h, a.call, ISOD_ARRIVAL))
ISOD_STREAM_KERNEL(engine_begin, isod_engine_begin(&a))
ISOD_STREAM_KERNEL(engine_end, isod_engine_end(&a))
