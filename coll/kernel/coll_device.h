/* SPDX-License-Identifier: MIT */
/* The base of schedules inside kernels: the counterpart of coll.h for a block of a GPU, or of the CPU device. Block b
 * of this PE works with blocks b of the other members, over lane b of the handle, or over one that shmemd_lane has
 * chosen. All threads of the block call every function here, unless it says otherwise; thread i serves the i-th other
 * member. Functions that kernels call stand between prim_call_begin and prim_call_end; all others run within.
 * Invariants: all members go through the same epochs of the same kinds in the same order. An epoch is a number that
 * only grows; flags carry all of it, LL words its low 32 bits. One block at a time uses a lane, so its words are read
 * plainly.
 * Includes: device/. Included by the schedules (*_device.h here). */
#ifndef ISO_COLL_DEVICE_H
#define ISO_COLL_DEVICE_H

#include "../../device/api/place_device.h"
#include "../../device/api/ring.h"
#include "../../device/api/signal_device.h"

/* One call of one block, in registers. */
struct isod_coll {
    shmemd_t h;
    struct isod_lane *lane;
    char *here;        /* this member's slot memory of the lane */
    char *first;       /* that of this thread's first other member, looked up ahead; NULL: none, or by the ring */
    uint64_t inbox_at; /* where the inboxes of the epoch in progress begin in it; staged epochs */
    uint64_t epoch, staged;
    uint64_t users, status; /* first thread: as found on entry, looked at when it leaves, so no thread waits for them */
    uint32_t inbox_bytes, call;
    uint32_t rank, size;
    bool direct; /* all members reach each other by pointer */
    bool failed; /* for this thread: a wait was given up */
};

/* Epochs that one call by LL or LL128 may take; the low 32 bits do not wrap within a call. */
#define ISOD_EPOCHS_OF_CALL 4096u
/* Members whose data a thread waits for at once: as many loads are in flight. */
#define ISOD_BATCH 4

/* Many looks for data or a flag of member `from` have failed. This rare path alone looks up its number in the world. */
PRIM_FN void isod_coll_look(struct isod_coll *c, struct isod_waiting *w, int32_t from, const void *addr, uint64_t seen)
{
    struct isod_waited who = isod_who(c->call, isod_world_pe(c->h, from));
    *w = isod_wait_look(isod_origin_of(c->h), *w, who, addr, c->epoch, seen);
    c->failed = w->reported == 2;
}

/* One look at many LL words has failed: this costs little beside it. */
PRIM_FN void isod_coll_pause(struct isod_coll *c, struct isod_waiting *w, int32_t from, const void *addr)
{
    prim_pause();
    if (++w->polls % ISOD_POLLS_PER_LOOK == 0)
        isod_coll_look(c, w, from, addr, 0);
}

/* Functions of the rare paths get parts of a handle, and make a handle for flags, epochs and the ring of them. call_of:
 * the call and, in its upper half, the handle's `direct` with its lane: one register. */
PRIM_FN uint32_t isod_coll_call_of(shmemd_t h, uint32_t call) { return call | (uint32_t)h.direct << 16; }
PRIM_FN shmemd_t isod_coll_handle(struct isod_origin at, char *heap, uint32_t call_of)
{
    shmemd_t h;
    h.heap = heap;
    h.heap_bytes = 0;
    h.flat = (char *)0;
    h.flat_stride = 0;
    h.team = at.team;
    h.world = at.world;
    h.my_pe = at.team->my_pe;
    h.n_pes = at.team->n_pes;
    h.lanes = (uint16_t)at.team->lanes;
    h.direct = (uint16_t)(call_of >> 16);
    h.inbox_bytes = at.team->inbox_bytes;
    return h;
}

