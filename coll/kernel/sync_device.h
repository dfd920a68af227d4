/* SPDX-License-Identifier: MIT */
/* Barrier and sync inside kernels: each member flags each other, one hop. sync is arrival only: it orders no memory, so
 * no fence stands in the way of its flags; barrier completes what this PE has issued and makes it seen.
 * Includes: call_device.h, grid_device.h. Included by include/shmem_device_coll.h. */
#ifndef ISO_SYNC_DEVICE_H
#define ISO_SYNC_DEVICE_H

#include "call_device.h"
#include "grid_device.h"

/* All members are reached by pointer, and each of them by a thread of its own, or by the only one: no load is needed to
 * know that. */
PRIM_FN bool isod_syncs_directly(shmemd_t h, struct prim_group g)
{
    return isod_is_direct(h) && h.n_pes > 1 && h.n_pes <= ISOD_NEAR && isod_lane_of(h) < h.lanes &&
           (g.kind == PRIM_THREAD || prim_size(g) >= (unsigned)h.n_pes);
}

/* Before the flags of a barrier: this PE's operations on the ring are complete, its stores are seen before the flag. */
PRIM_FN void isod_barrier_complete(shmemd_t h)
{
    bool used = isod_ring_used(h); /* this load and the fence wait together */
    prim_fence_flag();             /* pairs with the acquire of the members that wait for the flag */
    if (used)
        isod_ring_quiet(h);
}

/* By the calling thread, to the member. */
PRIM_FN void isod_synchronise_send(shmemd_t h, const struct isod_lane *lane, uint64_t epoch, int32_t member)
{
    char *there = ISOD_LOAD_POINTER(&lane->near[member]);
    prim_store_flag_u64((uint64_t *)(void *)there + h.my_pe, epoch);
}
/* It waits for the member's flag. false: given up. */
PRIM_FN bool isod_synchronise_wait(shmemd_t h, const struct isod_lane *lane, uint64_t epoch, uint32_t call,
                                   enum isod_meaning meaning, int32_t member)
{
    char *here = ISOD_LOAD_POINTER(&lane->near[h.my_pe]);
    const uint64_t *flag = (const uint64_t *)(const void *)here + member;
    struct isod_waited who = isod_who(call, isod_world_pe(h, member));
    struct isod_waiting w = {0, 0};
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
        w = isod_wait_look(h.team, w, isod_missed_at(who, flag, epoch, seen));
        if (isod_has_given_up(w))
            return false;
    }
}

/* ---- the general way: any number of members, the ring, epoch numbers that wrap; by a thread, a wave, a block ---- */

/* What a call has found on its lane. */
struct isod_rounds {
    uint64_t epoch; /* the last one that is done; 0: the call returns at once */
    bool used;      /* first thread: by another block, which is misuse */
};
PRIM_COLD_FN struct isod_rounds isod_rounds_enter(struct isod_team *team, uint32_t call_of, struct prim_group g)
{
    const shmemd_t h = isod_coll_handle(team, call_of);
    const uint32_t number = isod_lane_of(h);
    struct isod_lane *lane = ISOD_LANES(team) + number;
    struct isod_rounds r = {0, false};
    if (number >= (uint32_t)team->lanes) {
        if (prim_is_first(g))
            isod_coll_leave_misuse(team, isod_who(call_of & 0xffffu, -1), ISOD_MISUSE_LANES, (uint64_t)team->lanes,
                                   number);
        prim_sync(g);
        return r;
    }
    if (isod_coll_lacks_ring(h, g))
        return r;
    uint64_t epoch = lane->epoch;
    const bool dead = lane->dead != 0;
    prim_sync(g); /* all have read the lane */
    if (dead)
        return r;
    if (prim_is_first(g)) {
        if (!isod_goes_direct(h) && isod_lane_chosen(h) != 0) /* as in isod_coll_open */
            isod_ring_quiet_at(team);
        r.used = prim_load_relaxed_u64(&lane->users) != 0;
        prim_store_relaxed_u64(&lane->users, 1);
    }
    r.epoch = epoch != 0 ? epoch : 1;
    return r;
}
/* What the call returns for the first thread, the only one that calls. */
PRIM_COLD_FN bool isod_rounds_leave(struct isod_team *team, uint32_t call_of, struct isod_rounds r, bool failed)
{
    const shmemd_t h = isod_coll_handle(team, call_of);
    struct isod_lane *lane = ISOD_LANES(team) + isod_lane_of(h);
    lane->epoch = r.epoch;
    if (!isod_goes_direct(h) && isod_lane_chosen(h) != 0) /* the next block on the chosen lane has another ring */
        failed = isod_coll_flush(team, call_of & 0xffffu) || failed;
    prim_store_relaxed_u64(&lane->users, 0);
    if (r.used)
        isod_coll_leave_misuse(team, isod_who(call_of & 0xffffu, -1), ISOD_MISUSE_USERS, 0, 1);
    failed = failed || prim_load_relaxed_u64(&team->status) != 0; /* found so, or the ring has given up */
    if (failed) {
        lane->dead = 1;
        isod_handle_give_up(team);
    }
    return failed;
}

