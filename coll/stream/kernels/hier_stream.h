/* SPDX-License-Identifier: MIT */
/* The base of kernels of teams that span nodes: which member is on which node, and words and slots of a lane for
 * messages that arrive one by one. Pointers reach the members of a node, the ring all others. Member m has a *rail* in
 * each other node, the member with its place there (modulo the members of that node): what m sends to a node goes to
 * its rail, which hands it on; what a node has for m comes from there.
 * Words and slots lie where teams that pointers reach have their inboxes of LL, so nothing else touches them.
 * Invariants: a word has one writer and only grows, by numbers of epochs; a value of it says that all it counts has
 * arrived, since it is stored behind that: by the same ring, or behind a fence. A call is a number of epochs that
 * depends on its sizes alone. Includes: stream_device.h. Included by *_kernels.c here. */
#ifndef ISO_HIER_STREAM_H
#define ISO_HIER_STREAM_H

#include "stream_device.h"

/* ---- nodes: of the table that hier_nodes.c has made ---- */

struct isod_hier {
    const int32_t *table;
    int32_t n, nodes;          /* members, nodes */
    int32_t node, local, size; /* of this member: its node, its place there, members of that node */
    int32_t begin;             /* members of lower nodes */
};

PRIM_FN int32_t isod_hier_look(const struct isod_hier *t, int32_t i) { return ISOD_LOAD_I32(&t->table[i]); }
PRIM_FN int32_t isod_hier_local(const struct isod_hier *t, int32_t m) { return isod_hier_look(t, 1 + t->n + m); }
/* The i-th member, node by node. */
PRIM_FN int32_t isod_hier_sorted(const struct isod_hier *t, int32_t i) { return isod_hier_look(t, 1 + 2 * t->n + i); }
PRIM_FN int32_t isod_hier_begin(const struct isod_hier *t, int32_t node)
{
    return isod_hier_look(t, 1 + 3 * t->n + node);
}
PRIM_FN int32_t isod_hier_size(const struct isod_hier *t, int32_t node)
{
    return isod_hier_begin(t, node + 1) - isod_hier_begin(t, node);
}

PRIM_FN struct isod_hier isod_hier_of(const struct isod_stream_coll *a)
{
    struct isod_hier t;
    t.table = a->nodes;
    t.n = a->h.n_pes;
    t.nodes = isod_hier_look(&t, 0);
    t.node = isod_hier_look(&t, 1 + a->h.my_pe);
    t.local = isod_hier_local(&t, a->h.my_pe);
    t.begin = isod_hier_begin(&t, t.node);
    t.size = isod_hier_size(&t, t.node);
    return t;
}

/* The i-th member of the own node, counted from this one: 0 is this one. */
PRIM_FN int32_t isod_hier_peer(const struct isod_hier *t, uint32_t i)
{
    int32_t local = t->local + (int32_t)i;
    return isod_hier_sorted(t, t->begin + (local < t->size ? local : local - t->size));
}
PRIM_FN uint32_t isod_hier_peers(const struct isod_hier *t) { return (uint32_t)t->size - 1; }
/* The i-th member of other nodes, i = 0 .. isod_hier_fars - 1, node by node, counted from the own node. */
PRIM_FN int32_t isod_hier_far(const struct isod_hier *t, uint32_t i)
{
    int32_t at = t->begin + t->size + (int32_t)i;
    return isod_hier_sorted(t, at < t->n ? at : at - t->n);
}
PRIM_FN uint32_t isod_hier_fars(const struct isod_hier *t) { return (uint32_t)(t->n - t->size); }

/* This member's rail in the i-th other node, i = 0 .. nodes - 2. */
PRIM_FN int32_t isod_hier_rail_of(const struct isod_coll *c, const struct isod_hier *t, uint32_t i)
{
    int32_t behind = t->node + 1 + (int32_t)i, node = behind < t->nodes ? behind : behind - t->nodes;
    uint32_t local = (uint32_t)isod_hier_local(t, c->h.my_pe), size = (uint32_t)isod_hier_size(t, node);
    return isod_hier_sorted(t, isod_hier_begin(t, node) + (int32_t)(local % size));
}
PRIM_FN uint32_t isod_hier_rails(const struct isod_hier *t) { return (uint32_t)t->nodes - 1; }
/* Is this member the rail of m, which is on another node? */
PRIM_FN bool isod_hier_serves(const struct isod_hier *t, int32_t m)
{
    return (int32_t)((uint32_t)isod_hier_local(t, m) % (uint32_t)t->size) == t->local;
}

/* ---- words: one of each kind and member, in the lane of the member that waits for it ---- */

enum isod_hier_word {
    ISOD_HIER_HERE,  /* [peer] it has come to the end of a call whose results are not handed on */
    ISOD_HIER_DATA,  /* [member] pieces of it that have arrived, from it or handed on by another */
    ISOD_HIER_PART,  /* [rail] pieces of its node's part of a reduction that lie in its slots here */
    ISOD_HIER_USED,  /* [far member] pieces of parts sent to it that it has read */
    ISOD_HIER_WORDS
};

PRIM_FN uint64_t isod_hier_word_at(const struct isod_coll *c, enum isod_hier_word word, int32_t about)
{
    return isod_flags_bytes(c->h.n_pes) + ((uint64_t)word * (uint32_t)c->h.n_pes + (uint32_t)about) * 8;
}

/* Member `to` gets a word about `about`. By the calling thread, as isod_flag_store; pairs with isod_hier_wait. By the
 * ring: after all that this block has put there before. */
