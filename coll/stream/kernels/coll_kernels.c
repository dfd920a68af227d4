/* SPDX-License-Identifier: MIT */
/* Kernels that move data on streams: fcollect and alltoall (one schedule, "exchange"), broadcast, permute, alltoallv;
 * barrier, sync; the two ends of collectives by copy engines. By LL and staged: move_stream.h. By pushes and reads:
 * straight between the members' buffers, when all members that write or are read have come.
 * Launched by stream_algorithm.c and coll_engine.c. Includes: engine_device.h, move_stream.h. */
#include "../engine/engine_device.h"
#include "move_stream.h"

/* All members are here, and have told where their dest is, and `count` 2: where their received lengths are; some may be
 * reached by the ring only. The table has the first ISOD_STREAM_MEMBERS of them. A sync. */
PRIM_FN bool arrive(struct isod_coll *c, const struct isod_stream_coll *a, uint32_t count)
{
    isod_coll_begin_epoch(c);
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c); i += c->size) {
        isod_place_send(c, isod_coll_other(c, i), 0, a->dest_place);
        if (count == 2)
            isod_place_send(c, isod_coll_other(c, i), 1, a->v_received_place);
    }
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c); i += c->size) {
        int32_t m = isod_coll_other(c, i);
        int64_t ahead = m < ISOD_STREAM_MEMBERS ? isod_distance(c->h, a->dest, a->dest_place, m) : 0;
        uint64_t place = isod_places_wait(c, m, count).first;
        if (m < ISOD_STREAM_MEMBERS && !c->failed)
            isod_table_dest()[m] = isod_distance_of(c->h, a->dest, ahead, a->dest_place, place, m);
    }
    if (c->rank == 0 && c->h.my_pe < ISOD_STREAM_MEMBERS)
        isod_table_dest()[c->h.my_pe] = 0;
    prim_acquire_from_peer();
    return isod_coll_goes_on(c);
}

