/* SPDX-License-Identifier: MIT */
/* Begin and end of a call of a session. Includes: flags_device.h. */
#ifndef ISO_CALL_DEVICE_H
#define ISO_CALL_DEVICE_H

#include "flags_device.h"

/* The part of a call that does not change from call to call. */
PRIM_FN void isod_coll_read_team(struct isod_coll *c, shmemd_t h, uint32_t call)
{
    c->h = h;
    c->call = call;
    c->rank = prim_rank(prim_group_block());
    c->size = prim_size(prim_group_block());
    c->lane = ISOD_LANES(h.team) + isod_lane_of(h);
    c->inbox_bytes = h.inbox_bytes;
    c->direct = isod_goes_direct(h);
    c->inbox_at = c->users = c->status = 0;
    c->failed = false;
    c->here = isod_coll_memory(c, h.my_pe);
    c->first = c->rank < isod_coll_others(c) ? isod_coll_memory(c, isod_coll_other(c, c->rank + 1)) : (char *)0;
}

/* The low 32 bits of epochs are about to wrap: old LL words and places could be taken for new ones. So each member
 * clears its inboxes and places before a synchronisation, which is the next epoch. All those of earlier epochs have
 * been read, since every call waits for all that is sent to it. */
PRIM_FN void isod_coll_clear(const struct isod_coll *c, uint64_t from, uint64_t bytes)
{
    struct prim_vec16 zero = {{0, 0}};
    for (uint64_t at = (uint64_t)c->rank * 16; at < bytes; at += (uint64_t)c->size * 16)
        prim_store16(c->here + from + at, zero);
}
PRIM_FN void isod_coll_clear_places(const struct isod_coll *c)
{
    isod_coll_clear(c, isod_places_at(c->h.n_pes, c->inbox_bytes), isod_places_bytes(c->h.n_pes));
}
/* Teams that pointers reach; nothing of the ring is compiled in. true, of all four: given up. */
PRIM_COLD_FN bool isod_coll_clear_near(struct isod_origin home, char *heap, uint32_t call_of, uint64_t epoch)
{
    shmemd_t h = isod_coll_handle(home, heap, call_of);
    struct isod_coll c;
    isod_coll_read_team(&c, h, call_of & 0xffffu);
    c.epoch = epoch;
    isod_coll_clear(&c, isod_flags_bytes(h.n_pes), 4 * (uint64_t)c.inbox_bytes * (uint64_t)h.n_pes);
    isod_coll_clear_places(&c);
    isod_coll_sync_near(&c);
    return !isod_coll_goes_on(&c);
}
/* Teams in which a pointer is missing do not use LL. Inlined where the caller is a function already: it calls the ring,
 * and each level of calls costs the kernel registers. In the epoch of c. */
PRIM_FN bool isod_coll_clear_far(struct isod_coll *c)
{
    isod_coll_clear_places(c);
    isod_coll_sync(c);
    return !isod_coll_goes_on(c);
}
PRIM_COLD_FN bool isod_coll_clear_far_at(struct isod_origin home, char *heap, uint32_t call_of, uint64_t epoch)
{
    struct isod_coll c;
    isod_coll_read_team(&c, isod_coll_handle(home, heap, call_of), call_of & 0xffffu);
    c.epoch = epoch;
    return isod_coll_clear_far(&c);
}
/* One call of kernels for both. */
PRIM_COLD_FN bool isod_coll_clear_any(struct isod_origin home, char *heap, uint32_t call_of, uint64_t epoch)
{
    return isod_is_direct(isod_coll_handle(home, heap, call_of))
               ? isod_coll_clear_near(home, heap, call_of, epoch)
               : isod_coll_clear_far_at(home, heap, call_of, epoch);
}

/* The low 32 bits 0 and 1 are skipped: fresh memory holds 0. */
PRIM_FN bool isod_coll_numbers_turn(uint64_t done, uint64_t epochs)
{
    return done == 0 || (uint32_t)done + epochs > 0xffffffffu;
}
PRIM_FN uint64_t isod_coll_numbers_after(uint64_t done) { return (done | 0xffffffffu) + 2; }