/* The i-th other member, i = 1 .. n - 1, counted from this one: so members do not all begin with the same. */
PRIM_FN int32_t isod_coll_other(const struct isod_coll *c, uint32_t i)
{
    int32_t pe = c->h.my_pe + (int32_t)i;
    return pe < c->h.n_pes ? pe : pe - c->h.n_pes;
}
PRIM_FN uint32_t isod_coll_others(const struct isod_coll *c) { return (uint32_t)c->h.n_pes - 1; }

/* The lane's place in slot memory. Where a lane may be chosen, by the lane's address, which is at hand: what the
 * handle says would take another register in every call, for a rare path. Elsewhere the block's number takes none. */
PRIM_FN uint64_t isod_coll_lane_at(const struct isod_coll *c)
{
#ifdef ISOD_LANES_ARE_BLOCKS
    const uint64_t lane = prim_block_index();
#else
    const uint64_t lane = (uint64_t)(c->lane - ISOD_LANES(c->h.team));
#endif
    return lane * isod_lane_bytes(c->h.n_pes, c->h.inbox_bytes);
}

PRIM_COLD_FN char *isod_coll_memory_of_many(const struct isod_team *t, int32_t member, uint64_t lane_at)
{
    char **memory = (char **)(void *)ISOD_LOAD_POINTER(&t->memory);
    char *slot = ISOD_LOAD_POINTER(&memory[member]);
    return slot != 0 ? slot + lane_at : (char *)0;
}
/* The lane in the member's slot memory; NULL: by the ring. */
PRIM_FN char *isod_coll_memory(const struct isod_coll *c, int32_t member)
{
    if (c->h.n_pes > ISOD_NEAR) /* the same for all members: no two ways in one loop */
        return isod_coll_memory_of_many(c->h.team, member, isod_coll_lane_at(c));
    return ISOD_LOAD_POINTER(&c->lane->near[member]);
}
/* As this member names it, for the ring. */
PRIM_FN char *isod_coll_far_memory(const struct isod_coll *c, int32_t member)
{
    return c->h.heap + prim_load_const_u64(&c->h.team->offsets[member]) + isod_coll_lane_at(c);
}

/* ---- misuse ---- */

/* By one thread. Its call goes on, since peers wait for its share: the handle may not give up before the end. */
PRIM_COLD_FN void isod_coll_record_misuse(struct isod_origin at, struct isod_waited who, enum isod_misuse what,
                                          uint64_t expected, uint64_t seen)
{
    struct isod_record r;
    r.call = who.call;
    r.pe = who.pe;
    r.addr = 0;
    r.expected = expected;
    r.seen = seen;
    r.waited_ns = (uint64_t)what;
    isod_record_leave(at, r, ISOD_RECORD_MISUSE);
}

/* By one thread, of a call that is not done: the handle has given up, so that the host hears of missing results. */
PRIM_COLD_FN void isod_coll_leave_misuse(struct isod_origin at, struct isod_waited who, enum isod_misuse what,
                                         uint64_t expected, uint64_t seen)
{
    isod_handle_give_up(at);
    isod_coll_record_misuse(at, who, what, expected, seen);
}

/* For all threads of the block: one record, and what the call returns. */
PRIM_FN int isod_coll_misuse(shmemd_t h, uint32_t call, enum isod_misuse what, uint64_t expected, uint64_t seen)
{
    if (prim_is_first(prim_group_block()))
        isod_coll_leave_misuse(isod_origin_of(h), isod_who(call, -1), what, expected, seen);
    prim_sync(prim_group_block());
    return 1;
}

/* ---- the choice of a schedule ----
 * Its functions get the facts that are equal on all members and nothing else of a call: a member that chose by a fact
 * of its own (an address, the place of a buffer that no peer touches, its number, the size of its block) would run
 * another schedule than the others. */