PRIM_FN void isod_hier_tell(struct isod_coll *c, int32_t to, enum isod_hier_word word, int32_t about, uint64_t value)
{
    char *memory = isod_coll_memory(c, to);
    uint64_t at = isod_hier_word_at(c, word, about);
    if (memory != 0)
        prim_store_flag_u64((uint64_t *)(void *)(memory + at), value);
    else
        isod_flag_store_far(c->h.team, to, isod_coll_lane_at(c) + at, value);
}

/* By the calling thread; after it isod_hier_met. */
PRIM_FN void isod_hier_wait(struct isod_coll *c, enum isod_hier_word word, int32_t about, uint64_t value)
{
    const uint64_t *flag = (const uint64_t *)(const void *)(c->here + isod_hier_word_at(c, word, about));
    struct isod_waiting w = {0, 0};
    uint64_t seen = prim_peek_u64(flag), epoch = c->epoch;
    c->epoch = value; /* what a record says is expected */
    while (seen < value && !c->failed) {
        PRIM_WAIT_FOR_WORD
        for (uint32_t polls = ISOD_POLLS_PER_LOOK; seen < value && polls != 0; polls--) {
            prim_pause();
            seen = prim_peek_u64(flag);
        }
        if (seen < value)
            isod_coll_look(c, &w, about, flag, seen);
    }
    c->epoch = epoch;
}
/* A sync: the data behind words that any thread has waited for may be read. false: given up. */
PRIM_FN bool isod_hier_met(struct isod_coll *c)
{
    prim_acquire_from_peer(); /* pairs with the fence or the ring behind which the word was stored */
    return isod_coll_goes_on(c);
}
PRIM_FN bool isod_hier_await(struct isod_coll *c, enum isod_hier_word word, int32_t about, uint64_t value)
{
    if (c->rank == 0)
        isod_hier_wait(c, word, about, value);
    return isod_hier_met(c);
}

/* To all peers, behind what this block has stored. A sync. */
PRIM_FN void isod_hier_tell_peers(struct isod_coll *c, const struct isod_hier *t, enum isod_hier_word word,
                                  int32_t about, uint64_t value)
{
    prim_gather_stores(prim_group_block());
    if (c->rank < isod_hier_peers(t))
        prim_fence_flag(); /* pairs with the acquire in isod_hier_met */
    for (uint32_t i = c->rank + 1; i <= isod_hier_peers(t); i += c->size)
        isod_hier_tell(c, isod_hier_peer(t, i), word, about, value);
}

/* ---- places: this member's memory may be read and written by its peers' pointers, and far members may put into it.
 * In the first epoch of the call ---- */

PRIM_FN void isod_hier_announce(struct isod_coll *c, const struct isod_hier *t, uint32_t count, uint64_t first,
                                uint64_t second)
{
    for (uint32_t i = c->rank + 1; i <= isod_hier_peers(t); i += c->size) {
        isod_place_send(c, isod_hier_peer(t, i), 0, first);
        if (count == 2)
            isod_place_send(c, isod_hier_peer(t, i), 1, second);
    }
}
/* All peers are here, and the tables have the distances to their memory. A sync. false: given up. */
PRIM_FN bool isod_hier_meet_peers(struct isod_coll *c, const struct isod_hier *t, uint32_t count,
                                  struct isod_touched first, struct isod_touched second)
{
    for (uint32_t i = c->rank + 1; i <= isod_hier_peers(t); i += c->size) {
        int32_t m = isod_hier_peer(t, i);
        struct isod_places p = isod_places_wait(c, m, count);
        if (c->failed)
            break;
        first.table[m] = isod_distance(c->h, first.ours, p.first, m);
        if (count == 2)
            second.table[m] = isod_distance(c->h, second.ours, p.second, m);
    }
    if (c->rank == 0)
        first.table[c->h.my_pe] = second.table[c->h.my_pe] = 0;
    return isod_hier_met(c);
}
/* What is `ours` here, at member `to`, as this member names it for the ring; its place number `which` has come. */
PRIM_FN char *isod_hier_name(const struct isod_coll *c, struct isod_touched t, int32_t to, uint32_t which,
                             const char *ours)
{
    return isod_place_name(c->h.world, isod_place_sent(c, to, which)) + (ours - t.ours);
}

/* The puts that this block has posted are done: nothing is read from source any more. In a call that is given up the
 * proxy may go on reading, until the slot is reset. */
PRIM_FN void isod_hier_flush(struct isod_coll *c)
{
    if (c->rank == 0)
        c->failed = !isod_ring_flush(c->h.team, c->call) || c->failed;
}

/* ---- data ---- */

/* source + m * stride to each peer m, at the place where dest is here; the waves share them. */
PRIM_FN void isod_hier_put_peers(struct isod_coll *c, const struct isod_hier *t, struct isod_bytes b, uint64_t stride)
{
    struct isod_waves w = isod_waves_among(c, (uint32_t)t->size);
    struct isod_part p = isod_part_of(b.len, w.nth, w.of);
    for (uint32_t i = w.first; p.bytes > 0 && i <= isod_hier_peers(t); i += w.stride) {
        int32_t to = isod_hier_peer(t, i);
        if (i > 0)
            prim_copy_put(prim_group_wave(), (char *)b.dest + isod_table_dest()[to] + p.at,
                          (const char *)b.source + (uint64_t)(uint32_t)to * stride + p.at, p.bytes);
    }
}

/* By the ring to a far member, to which words go by the same ring behind it; source may be rewritten behind
 * isod_hier_flush. A sync. */
PRIM_FN void isod_hier_put_far(struct isod_coll *c, int32_t to, char *dest, const char *source, uint64_t bytes)
{
    isod_ring_put_nbi(c->h, prim_group_block(), isod_bytes_of(dest, source, bytes), isod_world_pe(c->h, to));
}

#endif
