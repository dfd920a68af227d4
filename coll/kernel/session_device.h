/* SPDX-License-Identifier: MIT */
/* The session of a collective inside a kernel: one call of one block, its members and its epochs. The counterpart of
 * coll.h for a block of a GPU, or of the CPU device. Verbs of a session have a header each: flags_device.h, ll_device.h,
 * stages_device.h; call_device.h begins and ends it; grid_device.h is for calls of a whole grid. Block b
 * of this PE works with blocks b of the other members, over lane b of the handle, or over one that shmemd_lane has
 * chosen. All threads of the block call every function here, unless it says otherwise; thread i serves the i-th other
 * member. Functions that kernels call stand between prim_call_begin and prim_call_end; all others run within.
 * Invariants: all members go through the same epochs of the same kinds in the same order. An epoch is a number that
 * only grows; flags carry all of it, LL words its low 32 bits. One block at a time uses a lane, so its words are read
 * plainly.
 * Includes: device/. Included by the verbs. */
#ifndef ISO_SESSION_DEVICE_H
#define ISO_SESSION_DEVICE_H

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
    uint32_t users, status; /* first thread: as found on entry, looked at when it leaves, so no thread waits for them */
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
    *w = isod_look_and_tell(c->h.team, *w, isod_missed_at(who, addr, c->epoch, seen));
    c->failed = isod_has_given_up(*w) ||
                (!c->direct && prim_load_relaxed_u64(&c->h.team->status) == ISOD_STATUS_GAVE_UP);
}

/* One look at many LL words has failed: this costs little beside it. */
PRIM_FN void isod_coll_pause(struct isod_coll *c, struct isod_waiting *w, int32_t from, const void *addr)
{
    prim_pause();
    if (++w->polls % ISOD_POLLS_PER_LOOK == 0)
        isod_coll_look(c, w, from, addr, 0);
}

/* Functions of the rare paths get the team, and make a handle for flags, epochs and the ring of it. call_of: the call
 * and, in its upper half, the handle's `direct` with its lane: one register. */
PRIM_FN uint32_t isod_coll_call_of(shmemd_t h, uint32_t call) { return call | (uint32_t)h.direct << 16; }
PRIM_FN shmemd_t isod_coll_handle(struct isod_team *team, uint32_t call_of)
{
    shmemd_t h;
    h.heap = team->world->segments[ISOD_SEGMENT_HEAP].base;
    h.heap_bytes = 0;
    h.flat = (char *)0;
    h.flat_stride = 0;
    h.team = team;
    h.world = team->world;
    h.my_pe = team->my_pe;
    h.n_pes = team->n_pes;
    h.lanes = (uint16_t)team->lanes;
    h.direct = (uint16_t)(call_of >> 16);
    h.inbox_bytes = team->inbox_bytes;
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
PRIM_COLD_FN void isod_coll_record_misuse(struct isod_team *team, struct isod_waited who, enum isod_misuse what,
                                          uint64_t expected, uint64_t seen)
{
    struct isod_record *r = isod_record_begin(team, who, (uint64_t)what);
    if (r != 0)
        isod_record_tell(r, isod_missed_at(who, (const void *)0, expected, seen), ISOD_RECORD_MISUSE);
}

/* By one thread, of a call that is not done: the handle has given up, so that the host hears of missing results. */
PRIM_COLD_FN void isod_coll_leave_misuse(struct isod_team *team, struct isod_waited who, enum isod_misuse what,
                                         uint64_t expected, uint64_t seen)
{
    isod_handle_give_up(team);
    isod_coll_record_misuse(team, who, what, expected, seen);
}

/* For all threads of g: one record, and what the call returns. */
PRIM_FN int isod_coll_misuse_by(shmemd_t h, struct prim_group g, uint32_t call, enum isod_misuse what,
                                uint64_t expected, uint64_t seen)
{
    if (prim_is_first(g))
        isod_coll_leave_misuse(h.team, isod_who(call, -1), what, expected, seen);
    prim_sync(g);
    return 1;
}
PRIM_FN int isod_coll_misuse(shmemd_t h, uint32_t call, enum isod_misuse what, uint64_t expected, uint64_t seen)
{
    return isod_coll_misuse_by(h, prim_group_block(), call, what, expected, seen);
}

/* A kernel without a ring, and a team of which pointers do not reach all members: true on all of them, since `direct` is
 * equal there, and for all threads of g. */
PRIM_FN bool isod_coll_lacks_ring(shmemd_t h, struct prim_group g)
{
#ifdef SHMEMD_NO_RING
    if (isod_is_direct(h))
        return false;
    int32_t member = 0;
    while (member < h.n_pes - 1 && ISOD_LOAD_POINTER(&h.team->heaps[member]) != 0)
        member++;
    if (prim_is_first(g))
        isod_no_ring(h.team, isod_world_pe(h, member));
    prim_sync(g);
    return true;
#else
    (void)h, (void)g;
    return false;
#endif
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
    f.direct = isod_goes_direct(h);
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

#endif