struct isod_facts {
    uint64_t bytes;       /* of a member's block */
    uint32_t inbox_bytes; /* of the team */
    bool direct;          /* of the team: all members reach each other's heaps by pointer */
    bool in_heap;         /* buffers that peers touch are in the device heap, the same symmetric objects everywhere */
};
PRIM_FN struct isod_facts isod_facts_of(shmemd_t h, uint64_t bytes)
{
    struct isod_facts f;
    f.bytes = bytes;
    f.inbox_bytes = h.inbox_bytes;
    f.direct = isod_is_direct(h);
    f.in_heap = false;
    return f;
}
/* LL costs twice the bytes and no fence. Data must fit the inbox, and pointers must reach all members. */
PRIM_FN bool isod_takes_ll(struct isod_facts f) { return f.bytes <= f.inbox_bytes && f.direct; }
PRIM_FN bool isod_takes_pointers(struct isod_facts f) { return f.direct && f.in_heap; }

/* ---- epochs ----
 * In a plain epoch any member may flag any other. A staged epoch may use LL and stages, which have two banks, used
 * alternately. Two are enough only under this rule: in a staged epoch EVERY member sends to (LL, or at least a flag)
 * and waits for EVERY other member. A member that begins staged epoch k + 2 has finished k + 1, so all have finished
 * reading the data of epoch k. */

PRIM_FN void isod_coll_begin_epoch(struct isod_coll *c) { c->epoch++; }
PRIM_FN void isod_coll_begin_staged_epoch(struct isod_coll *c)
{
    uint64_t inbox_bytes = 2 * (uint64_t)c->inbox_bytes * (uint64_t)c->h.n_pes;
    c->epoch++;
    c->staged++;
    c->inbox_at = isod_flags_bytes(c->h.n_pes) + (c->staged & 1) * inbox_bytes;
}

/* ---- flags: one word of each sender in the receiver's memory ---- */

/* Ways by the ring are functions of their own: they cost registers, and the calls that do not take them none. */
PRIM_COLD_FN void isod_flag_store_far(struct isod_origin home, char *heap, int32_t to, uint64_t at, uint64_t epoch)
{
    char *flag = heap + prim_load_const_u64(&home.team->offsets[to]) + at;
    int32_t pe = ISOD_LOAD_I32(&home.team->world_of[to]);
    isod_ring_signal(isod_coll_handle(home, heap, 0), (uint64_t *)(void *)flag, epoch, ISOD_SIGNAL_SET, pe);
}

/* By the calling thread. The flag announces stores only behind prim_gather_stores by the block and prim_fence_flag by
 * this thread. Pairs with isod_flag_wait. */
