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
    PRIM_ROLLED
    for (uint64_t at = (uint64_t)c->rank * 16; at < bytes; at += (uint64_t)c->size * 16)
        prim_store16(c->here + from + at, zero);
}
PRIM_FN void isod_coll_clear_places(const struct isod_coll *c)
{
    isod_coll_clear(c, isod_places_at(c->h.n_pes, c->inbox_bytes), isod_places_bytes(c->h.n_pes));
}
/* Teams that pointers reach; nothing of the ring is compiled in. true, of all three: given up. */
PRIM_COLD_FN bool isod_coll_clear_near(struct isod_team *team, uint32_t call_of, uint64_t epoch)
{
    shmemd_t h = isod_coll_handle(team, call_of);
    struct isod_coll c;
    isod_coll_read_team(&c, h, call_of & 0xffffu);
    c.epoch = epoch;
    isod_coll_clear(&c, isod_flags_bytes(h.n_pes), 4 * (uint64_t)c.inbox_bytes * (uint64_t)h.n_pes);
    isod_coll_clear_places(&c);
    isod_coll_sync_near(&c);
    return !isod_coll_goes_on(&c);
}

/* ---- flags of rare paths, by any group: little is held over their waits and calls, since what of the team is needed is
 * read again ---- */

/* Where the lane is in the member's slot memory; NULL: by the ring. */
PRIM_FN char *isod_lane_memory(const struct isod_team *team, int32_t member, uint32_t lane)
{
    char **memory = (char **)(void *)ISOD_LOAD_POINTER(&team->memory);
    char *slot = ISOD_LOAD_POINTER(&memory[member]);
    return slot != 0 ? slot + lane * isod_lane_bytes(team->n_pes, team->inbox_bytes) : (char *)0;
}
/* The i-th other member, as isod_coll_other. */
PRIM_FN int32_t isod_lane_other(const struct isod_team *team, int32_t i)
{
    int32_t pe = team->my_pe + i;
    return pe < team->n_pes ? pe : pe - team->n_pes;
}

/* Thread i flags the i-th other member. */
PRIM_PART_FN void isod_rounds_send(struct isod_team *team, uint32_t call_of, uint64_t epoch, struct prim_group g)
{
    const uint32_t lane = isod_lane_of(isod_coll_handle(team, call_of));
    PRIM_ROLLED
    for (int32_t i = (int32_t)prim_rank(g) + 1; i < team->n_pes; i += (int32_t)prim_size(g)) {
        const int32_t to = isod_lane_other(team, i);
        char *there = isod_lane_memory(team, to, lane);
        if (there != 0) {
            prim_store_flag_u64((uint64_t *)(void *)there + team->my_pe, epoch);
        } else { /* as isod_flag_store_far, whose call would be another one of the chain */
            const shmemd_t h = isod_coll_handle(team, 0);
            const uint64_t at = lane * isod_lane_bytes(team->n_pes, team->inbox_bytes) + (uint64_t)team->my_pe * 8;
            char *flag = h.heap + prim_load_const_u64(&team->offsets[to]) + at;
            isod_ring_signal(team, (uint64_t *)(void *)flag, epoch, ISOD_SIGNAL_SET, isod_world_pe(h, to));
        }
    }
}
/* It waits for the flag of that member. false: given up. */
PRIM_PART_FN bool isod_rounds_wait(struct isod_team *team, uint32_t call_of, uint64_t epoch, enum isod_meaning meaning,
                                   struct prim_group g)
{
    const uint32_t lane = isod_lane_of(isod_coll_handle(team, call_of));
    struct isod_waiting w = {0, 0};
    PRIM_ROLLED
    for (int32_t i = (int32_t)prim_rank(g) + 1; i < team->n_pes; i += (int32_t)prim_size(g)) {
        const int32_t from = isod_lane_other(team, i);
        const uint64_t *flag = (const uint64_t *)(void *)isod_lane_memory(team, team->my_pe, lane) + from;
        uint64_t seen = isod_flag_look(flag, meaning);
        w.since = 0;
        while (seen < epoch) {
            prim_pause();
            if (++w.polls % ISOD_POLLS_PER_LOOK == 0) {
                const struct isod_waited who = isod_who(call_of & 0xffffu, ISOD_LOAD_I32(&team->world_of[from]));
                w = isod_wait_look(team, w, isod_missed_at(who, flag, epoch, seen));
                if (isod_has_given_up(w))
                    return false;
            }
            seen = isod_flag_look(flag, meaning);
        }
    }
    return true;
}