PRIM_COLD_FN int isod_synchronise_by_rounds(struct isod_team *team, uint32_t call_of, enum isod_meaning meaning,
                                            struct prim_group g)
{
    struct isod_rounds r = isod_rounds_enter(team, call_of, g);
    bool failed = false;
    if (r.epoch == 0)
        return 1;
    PRIM_ROLLED
    for (int step = isod_coll_numbers_turn(r.epoch, ISOD_EPOCHS_OF_CALL) ? 0 : 1; step < 2; step++) {
        const bool clears = step == 0; /* as isod_coll_clear_any, whose call would be another one of the chain */
        if (clears)
            isod_rounds_clear(team, call_of, g);
        prim_gather_stores(g);
        if ((clears || meaning == ISOD_DATA) && (prim_is_first(g) || (int32_t)prim_rank(g) < team->n_pes - 1))
            isod_barrier_complete(isod_coll_handle(team, call_of));
        isod_rounds_send(team, call_of, r.epoch + 1, g);
        if (!failed)
            failed = !isod_rounds_wait(team, call_of, r.epoch + 1, clears ? ISOD_DATA : meaning, g);
        prim_acquire_from_peer();
        failed = prim_sync_or(g, failed);
        r.epoch = clears ? isod_coll_numbers_after(r.epoch) : r.epoch + 1;
    }
    if (prim_is_first(g))
        failed = isod_rounds_leave(team, call_of, r, failed);
    prim_settle_stores(g);
    return prim_sync_or(g, failed) ? 1 : 0;
}

/* Thread i flags member i and waits for its flag; a thread alone does so for all. false: given up. */
PRIM_FN bool isod_synchronise_members(shmemd_t h, struct prim_group g, const struct isod_lane *lane, uint64_t epoch,
                                      uint32_t call, enum isod_meaning meaning)
{
    const int32_t rank = (int32_t)prim_rank(g);
    bool all = true;
    if (g.kind != PRIM_THREAD && (rank >= h.n_pes || rank == h.my_pe))
        return true;
    if (meaning == ISOD_DATA)
        isod_barrier_complete(h);
    if (g.kind != PRIM_THREAD) {
        isod_synchronise_send(h, lane, epoch, rank);
        return isod_synchronise_wait(h, lane, epoch, call, meaning, rank);
    }
    PRIM_ROLLED
    for (int32_t m = 0; m < h.n_pes; m++)
        if (m != h.my_pe)
            isod_synchronise_send(h, lane, epoch, m);
    PRIM_ROLLED
    for (int32_t m = 0; m < h.n_pes && all; m++)
        if (m != h.my_pe)
            all = isod_synchronise_wait(h, lane, epoch, call, meaning, m);
    return all;
}