PRIM_FN void isod_flag_store(struct isod_coll *c, int32_t to, char *memory)
{
    uint64_t at = (uint64_t)c->h.my_pe * 8;
    if (memory != 0)
        prim_store_flag_u64((uint64_t *)(void *)(memory + at), c->epoch);
    else
        isod_flag_store_far(isod_origin_of(c->h), c->h.heap, to, isod_coll_lane_at(c) + at, c->epoch);
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
    struct isod_waiting w = {0, 0, 0};
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

/* ---- begin and end of a call ---- */

/* The part of a call that does not change from call to call. */
PRIM_FN void isod_coll_read_team(struct isod_coll *c, shmemd_t h, uint32_t call)
{
    c->h = h;
    c->call = call;
    c->rank = prim_rank(prim_group_block());
    c->size = prim_size(prim_group_block());
    c->lane = ISOD_LANES(h.team) + isod_lane_of(h);
    c->inbox_bytes = h.inbox_bytes;
    c->direct = isod_is_direct(h);
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

/* ---- data: units of 16 bytes, the last one of a piece may have fewer ---- */

typedef uint32_t __attribute__((__may_alias__)) isod_any32;
typedef uint8_t __attribute__((__may_alias__)) isod_any8;

PRIM_FN uint64_t isod_units(uint64_t bytes) { return (bytes + 15) / 16; }
PRIM_FN bool isod_unit_is_whole(const void *p, uint64_t bytes) { return bytes >= 16 && ((uintptr_t)p & 15) == 0; }

/* Elements may be aligned to their own size only; bytes < 16 at the end of a piece. */
PRIM_COLD_FN struct prim_vec16 isod_unit_load_odd(const char *p, uint64_t bytes)
{
    struct prim_vec16 v = {{0, 0}};
    uint32_t n = bytes < 16 ? (uint32_t)bytes : 16u, step = (((uintptr_t)p | n) & 3) == 0 ? 4 : 1;
    for (uint32_t i = 0; i < n; i += step) {
        const void *from = p + i;
        uint64_t part = step == 4 ? *(const isod_any32 *)from : *(const isod_any8 *)from;
        part <<= (i & 7) * 8;
        if (i < 8) /* no index: an array would be stack */
            v.word[0] |= part;
        else
            v.word[1] |= part;
    }
    return v;
}
PRIM_COLD_FN void isod_unit_store_odd(char *p, struct prim_vec16 v, uint64_t bytes)
{
    uint32_t n = bytes < 16 ? (uint32_t)bytes : 16u;
    if ((((uintptr_t)p | n) & 3) == 0)
        for (uint32_t i = 0; i < n; i += 4)
            *(isod_any32 *)(void *)(p + i) = (uint32_t)((i < 8 ? v.word[0] : v.word[1]) >> (i & 4) * 8);
    else
        for (uint32_t i = 0; i < n; i++)
            *(isod_any8 *)(void *)(p + i) = (uint8_t)((i < 8 ? v.word[0] : v.word[1]) >> (i & 7) * 8);
}
/* Bytes of an array that are whole units at addresses of units: all but the end, or none. */
PRIM_FN uint64_t isod_whole_bytes(const void *p, uint64_t bytes)
{
    return ((uintptr_t)p & 15) == 0 ? bytes / 16 * 16 : 0;
}
/* `bytes` is what is left of the piece from p on. */
PRIM_FN struct prim_vec16 isod_unit_load(const char *p, uint64_t bytes)
{
    return isod_unit_is_whole(p, bytes) ? prim_load16(p) : isod_unit_load_odd(p, bytes);
}
PRIM_FN void isod_unit_store(char *p, struct prim_vec16 v, uint64_t bytes)
{
    if (isod_unit_is_whole(p, bytes))
        prim_store16(p, v);
    else
        isod_unit_store_odd(p, v, bytes);
}

/* ---- LL: at most inbox_bytes per sender that arrive with their epoch, no fence; staged epochs of direct teams only.
 * Unit u travels in LL words 2u and 2u + 1 ---- */

PRIM_FN struct prim_ll *isod_ll(const struct isod_coll *c, char *memory, int32_t sender)
{
    return (struct prim_ll *)(void *)(memory + c->inbox_at + (uint64_t)sender * 2 * c->inbox_bytes);
}

/* Both LL words, however short the unit is: the receiver need not ask, and has all its looks under way at once. */
PRIM_FN void isod_ll_store(struct isod_coll *c, struct prim_ll *line, struct prim_vec16 v)
{
    prim_store_ll(line, (uint32_t)v.word[0], (uint32_t)(v.word[0] >> 32), (uint32_t)c->epoch);
    prim_store_ll(line + 1, (uint32_t)v.word[1], (uint32_t)(v.word[1] >> 32), (uint32_t)c->epoch);
}
PRIM_FN struct prim_ll *isod_ll_there(const struct isod_coll *c, int32_t to, uint64_t unit)
{
    return isod_ll(c, isod_coll_memory(c, to), c->h.my_pe) + 2 * unit;
}

/* A unit to all other members. */
PRIM_FN void isod_unit_send_all(struct isod_coll *c, uint64_t unit, struct prim_vec16 v)
{
    for (uint32_t i = 1; i <= isod_coll_others(c); i++)
        isod_ll_store(c, isod_ll_there(c, isod_coll_other(c, i), unit), v);
}

/* To each other member m a whole unit of its own, at source + m * stride. */
PRIM_FN void isod_unit_send_each(struct isod_coll *c, const char *source, uint64_t stride, uint64_t unit)
{
    for (uint32_t i = 1; i <= isod_coll_others(c); i += ISOD_BATCH) {
        struct prim_vec16 v[ISOD_BATCH];
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_BATCH; k++)
            if (i + k <= isod_coll_others(c))
                v[k] = prim_load16(source + (uint64_t)(uint32_t)isod_coll_other(c, i + k) * stride + unit * 16);
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_BATCH; k++)
            if (i + k <= isod_coll_others(c))
                isod_ll_store(c, isod_ll_there(c, isod_coll_other(c, i + k), unit), v[k]);
    }
}