/* A call begins, without the turn of its numbers. false, for all threads: the call returns nonzero at once. */
PRIM_FN bool isod_coll_open(struct isod_coll *c, shmemd_t h, uint32_t call)
{
    if (isod_lane_of(h) >= h.lanes)
        return isod_coll_misuse(h, call, ISOD_MISUSE_LANES, h.lanes, isod_lane_of(h)) == 0;
    if (isod_coll_lacks_ring(h, prim_group_block()))
        return false;
    isod_coll_read_team(c, h, call); /* all loads are under way before one of them is waited for */
    uint64_t dead = c->lane->dead;
    c->epoch = c->lane->epoch;
    c->staged = c->lane->staged;
    if (c->rank == 0) {
        if (!c->direct && isod_lane_chosen(h) != 0) /* the lane's last call may have been on another block's ring */
            isod_ring_quiet_at(isod_origin_of(h));
        c->users = prim_load_relaxed_u64(&c->lane->users); /* a load and a store: atomics would wait for each other */
        prim_store_relaxed_u64(&c->lane->users, 1);
        c->status = prim_load_relaxed_u64(&h.team->status);
    }
    if (dead != 0) {
        if (c->rank == 0)
            prim_store_relaxed_u64(&c->lane->users, 0);
        return false;
    }
    if (c->epoch == 0)
        c->epoch = 1;
    return true;
}
/* For a call of at most `epochs` epochs. false, for all threads: the call returns nonzero at once. Not a sync: the
 * schedule begins by one. */
PRIM_FN bool isod_coll_enter_for(struct isod_coll *c, shmemd_t h, uint32_t call, uint64_t epochs)
{
    if (!isod_coll_open(c, h, call))
        return false;
    if (isod_coll_numbers_turn(c->epoch, epochs)) {
        c->failed = isod_coll_clear_any(isod_origin_of(h), h.heap, isod_coll_call_of(h, call), c->epoch + 1);
        c->epoch = isod_coll_numbers_after(c->epoch);
    }
    return true;
}
PRIM_FN bool isod_coll_enter(struct isod_coll *c, shmemd_t h, uint32_t call)
{
    return isod_coll_enter_for(c, h, call, ISOD_EPOCHS_OF_CALL);
}
/* The same for teams that pointers reach: nothing of the ring is compiled in. A schedule that the compiler gives more
 * registers so keeps isod_coll_enter. */
PRIM_FN bool isod_coll_enter_near_for(struct isod_coll *c, shmemd_t h, uint32_t call, uint64_t epochs)
{
    if (!isod_coll_open(c, h, call))
        return false;
    if (isod_coll_numbers_turn(c->epoch, epochs)) {
        c->failed = isod_coll_clear_near(isod_origin_of(h), h.heap, isod_coll_call_of(h, call), c->epoch + 1);
        c->epoch = isod_coll_numbers_after(c->epoch);
    }
    return true;
}
PRIM_FN bool isod_coll_enter_near(struct isod_coll *c, shmemd_t h, uint32_t call)
{
    return isod_coll_enter_near_for(c, h, call, ISOD_EPOCHS_OF_CALL);
}

/* All threads come here when the call has failed for any of them. */
PRIM_COLD_FN int isod_coll_fail(struct isod_origin at, struct isod_lane *lane, uint32_t call, uint64_t users)
{
    if (prim_is_first(prim_group_block())) {
        if (users != 0)
            isod_coll_leave_misuse(at, isod_who(call, -1), ISOD_MISUSE_USERS, 0, users);
        lane->dead = 1;
        isod_handle_give_up(at);
    }
    prim_sync(prim_group_block()); /* the next call reads `dead` plainly */
    return 1;
}

/* All that this block has posted has arrived. By one thread. true: given up. */
PRIM_COLD_FN bool isod_coll_flush(struct isod_origin at, uint32_t call) { return !isod_ring_flush(at, call); }

/* A sync: the result is there for all threads. Returns what the call returns, the same for all of them. */
PRIM_FN int isod_coll_leave(struct isod_coll *c)
{
    bool bad = c->failed;
    if (!c->direct && isod_lane_chosen(c->h) != 0)
        prim_sync(prim_group_block()); /* all threads have posted what the first one waits for */
    if (c->rank == 0) { /* all threads have read the lane before the first sync of the call */
        c->lane->epoch = c->epoch;
        c->lane->staged = c->staged;
        if (!c->direct && isod_lane_chosen(c->h) != 0) /* the next block on the chosen lane has another ring */
            bad = isod_coll_flush(isod_origin_of(c->h), c->call) || bad;
        if (!c->direct)
            c->status |= prim_load_relaxed_u64(&c->h.team->status); /* the ring may have given up */
        bad = bad || c->users != 0 || c->status != 0;
        prim_store_relaxed_u64(&c->lane->users, 0);
    }
    prim_settle_stores(prim_group_block()); /* dest, for a fence of one thread */
    if (!prim_sync_or(prim_group_block(), bad))
        return 0;
    return isod_coll_fail(isod_origin_of(c->h), c->lane, c->call, c->users);
}

/* Nothing to do, on all members alike: no epoch. */
PRIM_FN int isod_coll_nothing(shmemd_t h)
{
    prim_settle_stores(prim_group_block());
    return prim_sync_or(prim_group_block(), prim_load_relaxed_u64(&h.team->status) != 0) ? 1 : 0;
}

#endif
