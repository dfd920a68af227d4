/* SPDX-License-Identifier: MIT */
/* Flags of a session: one word of each sender in the receiver's memory. Includes: session_device.h. */
#ifndef ISO_FLAGS_DEVICE_H
#define ISO_FLAGS_DEVICE_H

#include "session_device.h"

/* Ways by the ring are functions of their own: they cost registers, and the calls that do not take them none. */
PRIM_COLD_FN void isod_flag_store_far(struct isod_team *team, int32_t to, uint64_t at, uint64_t epoch)
{
    const shmemd_t h = isod_coll_handle(team, 0);
    char *flag = h.heap + prim_load_const_u64(&team->offsets[to]) + at;
    isod_ring_signal(team, (uint64_t *)(void *)flag, epoch, ISOD_SIGNAL_SET, isod_world_pe(h, to));
}

/* By the calling thread. The flag announces stores only behind prim_gather_stores by the block and prim_fence_flag by
 * this thread. Pairs with isod_flag_wait. */
PRIM_FN void isod_flag_store(struct isod_coll *c, int32_t to, char *memory)
{
    uint64_t at = (uint64_t)c->h.my_pe * 8;
    if (memory != 0)
        prim_store_flag_u64((uint64_t *)(void *)(memory + at), c->epoch);
    else
        isod_flag_store_far(c->h.team, to, isod_coll_lane_at(c) + at, c->epoch);
}
PRIM_FN void isod_flag_send(struct isod_coll *c, int32_t to) { isod_flag_store(c, to, isod_coll_memory(c, to)); }

/* A flag stands for data that is read afterwards, or for arrival alone: its sender has read the memory that is
 * overwritten afterwards. Loads whose values were used are done, so this needs no acquire (on NVIDIA that would empty
 * the first-level cache, tables and all); where one costs nothing, it is made all the same, and race detectors know. */
enum isod_meaning { ISOD_DATA, ISOD_ARRIVAL };
PRIM_FN uint64_t isod_flag_look(const uint64_t *flag, enum isod_meaning meaning)
{
#ifdef PRIM_ACQUIRES_FREELY
    meaning = ISOD_DATA;
#endif
    return meaning == ISOD_DATA ? prim_peek_u64(flag) : prim_load_relaxed_u64(flag);
}

/* By the calling thread, until `from` has set its flag of this epoch or of a later one. After it
 * prim_acquire_from_peer, and a sync of the threads that read, where the flag stands for data. */
PRIM_FN void isod_flag_wait(struct isod_coll *c, int32_t from, enum isod_meaning meaning)
{
    const uint64_t *flag = (const uint64_t *)(const void *)(c->here + (uint64_t)from * 8);
    struct isod_waiting w = {0, 0};
    while (!c->failed) {
        uint64_t seen = 0;
        PRIM_WAIT_FOR_WORD
        for (uint32_t polls = ISOD_POLLS_PER_LOOK; polls != 0; polls--) {
            seen = isod_flag_look(flag, meaning);
            if (seen >= c->epoch)
                return;
            prim_pause();
        }
        isod_coll_look(c, &w, from, flag, seen);
    }
}

/* To all other members but `but` (-1: to all). */
PRIM_FN void isod_flags_send(struct isod_coll *c, int32_t but)
{
    char *memory = c->first;
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c); i += c->size) {
        int32_t to = isod_coll_other(c, i);
        if (i != c->rank + 1)
            memory = isod_coll_memory(c, to);
        if (to != but)
            isod_flag_store(c, to, memory);
    }
}
PRIM_FN void isod_flags_wait(struct isod_coll *c, int32_t but, enum isod_meaning meaning)
{
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c); i += c->size)
        if (isod_coll_other(c, i) != but)
            isod_flag_wait(c, isod_coll_other(c, i), meaning);
}

/* All members are here; earlier stores and reads of their blocks are done. After it a sync; then all threads may
 * read. */
PRIM_FN void isod_coll_sync(struct isod_coll *c)
{
    prim_gather_stores(prim_group_block());
    if (c->rank < isod_coll_others(c))
        prim_fence_flag(); /* pairs with the acquire below, of the members that wait */
    isod_flags_send(c, -1);
    isod_flags_wait(c, -1, ISOD_DATA);
    prim_acquire_from_peer();
}

/* The same for teams that pointers reach: nothing of the ring is compiled in. */
PRIM_FN void isod_flags_send_near(struct isod_coll *c)
{
    for (uint32_t i = c->rank + 1; i <= isod_coll_others(c); i += c->size) {
        char *memory = isod_coll_memory(c, isod_coll_other(c, i));
        prim_store_flag_u64((uint64_t *)(void *)memory + c->h.my_pe, c->epoch); /* pairs with isod_flag_wait */
    }
}
PRIM_FN void isod_coll_sync_near(struct isod_coll *c)
{
    prim_gather_stores(prim_group_block());
    if (c->rank < isod_coll_others(c))
        prim_fence_flag(); /* pairs with the acquire below, of the members that wait */
    isod_flags_send_near(c);
    isod_flags_wait(c, -1, ISOD_DATA);
    prim_acquire_from_peer();
}

/* A sync in the midst of a call. false, for all threads: a thread has given up, so nothing more is sent. */
PRIM_FN bool isod_coll_goes_on(struct isod_coll *c)
{
    c->failed = prim_sync_or(prim_group_block(), c->failed);
    return !c->failed;
}

#endif