/* source + m * stride, `bytes` of it, to each other member m. Whole aligned units are loaded several at once; others
 * one by one, since the code for those is long. */
PRIM_FN void isod_ll_send(struct isod_coll *c, const char *source, uint64_t stride, uint64_t bytes)
{
    uint64_t whole = (stride & 15) == 0 ? isod_whole_bytes(source, bytes) : 0, u = c->rank;
    for (; u < whole / 16; u += c->size) {
        if (stride == 0)
            isod_unit_send_all(c, u, prim_load16(source + u * 16));
        else
            isod_unit_send_each(c, source, stride, u);
    }
    for (; u < isod_units(bytes); u += c->size) {
        for (uint32_t i = 1; i <= isod_coll_others(c); i++) {
            int32_t m = isod_coll_other(c, i);
            const char *from = source + (uint64_t)(uint32_t)m * stride + u * 16;
            isod_ll_store(c, isod_ll_there(c, m, u), isod_unit_load_odd(from, bytes - u * 16));
        }
    }
}

PRIM_FN void isod_ll_send_one(struct isod_coll *c, int32_t to, const char *source, uint64_t bytes)
{
    for (uint64_t u = c->rank; u < isod_units(bytes); u += c->size)
        isod_ll_store(c, isod_ll_there(c, to, u), isod_unit_load(source + u * 16, bytes - u * 16));
}

/* One look at a unit; true: it is there. */
PRIM_FN bool isod_unit_look(const struct prim_ll *line, uint32_t epoch, struct prim_vec16 *v)
{
    struct prim_ll a = prim_load_ll(line), b = prim_load_ll(line + 1);
    v->word[0] = a.data0 | (uint64_t)a.data1 << 32;
    v->word[1] = b.data0 | (uint64_t)b.data1 << 32;
    return a.epoch0 == epoch && a.epoch1 == epoch && b.epoch0 == epoch && b.epoch1 == epoch;
}

/* v[k] becomes unit u of member first + k, k < count <= ISOD_BATCH (of this member: stays as it is). All are looked at
 * before any is waited for. By the calling thread alone. */
PRIM_FN void isod_units_wait(struct isod_coll *c, int32_t first, int32_t count, uint64_t u, struct prim_vec16 *v)
{
    struct isod_waiting w = {0, 0, 0};
    const struct prim_ll *lines = isod_ll(c, c->here, first) + 2 * u;
    uint64_t sender = c->inbox_bytes / 8; /* LL words of one */
    for (;;) {
        int32_t missing = -1;
        PRIM_UNROLL
        for (int32_t k = 0; k < ISOD_BATCH; k++)
            if (k < count && first + k < c->h.n_pes && first + k != c->h.my_pe &&
                !isod_unit_look(lines + (uint64_t)k * sender, (uint32_t)c->epoch, &v[k]))
                missing = k;
        if (missing < 0 || c->failed)
            return;
        isod_coll_pause(c, &w, first + missing, lines + (uint64_t)missing * sender);
    }
}