PRIM_FN int exchange_push(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    struct isod_move w;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter(&c, a->h, a->call))
        return 1;
    if (arrive(&c, a, 1)) {
        struct isod_waves waves = isod_waves_of(&c);
        struct isod_part p = isod_part_of(w.bytes, waves.nth, waves.of);
        char *dest = w.dest + (uint64_t)(uint32_t)a->h.my_pe * w.dest_stride + p.at;
        for (uint32_t i = waves.first; i <= isod_coll_others(&c); i += waves.stride) {
            int32_t to = isod_coll_other(&c, i);
            const char *source = w.source + (uint64_t)(uint32_t)to * w.source_stride + p.at;
            isod_wave_push(&c, a, to, isod_bytes_of(dest, source, p.bytes));
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
    if (arrive(&c, a, 2)) {
        struct isod_waves waves = isod_waves_of(&c);
        for (uint32_t i = waves.first; i <= isod_coll_others(&c); i += waves.stride) {
            int32_t to = isod_coll_other(&c, i);
            struct isod_part mine =
                isod_part_of(prim_load_const_u64(&a->v_bytes[to]), prim_block_index(), prim_block_count());
            struct isod_part p = isod_part_of(mine.bytes, waves.nth, waves.of);
            char *dest = a->dest + prim_load_const_u64(&a->v_dest[to]) + mine.at + p.at;
            const char *source = a->source + prim_load_const_u64(&a->v_source[to]) + mine.at + p.at;
            isod_wave_put(&c, a, to, isod_bytes_of(dest, source, p.bytes));
        }

        /* The lengths, for the receivers. */
        if (prim_block_index() == 0 && a->v_received != 0)
            for (int32_t to = (int32_t)c.rank; to < a->h.n_pes; to += (int32_t)c.size) {
                uint64_t place = to == a->h.my_pe ? a->v_received_place : isod_place_sent(&c, to, 1);
                uint64_t at = (uint64_t)(uint32_t)a->h.my_pe * 8;
                char *near = isod_place_near(c.h, place, to);
                isod_coll_put_word_at(&c, to, near != 0 ? near + at : near, isod_place_name(c.h.world, place) + at,
                                      prim_load_const_u64(&a->v_bytes[to]));
            }

        isod_coll_begin_epoch(&c);
        isod_coll_sync(&c);
    }
    return isod_coll_leave(&c);
}

/* The place of one member that this one waits for is the first of the table. By the calling thread. */
PRIM_FN void one_expect(const struct isod_coll *c, const char *ours, uint64_t mine, int32_t m)
{
    isod_table_dest()[0] = isod_distance(c->h, ours, mine, m);
}
PRIM_FN void one_wait(struct isod_coll *c, const char *ours, uint64_t mine, int32_t m)
{
    struct isod_places p = isod_places_wait(c, m, 1);
    if (!c->failed)
        isod_table_dest()[0] = isod_distance_of(c->h, ours, isod_table_dest()[0], mine, p.first, m);
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
    if (c.rank == 0 && a->from != a->h.my_pe) { /* tells the one member where dest is; another one tells the same */
        isod_place_send(&c, a->from, 0, a->dest_place);
        one_expect(&c, a->dest, a->dest_place, a->to);
        one_wait(&c, a->dest, a->dest_place, a->to);
    }
    prim_acquire_from_peer();
    if (isod_coll_goes_on(&c)) {
        if (w.to == a->h.my_pe) {
            isod_coll_copy_own(w.dest, w.source, w.bytes);
        } else {
            int64_t distance = isod_table_dest()[0];
            char *name = w.dest;
            if (distance == ISOD_BY_RING)
                name = isod_place_name(c.h.world, isod_place_sent(&c, w.to, 0)) + (w.dest - a->dest);
            isod_coll_put_at(&c, prim_group_block(), w.to, distance != ISOD_BY_RING ? w.dest + distance : (char *)0,
                             isod_bytes_of(name, w.source, w.bytes));
        }

        /* Dest is written. */
        isod_coll_begin_epoch(&c);
        prim_gather_stores(prim_group_block());
        if (c.rank == 0) {
            prim_fence_flag(); /* pairs with the acquire of the member that is written to */
            if (a->to != a->h.my_pe) {
                isod_flag_send(&c, a->to);
                isod_flag_wait(&c, a->from, ISOD_DATA);
            }
        }
        prim_acquire_from_peer();
    }
    return isod_coll_leave(&c);
}

/* The places of the root say that its kernel is here, the flags of the others that they have read: loads whose values
 * were stored before a sync are done, so these flags need no fence. */
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
        for (uint32_t i = c.rank + 1; i <= isod_coll_others(&c); i += c.size)
            isod_place_send(&c, isod_coll_other(&c, i), 0, a->source_place);
        isod_coll_copy_own(w.dest, w.source, w.bytes);
        isod_coll_begin_epoch(&c);
        isod_flags_wait(&c, -1, ISOD_DATA);
        prim_acquire_from_peer();
        prim_sync(prim_group_block()); /* all have read the lane */
        return isod_coll_leave(&c);
    }

    if (c.rank == 0) {
        one_expect(&c, a->source, a->source_place, w.from);
        one_wait(&c, a->source, a->source_place, w.from);
    }
    prim_acquire_from_peer();
    if (isod_coll_goes_on(&c)) {
        int64_t distance = isod_table_dest()[0]; /* of the root's source */
        if (distance != ISOD_BY_RING) {
            prim_copy_get(prim_group_block(), w.dest, w.source + distance, w.bytes);
        } else {
            const char *name = isod_place_name(c.h.world, isod_place_sent(&c, w.from, 0)) + (w.source - a->source);
            isod_ring_get(c.h, prim_group_block(), isod_bytes_of(w.dest, name, w.bytes), isod_world_pe(c.h, w.from));
        }
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
/* All members are here. The root has told where its source is, the others where their dests are. A sync. */
PRIM_FN bool spread_arrive(struct isod_coll *c, const struct isod_stream_coll *a, const struct isod_move *w,
                           struct spread *s)
{
    struct isod_touched dest = isod_touched_of(a->dest, a->dest_place, isod_table_dest(), w->dest);
    struct isod_touched source = isod_touched_of(a->source, a->source_place, isod_table_source(), w->source);
    bool odd = ((uintptr_t)w->dest & 15) != 0;
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c); i += c->size) {
        int32_t m = isod_coll_other(c, i);
        struct isod_touched t = m == w->from ? source : dest;
        t.table[m] = isod_distance(c->h, t.ours, t.place, m);
        struct isod_places p = isod_places_wait(c, m, 1);
        if (!c->failed)
            odd = isod_table_correct(c, t, m, p.first) || odd;
    }
    prim_acquire_from_peer();
    odd = prim_sync_or(prim_group_block(), odd || c->failed);
    if (odd)
        s->whole = 0;
    s->source = w->source + isod_table_source()[w->from];
    return !odd || isod_coll_goes_on(c);
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
    if (!isod_coll_enter_near(&c, a->h, a->call))
        return 1;
    isod_places_announce(&c, 1, a->h.my_pe == w.from ? a->source_place : a->dest_place, 0);
    if (a->h.my_pe == w.from) {
        isod_coll_copy_own(w.dest, w.source, w.bytes);
        for (uint32_t i = c.rank + 1; i <= isod_coll_others(&c); i += c.size)
            (void)isod_places_wait(&c, isod_coll_other(&c, i), 1);
        prim_acquire_from_peer();
        (void)isod_coll_goes_on(&c);
    } else {
        uint64_t readers = isod_coll_others(&c), units = isod_units(w.bytes), each = (units + readers - 1) / readers;
        int32_t place = a->h.my_pe - w.from - 1;
        struct spread s = {w.source, isod_table_dest(), 0, 0, 0};
        s.first = each * (uint64_t)(place < 0 ? place + a->h.n_pes : place);
        s.last = s.first + each < units ? s.first + each : units;
        s.whole = s.last < w.bytes / 16 ? s.last : w.bytes / 16;
        if (spread_arrive(&c, a, &w, &s)) {
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
ISOD_STREAM_KERNEL(gather_staged, move_pieces(&a, GATHER_STAGED))
ISOD_STREAM_KERNEL(scatter_staged, move_pieces(&a, SCATTER_STAGED))
ISOD_STREAM_KERNEL(permute_ll, move_pieces(&a, PERMUTE_LL))
ISOD_STREAM_KERNEL(permute_push, permute_push(&a))
ISOD_STREAM_KERNEL(permute_staged, move_pieces(&a, PERMUTE_STAGED))
ISOD_STREAM_KERNEL(alltoallv_push, alltoallv_push(&a))
ISOD_STREAM_KERNEL(barrier, isod_synchronise(a.h, prim_group_block(), a.call, ISOD_DATA))
ISOD_STREAM_KERNEL(sync, isod_synchronise(a.h, prim_group_block(), a.call, ISOD_ARRIVAL))
ISOD_STREAM_KERNEL(engine_begin, isod_engine_begin(&a))
ISOD_STREAM_KERNEL(engine_end, isod_engine_end(&a))
