/* SPDX-License-Identifier: MIT */
/* Barrier and sync inside kernels: each member flags each other, one hop. sync is arrival only: it orders no memory, so
 * no fence stands in the way of its flags; barrier completes what this PE has issued and makes it seen.
 * Includes: call_device.h, grid_device.h. Included by include/shmem_device_coll.h. */
#ifndef ISO_SYNC_DEVICE_H
#define ISO_SYNC_DEVICE_H

#include "call_device.h"
#include "grid_device.h"

/* A thread serves one member, and all of them are reached by pointer: no load is needed to know that. */
PRIM_FN bool isod_syncs_directly(shmemd_t h)
{
    return isod_is_direct(h) && h.n_pes > 1 && h.n_pes <= ISOD_NEAR && isod_lane_of(h) < h.lanes &&
           prim_size(prim_group_block()) >= (unsigned)h.n_pes;
}

/* Before the flags of a barrier: this PE's operations on the ring are complete, its stores are seen before the flag. */
PRIM_FN void isod_barrier_complete(shmemd_t h)
{
    bool used = isod_ring_used(h); /* this load and the fence wait together */
    prim_fence_flag();             /* pairs with the acquire of the members that wait for the flag */
    if (used)
        isod_ring_quiet(h);
}

/* Thread i flags member i and waits for its flag. false: given up. */
PRIM_FN bool isod_synchronise_member(shmemd_t h, const struct isod_lane *lane, uint64_t epoch, uint32_t call,
                                     enum isod_meaning meaning)
{
    int32_t member = (int32_t)prim_rank(prim_group_block());
    char *there = ISOD_LOAD_POINTER(&lane->near[member]), *here = ISOD_LOAD_POINTER(&lane->near[h.my_pe]);
    if (meaning == ISOD_DATA)
        isod_barrier_complete(h);
    prim_store_flag_u64((uint64_t *)(void *)there + h.my_pe, epoch);

    const uint64_t *flag = (const uint64_t *)(const void *)here + member;
    struct isod_waited who = isod_who(call, isod_world_pe(h, member));
    struct isod_waiting w = {0, 0, 0};
    for (;;) {
        uint64_t seen = 0;
        PRIM_WAIT_FOR_WORD
        for (uint32_t polls = ISOD_POLLS_PER_LOOK; polls != 0; polls--) {
            seen = isod_flag_look(flag, meaning);
            if (seen >= epoch) {
                if (meaning == ISOD_DATA)
                    prim_acquire_from_peer();
                return true;
            }
            prim_pause();
        }
        w = isod_wait_look(isod_origin_of(h), w, isod_missed_at(who, flag, epoch, seen));
        if (w.reported == 2)
            return false;
    }
}

/* The general way: any number of members, the ring, epoch numbers that wrap. */
PRIM_COLD_FN int isod_synchronise_by_rounds(struct isod_origin home, char *heap, uint32_t call_of,
                                            enum isod_meaning meaning)
{
    shmemd_t h = isod_coll_handle(home, heap, call_of);
    struct isod_coll c;
    if (!isod_coll_open(&c, h, call_of & 0xffffu))
        return 1;
    if (isod_coll_numbers_turn(c.epoch, ISOD_EPOCHS_OF_CALL)) {
        uint64_t done = c.epoch;
        isod_coll_begin_epoch(&c);
        c.failed = c.direct ? isod_coll_clear_near(home, heap, call_of, c.epoch) : isod_coll_clear_far(&c);
        c.epoch = isod_coll_numbers_after(done);
    }
    isod_coll_begin_epoch(&c);
    prim_gather_stores(prim_group_block());
    if (meaning == ISOD_DATA && (c.rank == 0 || c.rank < isod_coll_others(&c)))
        isod_barrier_complete(h);
    isod_flags_send(&c, -1);
    isod_flags_wait(&c, -1, meaning);
    prim_acquire_from_peer();
    return isod_coll_leave(&c);
}

/* As short as it can be: each instruction here is latency of the smallest collective. The lane is read by all before
 * the first sync, and written by one thread that waits for a member, behind that wait. */
PRIM_FN int isod_synchronise(shmemd_t h, uint32_t call, enum isod_meaning meaning)
{
    struct prim_group block = prim_group_block();
    struct isod_lane *lane = ISOD_LANES(h.team) + isod_lane_of(h);
    if (!isod_syncs_directly(h))
        return isod_synchronise_by_rounds(isod_origin_of(h), h.heap, isod_coll_call_of(h, call), meaning);
    int32_t rank = (int32_t)prim_rank(block), clerk = h.my_pe == 0 ? 1 : 0;
    uint64_t done = lane->epoch, epoch = done + 1, dead = lane->dead, users = 0, status = 0;
    if (meaning == ISOD_DATA)
        prim_gather_stores(block);
    else
        prim_sync(block); /* all threads of the block have arrived, before any flag says so */
    if (dead != 0)
        return 1;
    if (isod_coll_numbers_turn(done, ISOD_EPOCHS_OF_CALL)) /* the same epoch on all members, by whichever way they go */
        return isod_synchronise_by_rounds(isod_origin_of(h), h.heap, isod_coll_call_of(h, call), meaning);
    if (rank == clerk) { /* under way until the flags have come */
        users = prim_load_relaxed_u64(&lane->users);
        status = prim_load_relaxed_u64(&h.team->status);
        prim_store_relaxed_u64(&lane->users, 1);
    }
    bool bad = rank < h.n_pes && rank != h.my_pe && !isod_synchronise_member(h, lane, epoch, call, meaning);
    if (rank == clerk) {
        lane->epoch = epoch;
        prim_store_relaxed_u64(&lane->users, 0);
        bad = bad || users != 0 || status != 0;
        if (users != 0)
            isod_coll_leave_misuse(isod_origin_of(h), isod_who(call, -1), ISOD_MISUSE_USERS, 0, users);
    }
    if (isod_lane_chosen(h) != 0)
        prim_settle_stores(block); /* flags and lane: the block that has the lane next may hear of it from any thread */
    return prim_sync_or(block, bad) ? isod_coll_fail(isod_origin_of(h), lane, call, 0) : 0;
}