/* The data of each other member m goes to dest + m * stride. */
PRIM_FN void isod_ll_receive(struct isod_coll *c, char *dest, uint64_t stride, uint64_t bytes)
{
    for (uint64_t u = c->rank; u < isod_units(bytes); u += c->size) {
        for (int32_t first = 0; first < c->h.n_pes; first += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH];
            isod_units_wait(c, first, ISOD_BATCH, u, v);
            PRIM_UNROLL
            for (int32_t k = 0; k < ISOD_BATCH && !c->failed; k++)
                if (first + k < c->h.n_pes && first + k != c->h.my_pe)
                    isod_unit_store(dest + (uint64_t)(first + k) * stride + u * 16, v[k], bytes - u * 16);
        }
    }
}
PRIM_FN void isod_ll_receive_one(struct isod_coll *c, int32_t from, char *dest, uint64_t bytes)
{
    for (uint64_t u = c->rank; u < isod_units(bytes) && !c->failed; u += c->size) {
        struct prim_vec16 v[ISOD_BATCH];
        isod_units_wait(c, from, 1, u, v);
        if (!c->failed)
            isod_unit_store(dest + u * 16, v[0], bytes - u * 16);
    }
}

/* ---- the user's memory, and stages: inbox_bytes per sender and bank, for members that no pointer reaches ----
 * Rule of all schedules: a flag never takes a faster way than the data before it. Flags go by pointer wherever pointers
 * reach the member's heap. Data in the heap takes the same way, so a fence, or the order of the ring, is enough. But
 * pointers may reach the heap and no registered buffer whose ends share their pages with other data. So data that goes
 * by the ring to a member whose flags go by pointer is there before the put returns.
 * Invariant: schedules put data to other members by the functions here alone; then they may flag by any function. */

/* Will a flag to this member go by pointer, past what is on the ring? */
PRIM_FN bool isod_flag_overtakes(const struct isod_coll *c, int32_t to) { return isod_coll_memory(c, to) != 0; }

/* By all threads of g, a wave or the block, into dest (as this member names it) of member `to`; then a flag behind
 * prim_gather_stores by the block. */
PRIM_FN void isod_coll_put_far(struct isod_coll *c, struct prim_group g, int32_t to, char *dest, const char *source,
                               uint64_t bytes)
{
    isod_ring_put(c->h, g, dest, source, bytes, isod_world_pe(c->h, to));
    if (isod_flag_overtakes(c, to) && prim_is_first(g))
        c->failed = isod_coll_flush(isod_origin_of(c->h), c->call) || c->failed;
}
/* The same, where `near` is dest there, or NULL. */
PRIM_FN void isod_coll_put_at(struct isod_coll *c, struct prim_group g, int32_t to, char *near, char *dest,
                              const char *source, uint64_t bytes)
{
    if (near != 0)
        prim_copy_put(g, near, source, bytes);
    else
        isod_coll_put_far(c, g, to, dest, source, bytes);
}
PRIM_FN void isod_coll_put(struct isod_coll *c, int32_t to, char *dest, const char *source, uint64_t bytes)
{
    isod_coll_put_at(c, prim_group_block(), to, isod_near(c->h, dest, to), dest, source, bytes);
}
/* A word, by the calling thread; `near` is dest there, or NULL. */
PRIM_FN void isod_coll_put_word_at(struct isod_coll *c, int32_t to, char *near, char *dest, uint64_t value)
{
    if (near != 0) {
        prim_store_relaxed_u64((uint64_t *)(void *)near, value);
        return;
    }
    isod_ring_put_words(c->h, dest, value, 0, 8, isod_world_pe(c->h, to));
    if (isod_flag_overtakes(c, to))
        c->failed = isod_coll_flush(isod_origin_of(c->h), c->call) || c->failed;
}
/* From source (as this member names it) of member `from`, after its flag. */
PRIM_FN void isod_coll_get(struct isod_coll *c, int32_t from, char *dest, const char *source, uint64_t bytes)
{
    const char *near = isod_near(c->h, source, from);
    if (near != 0)
        prim_copy_get(prim_group_block(), dest, near, bytes);
    else
        isod_ring_get(c->h, prim_group_block(), dest, source, bytes, isod_world_pe(c->h, from));
}
PRIM_FN void isod_coll_copy_own(char *dest, const char *source, uint64_t bytes)
{
    if (dest != source)
        prim_copy(prim_group_block(), dest, source, bytes);
}

