/* SPDX-License-Identifier: MIT */
/* alltoallv inside kernels: each pair of members has a number of elements of its own. A receiver tells each sender
 * where its data goes and how much it expects, by places, so senders need not know dests of others; these also say that
 * dest may be written. Then all push, and flags say that the data is there. Both ends of a pair know both of its
 * numbers, so numbers that differ are an error of both. Includes: places_device.h and verbs of a session. Included by
 * include/shmem_device_coll.h. */
#ifndef ISO_ALLTOALLV_DEVICE_H
#define ISO_ALLTOALLV_DEVICE_H

#include "call_device.h"
#include "grid_device.h"
#include "places_device.h"
#include "stages_device.h"

/* Arrays have an element for each member, in elements of `unit` bytes. Of each pair's data this is part `part`. */
struct isod_vector {
    char *dest;
    const char *source;
    const size_t *dest_nelems, *dest_displs, *source_nelems, *source_displs;
    size_t unit;
    uint64_t part, parts;
};
PRIM_FN struct isod_vector isod_vector_of(void *dest, const void *source, size_t unit)
{
    struct isod_vector w;
    w.dest = (char *)dest;
    w.source = (const char *)source;
    w.dest_nelems = w.dest_displs = w.source_nelems = w.source_displs = (const size_t *)0;
    w.unit = unit;
    w.part = 0;
    w.parts = 1;
    return w;
}
/* *from and what is returned: this part of `bytes`, in whole units of 16. */
PRIM_FN uint64_t isod_vector_part(const struct isod_vector *w, uint64_t bytes, uint64_t *from)
{
    uint64_t share = w->parts == 1 ? bytes : (isod_units(bytes) + w->parts - 1) / w->parts * 16;
    *from = w->part * share;
    return *from >= bytes ? 0 : bytes - *from < share ? bytes - *from : share;
}

/* The numbers of a pair in two places: where its data begins in dest, 48 bits; the bytes that this member expects and
 * those that it sends, 40 bits each. */
struct isod_vector_pair {
    uint64_t at, expects, sends;
};
#define ISOD_VECTOR_MOST (((uint64_t)1 << 40) - 1)
/* A number from MOST - 1 on cannot be told: MOST stands for what is expected, and MOST - 1 for what is sent, so that
 * the pair is wrong. */
PRIM_FN uint64_t isod_vector_told(const struct isod_vector *w, uint64_t nelems, uint64_t otherwise)
{
    const uint64_t bytes = nelems * w->unit;
    return nelems < ISOD_VECTOR_MOST && bytes < ISOD_VECTOR_MOST - 1 ? bytes : otherwise;
}
PRIM_FN struct isod_vector_pair isod_vector_mine(const struct isod_vector *w, int32_t m)
{
    struct isod_vector_pair p;
    p.at = w->dest_displs[m] * w->unit;
    p.expects = isod_vector_told(w, w->dest_nelems[m], ISOD_VECTOR_MOST);
    p.sends = isod_vector_told(w, w->source_nelems[m], ISOD_VECTOR_MOST - 1);
    return p;
}
PRIM_FN struct isod_vector_pair isod_vector_pair_of(uint64_t first, uint64_t second)
{
    struct isod_vector_pair p;
    p.at = first & (((uint64_t)1 << 48) - 1);
    p.expects = first >> 48 | (second & 0xffffffu) << 16;
    p.sends = second >> 24;
    return p;
}

/* A wrong pair of the calling thread: what it said to the host. */
struct isod_vector_wrong {
    int32_t pe; /* -1: none */
    uint64_t expects, sends;
};
PRIM_FN void isod_vector_compare(struct isod_vector_wrong *wrong, int32_t m, uint64_t expects, uint64_t sends)
{
    if (expects == sends)
        return;
    wrong->pe = m;
    wrong->expects = expects;
    wrong->sends = sends;
}