/* Teams in which a pointer is missing do not use LL. */
PRIM_COLD_FN void isod_rounds_clear(struct isod_team *team, uint32_t call_of, struct prim_group g)
{
    const shmemd_t h = isod_coll_handle(team, call_of);
    struct isod_coll c;
    c.rank = prim_rank(g);
    c.size = prim_size(g);
    c.here = isod_lane_memory(team, h.my_pe, isod_lane_of(h));
    c.inbox_bytes = h.inbox_bytes;
    c.h = h;
    if (isod_goes_direct(h))
        isod_coll_clear(&c, isod_flags_bytes(h.n_pes), 4 * (uint64_t)h.inbox_bytes * (uint64_t)h.n_pes);
    isod_coll_clear_places(&c);
}

/* The same as isod_coll_clear_near for any team and any group. true, for all of it: given up. */
PRIM_COLD_FN bool isod_coll_clear_any(struct isod_team *team, uint32_t call_of, uint64_t epoch, struct prim_group g)
{
    isod_rounds_clear(team, call_of, g);
    prim_gather_stores(g);
    if ((int32_t)prim_rank(g) < team->n_pes - 1)
        prim_fence_flag(); /* pairs with the acquire below, of the members that wait */
    isod_rounds_send(team, call_of, epoch, g);
    const bool failed = !isod_rounds_wait(team, call_of, epoch, ISOD_DATA, g);
    prim_acquire_from_peer();
    return prim_sync_or(g, failed);
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
            isod_ring_quiet_at(h.team);
        /* A load and a store: atomics would wait for each other. */
        c->users = (uint32_t)prim_load_relaxed_u64(&c->lane->users);
        prim_store_relaxed_u64(&c->lane->users, 1);
        c->status = (uint32_t)prim_load_relaxed_u64(&h.team->status);
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
        c->failed = isod_coll_clear_any(h.team, isod_coll_call_of(h, call), c->epoch + 1, prim_group_block());
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
        c->failed = isod_coll_clear_near(h.team, isod_coll_call_of(h, call), c->epoch + 1);
        c->epoch = isod_coll_numbers_after(c->epoch);
    }
    return true;
}
PRIM_FN bool isod_coll_enter_near(struct isod_coll *c, shmemd_t h, uint32_t call)
{
    return isod_coll_enter_near_for(c, h, call, ISOD_EPOCHS_OF_CALL);
}

/* All threads come here when the call has failed for any of them. */
PRIM_COLD_FN int isod_coll_fail(struct isod_team *team, struct isod_lane *lane, uint32_t call, uint64_t users)
{
    if (prim_is_first(prim_group_block())) {
        if (users != 0)
            isod_coll_leave_misuse(team, isod_who(call, -1), ISOD_MISUSE_USERS, 0, users);
        lane->dead = 1;
        isod_handle_give_up(team);
    }
    prim_sync(prim_group_block()); /* the next call reads `dead` plainly */
    return 1;
}

/* All that this block has posted has arrived. By one thread. true: given up. */
PRIM_COLD_FN bool isod_coll_flush(struct isod_team *team, uint32_t call) { return !isod_ring_flush(team, call); }

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
            bad = isod_coll_flush(c->h.team, c->call) || bad;
        if (!c->direct)
            c->status |= (uint32_t)prim_load_relaxed_u64(&c->h.team->status); /* the ring may have given up */
        bad = bad || c->users != 0 || c->status != 0;
        prim_store_relaxed_u64(&c->lane->users, 0);
    }
    prim_settle_stores(prim_group_block()); /* dest, for a fence of one thread */
    if (!prim_sync_or(prim_group_block(), bad))
        return 0;
    return isod_coll_fail(c->h.team, c->lane, c->call, c->users);
}

/* Nothing to do, on all members alike: no epoch. */
PRIM_FN int isod_coll_nothing_by(shmemd_t h, struct prim_group g)
{
    prim_settle_stores(g);
    return prim_sync_or(g, prim_load_relaxed_u64(&h.team->status) != 0) ? 1 : 0;
}
PRIM_FN int isod_coll_nothing(shmemd_t h) { return isod_coll_nothing_by(h, prim_group_block()); }

#endif