/* Where `sender`'s stage of the epoch in progress is, from the begin of the lane on. */
PRIM_FN uint64_t isod_stage_at(const struct isod_coll *c, int32_t sender)
{
    uint64_t n = (uint64_t)c->h.n_pes, banks = isod_flags_bytes(c->h.n_pes) + 4 * n * c->inbox_bytes;
    return banks + ((c->staged & 1) * n + (uint64_t)sender) * c->inbox_bytes;
}
PRIM_FN void isod_stage_put(struct isod_coll *c, int32_t to, const char *source, uint64_t bytes)
{
    char *memory = isod_coll_memory(c, to);
    uint64_t at = isod_stage_at(c, c->h.my_pe);
    if (memory != 0)
        prim_copy_put(prim_group_block(), memory + at, source, bytes);
    else
        isod_coll_put_far(c, prim_group_block(), to, isod_coll_far_memory(c, to) + at, source, bytes);
}

/* ---- the blocks of one PE's grid ---- */

/* All blocks of the grid are here; their stores are seen by all of them. All blocks are resident, which is the caller's
 * duty. Bit 63 of the counter turns when the last one arrives, and its other bits come back to where they were: so
 * grids of any sizes may follow one another. true, for all threads of the block: given up. */
PRIM_FN bool isod_grid_sync(shmemd_t h)
{
    const uint64_t top = (uint64_t)1 << 63;
    bool bad = false;
    if (prim_call_begin()) {
        uint64_t *arrived = &h.team->grid->arrived, others = prim_block_count() - 1;
        prim_gather_stores(prim_group_block());
        if (prim_is_first(prim_group_block())) {
            prim_fence_flag(); /* pairs with the acquire in isod_wait of the other blocks, as the addition does */
            uint64_t old = prim_fetch_add_u64(arrived, prim_block_index() == 0 ? top - others : 1);
            int turned = (old & top) != 0 ? ISOD_GE : ISOD_LT;
            bad = !isod_wait(h, ISOD_I64, arrived, turned, 0, isod_who(ISOD_CALL_GRID, -1), (uint64_t *)0);
        }
        bad = prim_sync_or(prim_group_block(), bad);
    }
    return prim_call_end(bad ? 1 : 0) != 0;
}

/* The end of a call of the grid: whatever any block has noticed, all of them return nonzero. */
PRIM_FN int isod_grid_leave(shmemd_t h)
{
    bool bad = isod_grid_sync(h);
    if (prim_is_first(prim_group_block()))
        bad = bad || prim_load_relaxed_u64(&h.team->status) != 0;
    return prim_sync_or(prim_group_block(), bad) ? 1 : 0;
}

/* Less than this is not worth another block. */
#define ISOD_GRID_SHARE_BYTES 1024u

/* This block's part of `bytes`, in whole units; the same on all PEs, whose grids are equal. false: it has none. */
PRIM_FN bool isod_grid_part(shmemd_t h, uint64_t bytes, uint64_t *from, uint64_t *len)
{
    uint64_t lanes = h.lanes, blocks = prim_block_count();
    uint64_t worth = (bytes + ISOD_GRID_SHARE_BYTES - 1) / ISOD_GRID_SHARE_BYTES;
    blocks = blocks < lanes ? blocks : lanes;
    blocks = blocks < worth ? blocks : worth;
    if (prim_block_index() >= blocks)
        return false;
    uint64_t share = (isod_units(bytes) + blocks - 1) / blocks * 16;
    *from = prim_block_index() * share;
    *len = *from >= bytes ? 0 : bytes - *from < share ? bytes - *from : share;
    return *len > 0;
}

#endif
