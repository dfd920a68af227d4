/* SPDX-License-Identifier: MIT */
/* Places: dest and source may lie elsewhere on each member. A place is the number of a segment and an offset in it
 * (state.h); every member finds its own pointer to it. A member's places are its arrival: they travel as
 * places_device.h says. They say that this kernel has begun, as in isod_stream_announce.
 * A reader works out ahead where the other members are if their places are like its own; so nothing but an addition
 * is left to do when they come, unless they lie in another segment.
 * Includes: places_device.h, on_stream.h. Included by stream_device.h. */
#ifndef ISO_PLACE_STREAM_H
#define ISO_PLACE_STREAM_H

#include "../on_stream.h" /* first */

#include "../../kernel/places_device.h"

/* ---- from a place to a pointer ---- */

PRIM_FN uint32_t isod_place_segment(uint64_t place) { return (uint32_t)(place >> ISOD_PLACE_BITS); }
PRIM_FN uint64_t isod_place_offset(uint64_t place) { return place & (((uint64_t)1 << ISOD_PLACE_BITS) - 1); }

PRIM_COLD_FN char *isod_place_near_by_table(struct isod_origin at, uint64_t place, int32_t pe)
{
    const struct isod_segment *s = &at.world->segments[isod_place_segment(place)];
    char *base = isod_place_segment(place) == ISOD_SEGMENT_HEAP ? ISOD_LOAD_POINTER(&at.team->heaps[pe])
                                                               : s->peers[ISOD_LOAD_I32(&at.team->world_of[pe])];
    return base != 0 ? base + isod_place_offset(place) : (char *)0;
}
/* Where this kernel loads and stores that place of the member; NULL: by the ring. */
PRIM_FN char *isod_place_near(shmemd_t h, uint64_t place, int32_t pe)
{
    if (isod_place_segment(place) == ISOD_SEGMENT_HEAP && h.flat != 0)
        return h.flat + (int64_t)pe * h.flat_stride + isod_place_offset(place);
    return isod_place_near_by_table(isod_origin_of(h), place, pe);
}
/* As this member names it, for the ring. */
PRIM_COLD_FN char *isod_place_name(const struct isod_world *world, uint64_t place)
{
    return world->segments[isod_place_segment(place)].base + isod_place_offset(place);
}

/* ---- tables of a block: how far from our own address the members' ones are. Distances, so that all pointers derive
 * from arguments of the kernel, which are known to be global memory ---- */

#define ISOD_BY_RING INT64_MIN /* instead of a distance: no pointer reaches it */

PRIM_FN int64_t *isod_table_source(void)
{
    PRIM_SHARED(int64_t, sources, ISOD_STREAM_MEMBERS);
    return sources;
}
PRIM_FN int64_t *isod_table_dest(void)
{
    PRIM_SHARED(int64_t, dests, ISOD_STREAM_MEMBERS);
    return dests;
}
PRIM_FN int64_t *isod_table_memory(void)
{
    PRIM_SHARED(int64_t, memories, ISOD_STREAM_MEMBERS);
    return memories;
}

PRIM_FN int64_t isod_distance(shmemd_t h, const char *ours, uint64_t place, int32_t pe)
{
    const char *theirs = isod_place_near(h, place, pe);
    return theirs != 0 ? (int64_t)((uintptr_t)theirs - (uintptr_t)ours) : ISOD_BY_RING;
}
/* The distance when the member's place is known; `ahead`: that of our own place at the member. */
PRIM_FN int64_t isod_distance_of(shmemd_t h, const char *ours, int64_t ahead, uint64_t mine, uint64_t theirs,
                                 int32_t pe)
{
    if (isod_place_segment(mine ^ theirs) != 0)
        return isod_distance(h, ours, theirs, pe);
    return ahead != ISOD_BY_RING ? ahead + (int64_t)(theirs - mine) : ISOD_BY_RING;
}

/* ---- memory of all members that all others touch ---- */

struct isod_touched {
    const char *ours; /* where it is here: at `place` */
    uint64_t place;
    int64_t *table; /* becomes the distances to the members' */
    const char *at; /* what is read or written of it; asked whether that is an address of a unit, at all members */
};
PRIM_FN struct isod_touched isod_touched_of(const char *ours, uint64_t place, int64_t *table, const char *at)
{
    struct isod_touched t;
    t.ours = ours;
    t.place = place;
    t.table = table;
    t.at = at;
    return t;
}

/* Tells all other members one or two places; teams that pointers reach. In two halves, so that other work may be done
 * while places are under way. */
PRIM_FN void isod_places_announce(struct isod_coll *c, uint32_t count, uint64_t first, uint64_t second)
{
    char *memory = c->first;
    isod_coll_begin_epoch(c);
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c); i += c->size) {
        if (i != c->rank + 1)
            memory = isod_coll_memory(c, isod_coll_other(c, i));
        isod_place_send_near(c, memory, 0, first);
        if (count == 2)
            isod_place_send_near(c, memory, 1, second);
    }
}
/* The table as it is when all members' places are like our own, by the threads that wait for them. */
PRIM_FN void isod_table_expect(const struct isod_coll *c, struct isod_touched t)
{
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c); i += c->size)
        t.table[isod_coll_other(c, i)] = isod_distance(c->h, t.ours, t.place, isod_coll_other(c, i));
    if (c->rank == 0)
        t.table[c->h.my_pe] = 0;
}
/* By the thread that has the place of member m. true: what is touched there is not at an address of a unit. */
PRIM_FN bool isod_table_correct(const struct isod_coll *c, struct isod_touched t, int32_t m, uint64_t theirs)
{
    t.table[m] = isod_distance_of(c->h, t.ours, t.table[m], t.place, theirs, m);
    return (((uintptr_t)t.at + (uint64_t)t.table[m]) & 15) != 0;
}
/* All members are here, and the tables are right. A sync. *odd: of the calling thread; then whether any thread has seen
 * an address that is not one of a unit. false: given up. */
PRIM_FN bool isod_places_await(struct isod_coll *c, uint32_t count, struct isod_touched first,
                               struct isod_touched second, bool *odd)
{
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c); i += c->size) {
        int32_t m = isod_coll_other(c, i);
        struct isod_places p = isod_places_wait(c, m, count);
        if (c->failed)
            break;
        *odd = isod_table_correct(c, first, m, p.first) || *odd;
        if (count == 2)
            *odd = isod_table_correct(c, second, m, p.second) || *odd;
    }
    prim_acquire_from_peer();
    *odd = prim_sync_or(prim_group_block(), *odd || c->failed);
    return !*odd || isod_coll_goes_on(c); /* one sync, but in rare cases */
}

#endif
