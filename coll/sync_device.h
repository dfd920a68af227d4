/* SPDX-License-Identifier: MIT */
/* Barrier and sync inside kernels: each member flags each other, one hop. sync is arrival only: it orders no memory, so
 * no fence stands in the way of its flags; barrier completes what this PE has issued and makes it seen.
 * Includes: coll_device.h. Included by include/shmem_device_coll.h. */
#ifndef ISO_SYNC_DEVICE_H
#define ISO_SYNC_DEVICE_H

#include "coll_device.h"

/* What is left when a thread serves one member, all of them are reached by pointer, and step numbers do not wrap here.
 */
PRIM_FN bool isod_meets_directly(shmemd_t h, uint64_t step)
{
    return h.direct != 0 && h.n_pes > 1 && h.n_pes <= ISOD_NEAR && prim_size(prim_group_block()) >= (unsigned)h.n_pes &&
           step != 0 && (uint32_t)step < 0u - ISOD_STEPS_OF_CALL;
}

/* Before the flags of a barrier: what this PE has sent by the ring is complete, its stores are seen before the flag. */
PRIM_FN void isod_barrier_complete(shmemd_t h)
{
    bool used = isod_ring_used(h); /* this load and the fence wait together */
    prim_fence_flag();             /* pairs with the acquire of the members that wait for the flag */
    if (used)
        isod_ring_quiet(h);
}

/* Thread i flags member i and waits for its flag. false: given up. */
PRIM_FN bool isod_meet_member(shmemd_t h, const struct isod_lane *lane, uint64_t step, uint32_t call,
                              enum isod_meaning meaning)
{
    int32_t member = (int32_t)prim_rank(prim_group_block());
    char *there = ISOD_LOAD_POINTER(&lane->near[member]), *here = ISOD_LOAD_POINTER(&lane->near[h.my_pe]);
    const uint64_t *flag = (const uint64_t *)(const void *)here + member;
    struct isod_waiting w = {0, 0, 0};
    bool goes_on = true;
    if (meaning == ISOD_DATA)
        isod_barrier_complete(h);
    prim_store_flag_u64((uint64_t *)(void *)there + h.my_pe, step);
    uint64_t seen = isod_flag_look(flag, meaning);
    while (seen < step && goes_on) {
        goes_on = isod_wait_pause(h, &w, isod_who(call, isod_world_pe(h, member)), flag, step, seen);
        seen = isod_flag_look(flag, meaning);
    }
    if (meaning == ISOD_DATA)
        prim_acquire_from_peer();
    return goes_on;
}

/* As short as it can be: each instruction here is latency of the smallest collective. The lane is read by all before
 * the first sync, and written by one thread that waits for a member, behind that wait. */
PRIM_FN int isod_meet_directly(shmemd_t h, struct isod_lane *lane, uint64_t step, uint32_t call,
                               enum isod_meaning meaning)
{
    struct prim_group block = prim_group_block();
    int32_t rank = (int32_t)prim_rank(block), clerk = h.my_pe == 0 ? 1 : 0;
    uint64_t users = 0, status = 0, dead = lane->dead;
    if (rank == clerk) { /* under way until the flags have come */
        users = prim_fetch_add_u64(&lane->users, 1);
        status = prim_load_relaxed_u64(&h.team->status);
    }
    if (meaning == ISOD_DATA)
        prim_gather_stores(block);
    else
        prim_sync(block); /* all threads of the block have arrived, before any flag says so */
    bool bad = dead != 0;
    if (!bad && rank < h.n_pes && rank != h.my_pe)
        bad = !isod_meet_member(h, lane, step, call, meaning);
    if (rank == clerk) {
        lane->step = step;
        if (users != 0)
            isod_coll_leave_misuse(isod_home_of(h), call, ISOD_MISUSE_USERS, 0, users);
        bad = bad || users != 0 || status != 0;
        (void)prim_fetch_sub_u64(&lane->users, 1);
    }
    if (!prim_sync_or(block, bad))
        return 0;
    return isod_coll_fail(isod_home_of(h), lane, call, 0);
}

PRIM_FN int isod_meet_by_rounds(shmemd_t h, uint32_t call, enum isod_meaning meaning)
{
    struct isod_coll c;
    if (!isod_coll_enter(&c, h, call))
        return 1;
    isod_coll_step(&c);
    prim_gather_stores(prim_group_block());
    if (meaning == ISOD_DATA && (c.rank == 0 || c.rank < isod_coll_others(&c)))
        isod_barrier_complete(h);
    isod_flags_send(&c, -1);
    isod_flags_wait(&c, -1, meaning);
    prim_acquire_from_peer();
    return isod_coll_leave(&c);
}

PRIM_FN int isod_meet_block(shmemd_t h, uint32_t call, enum isod_meaning meaning)
{
    if (prim_block_index() < h.lanes) {
        struct isod_lane *lane = ISOD_LANES(h.team) + prim_block_index();
        uint64_t step = lane->step + 1;
        if (isod_meets_directly(h, step))
            return isod_meet_directly(h, lane, step, call, meaning);
    }
    return isod_meet_by_rounds(h, call, meaning);
}

PRIM_FN int isod_sync_block(shmemd_t h) { return isod_meet_block(h, ISOD_CALL_SYNC, ISOD_ARRIVAL); }
PRIM_FN int isod_barrier_block(shmemd_t h) { return isod_meet_block(h, ISOD_CALL_BARRIER, ISOD_DATA); }

PRIM_FN int isod_sync_grid(shmemd_t h)
{
    if (isod_grid_sync(h))
        return 1;
    if (prim_block_index() == 0)
        (void)isod_sync_block(h);
    return isod_grid_leave(h);
}

PRIM_FN int isod_barrier_grid(shmemd_t h)
{
    if (isod_grid_sync(h))
        return 1;
    if (prim_block_index() == 0)
        (void)isod_barrier_block(h);
    return isod_grid_leave(h);
}

#endif