/* For all threads: what the call returns. `bad` of any of them ends the lane. */
PRIM_FN int isod_synchronise_end(shmemd_t h, struct prim_group g, struct isod_lane *lane, uint64_t epoch, uint32_t call,
                                 bool bad)
{
    if (!prim_sync_or(g, bad))
        return 0;
    if (g.kind == PRIM_BLOCK)
        return isod_coll_fail(h.team, lane, call, 0);
    if (prim_is_first(g)) { /* as there */
        const struct isod_rounds r = {epoch, false};
        (void)isod_rounds_leave(h.team, isod_coll_call_of(h, call), r, true);
    }
    prim_sync(g);
    return 1;
}

/* As short as it can be: each instruction here is latency of the smallest collective. The lane is read by all before
 * the first sync, and written by one thread that waits for a member, behind that wait. */
PRIM_FN int isod_synchronise(shmemd_t h, struct prim_group g, uint32_t call, enum isod_meaning meaning)
{
    struct isod_lane *lane = ISOD_LANES(h.team) + isod_lane_of(h);
    int32_t rank = (int32_t)prim_rank(g), clerk = h.my_pe == 0 && g.kind != PRIM_THREAD ? 1 : 0;
    uint32_t users = 0, status = 0;
    uint64_t epoch = 0;
    bool by_rounds = !isod_syncs_directly(h, g);
    if (!by_rounds) {
        const uint64_t done = lane->epoch, dead = lane->dead;
        epoch = done + 1;
        if (meaning == ISOD_DATA)
            prim_gather_stores(g);
        else
            prim_sync(g); /* all threads of the group have arrived, before any flag says so */
        if (dead != 0)
            return 1;
        /* Alike on all members, whichever way they go. */
        by_rounds = isod_coll_numbers_turn(done, ISOD_EPOCHS_OF_CALL);
    }
    if (by_rounds) /* in one place: where calls are inlined, it is most of the code */
        return isod_synchronise_by_rounds(h.team, isod_coll_call_of(h, call), meaning, g);
    if (rank == clerk) { /* under way until the flags have come */
        users = (uint32_t)prim_load_relaxed_u64(&lane->users);
        status = (uint32_t)prim_load_relaxed_u64(&h.team->status);
        prim_store_relaxed_u64(&lane->users, 1);
    }
    bool bad = !isod_synchronise_members(h, g, lane, epoch, call, meaning);
    if (rank == clerk) {
        lane->epoch = epoch;
        prim_store_relaxed_u64(&lane->users, 0);
        bad = bad || users != 0 || status != 0;
        if (users != 0)
            isod_coll_leave_misuse(h.team, isod_who(call, -1), ISOD_MISUSE_USERS, 0, users);
    }
    if (isod_lane_chosen(h) != 0)
        prim_settle_stores(g); /* flags and lane: the group that has the lane next may hear of it from any thread */
    return isod_synchronise_end(h, g, lane, epoch, call, bad);
}

PRIM_FN int isod_synchronise_block(shmemd_t h, uint32_t call, enum isod_meaning meaning)
{
    int rc = 0;
    if (prim_call_begin())
        rc = isod_synchronise(h, prim_group_block(), call, meaning);
    return prim_call_end(rc);
}

PRIM_FN int isod_sync_block(shmemd_t h) { return isod_synchronise_block(h, ISOD_CALL_SYNC, ISOD_ARRIVAL); }
PRIM_FN int isod_barrier_block(shmemd_t h) { return isod_synchronise_block(h, ISOD_CALL_BARRIER, ISOD_DATA); }

/* By one thread or one wave, in the sequence of its block's lane. */
PRIM_FN int isod_sync_few(shmemd_t h, struct prim_group g)
{
    return isod_synchronise(h, g, ISOD_CALL_SYNC, ISOD_ARRIVAL);
}
PRIM_FN int isod_barrier_few(shmemd_t h, struct prim_group g)
{
    return isod_synchronise(h, g, ISOD_CALL_BARRIER, ISOD_DATA);
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