PRIM_FN int isod_synchronise_block(shmemd_t h, uint32_t call, enum isod_meaning meaning)
{
    int rc = 0;
    if (prim_call_begin())
        rc = isod_synchronise(h, call, meaning);
    return prim_call_end(rc);
}

PRIM_FN int isod_sync_block(shmemd_t h) { return isod_synchronise_block(h, ISOD_CALL_SYNC, ISOD_ARRIVAL); }
PRIM_FN int isod_barrier_block(shmemd_t h) { return isod_synchronise_block(h, ISOD_CALL_BARRIER, ISOD_DATA); }

/* By one thread or one wave, in the sequence of its block's lane: the general way, with that group's syncs. */
PRIM_COLD_FN int isod_synchronise_by_few(struct isod_origin home, char *heap, uint32_t call_of,
                                         enum isod_meaning meaning, struct prim_group g)
{
    shmemd_t h = isod_coll_handle(home, heap, call_of);
    const struct isod_waited who = isod_who(call_of & 0xffffu, -1);
    const bool first = prim_is_first(g);
    struct isod_coll c;
    if (isod_lane_of(h) >= h.lanes) {
        if (first)
            isod_coll_leave_misuse(home, who, ISOD_MISUSE_LANES, h.lanes, isod_lane_of(h));
        prim_sync(g);
        return 1;
    }
    if (isod_coll_lacks_ring(h, g))
        return 1;
    isod_coll_read_team(&c, h, who.call);
    c.rank = prim_rank(g);
    c.size = prim_size(g);
    c.first = c.rank < isod_coll_others(&c) ? isod_coll_memory(&c, isod_coll_other(&c, c.rank + 1)) : (char *)0;
    const uint64_t dead = c.lane->dead;
    c.epoch = c.lane->epoch != 0 ? c.lane->epoch : 1;
    prim_sync(g); /* all have read the lane */
    if (dead != 0)
        return 1;
    if (first) {
        if (!c.direct && isod_lane_chosen(h) != 0) /* as in isod_coll_open */
            isod_ring_quiet_at(home);
        c.users = prim_load_relaxed_u64(&c.lane->users);
        prim_store_relaxed_u64(&c.lane->users, 1);
        c.status = prim_load_relaxed_u64(&h.team->status);
    }
    bool turns = isod_coll_numbers_turn(c.epoch, ISOD_EPOCHS_OF_CALL);
    for (int step = turns ? 0 : 1; step < 2; step++) { /* the first one clears, as in isod_synchronise_by_rounds */
        const uint64_t done = c.epoch;
        isod_coll_begin_epoch(&c);
        if (step == 0 && c.direct)
            isod_coll_clear(&c, isod_flags_bytes(h.n_pes), 4 * (uint64_t)c.inbox_bytes * (uint64_t)h.n_pes);
        if (step == 0)
            isod_coll_clear_places(&c);
        prim_gather_stores(g);
        if ((step == 0 || meaning == ISOD_DATA) && (first || c.rank < isod_coll_others(&c)))
            isod_barrier_complete(h);
        isod_flags_send(&c, -1);
        isod_flags_wait(&c, -1, step == 0 ? ISOD_DATA : meaning);
        prim_acquire_from_peer();
        c.failed = prim_sync_or(g, c.failed);
        if (step == 0)
            c.epoch = isod_coll_numbers_after(done);
    }
    if (first) {
        c.lane->epoch = c.epoch;
        if (!c.direct && isod_lane_chosen(h) != 0)
            c.failed = isod_coll_flush(home, who.call) || c.failed;
        c.status |= prim_load_relaxed_u64(&h.team->status); /* the ring may have given up */
        prim_store_relaxed_u64(&c.lane->users, 0);
        if (c.users != 0)
            isod_coll_leave_misuse(home, who, ISOD_MISUSE_USERS, 0, c.users);
        c.failed = c.failed || c.users != 0 || c.status != 0;
        if (c.failed) {
            c.lane->dead = 1;
            isod_handle_give_up(home);
        }
    }
    prim_settle_stores(g);
    return prim_sync_or(g, c.failed) ? 1 : 0;
}
PRIM_FN int isod_sync_by_few(shmemd_t h, struct prim_group g)
{
    return isod_synchronise_by_few(isod_origin_of(h), h.heap, isod_coll_call_of(h, ISOD_CALL_SYNC), ISOD_ARRIVAL, g);
}
PRIM_FN int isod_barrier_by_few(shmemd_t h, struct prim_group g)
{
    return isod_synchronise_by_few(isod_origin_of(h), h.heap, isod_coll_call_of(h, ISOD_CALL_BARRIER), ISOD_DATA, g);
}

PRIM_FN int isod_sync_grid(shmemd_t h)
{
    int rc = 1;
    if (prim_call_begin() && !isod_grid_sync(h)) {
        if (prim_block_index() == 0)
            (void)isod_sync_block(isod_without_lane(h));
        rc = isod_grid_leave(h);
    }
    return prim_call_end(rc);
}

PRIM_FN int isod_barrier_grid(shmemd_t h)
{
    int rc = 1;
    if (prim_call_begin() && !isod_grid_sync(h)) {
        if (prim_block_index() == 0)
            (void)isod_barrier_block(isod_without_lane(h));
        rc = isod_grid_leave(h);
    }
    return prim_call_end(rc);
}

#endif