/* Tells all other members, and waits for all of them. */
PRIM_FN struct isod_vector_wrong isod_vector_meet(struct isod_coll *c, const struct isod_vector *w)
{
    struct isod_vector_wrong wrong = {-1, 0, 0};
    isod_coll_begin_epoch(c);
    prim_gather_stores(prim_group_block());
    if (c->rank < isod_coll_others(c))
        prim_fence_flag(); /* pairs with the acquire of the members: they may write dest */
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c); i += c->size) {
        int32_t m = isod_coll_other(c, i);
        struct isod_vector_pair p = isod_vector_mine(w, m);
        isod_place_send(c, m, 1, p.expects >> 16 | p.sends << 24);
        isod_place_send(c, m, 0, p.at | p.expects << 48);
    }
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c) && !c->failed; i += c->size) {
        int32_t m = isod_coll_other(c, i);
        struct isod_places sent = isod_places_wait(c, m, 2);
        struct isod_vector_pair mine = isod_vector_mine(w, m), theirs = isod_vector_pair_of(sent.first, sent.second);
        if (c->failed)
            break;
        isod_vector_compare(&wrong, m, mine.expects, theirs.sends);
        isod_vector_compare(&wrong, m, theirs.expects, mine.sends);
    }
    if (c->rank == 0) {
        struct isod_vector_pair own = isod_vector_mine(w, c->h.my_pe);
        isod_vector_compare(&wrong, c->h.my_pe, own.expects, own.sends);
    }
    prim_acquire_from_peer();
    return wrong;
}

PRIM_FN void isod_vector_send(struct isod_coll *c, const struct isod_vector *w)
{
    for (uint32_t i = 1; i <= (uint32_t)c->h.n_pes; i++) {
        int32_t m = i <= isod_coll_others(c) ? isod_coll_other(c, i) : c->h.my_pe;
        struct isod_vector_pair p = isod_vector_mine(w, m);
        uint64_t sends = p.sends, from = 0;
        const char *source = w->source + w->source_displs[m] * w->unit;
        if (m != c->h.my_pe)
            p = isod_vector_pair_of(isod_place_sent(c, m, 0), isod_place_sent(c, m, 1));
        sends = p.expects < sends ? p.expects : sends;
        uint64_t bytes = sends < ISOD_VECTOR_MOST - 1 ? isod_vector_part(w, sends, &from) : 0;
        char *dest = w->dest + p.at + from;
        if (bytes != 0 && m != c->h.my_pe)
            isod_coll_put(c, m, dest, source + from, bytes);
        else if (bytes != 0)
            isod_coll_copy_own(dest, source + from, bytes);
    }
}

PRIM_CALL_FN int isod_alltoallv(shmemd_t h, struct isod_vector w)
{
    struct isod_coll c;
    if (!isod_coll_enter(&c, h, ISOD_CALL_ALLTOALLV))
        return 1;
    struct isod_vector_wrong wrong = isod_vector_meet(&c, &w);
    if (isod_coll_goes_on(&c)) {
        isod_vector_send(&c, &w);
        isod_coll_begin_epoch(&c);
        isod_coll_sync(&c);
    }
    /* Behind the flags of all threads: peers wait for this member's share, and a handle that has given up sends nothing
     * by the ring. */
    if (prim_sync_or(prim_group_block(), wrong.pe >= 0)) {
        if (wrong.pe >= 0 && w.part == 0)
            isod_coll_leave_misuse(h.team, isod_who(c.call, isod_world_pe(h, wrong.pe)), ISOD_MISUSE_NUMBERS,
                                   wrong.expects, wrong.sends);
        c.failed = true;
    }
    return isod_coll_leave(&c);
}

PRIM_FN int isod_alltoallv_block(shmemd_t h, struct isod_vector w)
{
    int rc = 0;
    if (prim_call_begin())
        rc = isod_alltoallv(h, w);
    return prim_call_end(rc);
}

/* Numbers differ from pair to pair, so no block can know that it has no part: all blocks with a lane take one. */
PRIM_FN int isod_alltoallv_grid(shmemd_t h, struct isod_vector w)
{
    int rc = 1;
    if (prim_call_begin() && !isod_grid_sync(h)) {
        w.part = prim_block_index();
        w.parts = prim_block_count() < h.lanes ? prim_block_count() : h.lanes;
        if (w.part < w.parts)
            (void)isod_alltoallv_block(isod_without_lane(h), w);
        rc = isod_grid_leave(h);
    }
    return prim_call_end(rc);
}

#endif
