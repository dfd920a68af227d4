/* SPDX-License-Identifier: MIT */
/* Broadcast, fcollect, collect and alltoall of teams on several nodes. The least possible crosses between nodes: each
 * byte once for a node that needs it, long ones in chunks that the node copies by pointer while later ones are
 * still on their way. n members, K nodes, m of them on a node, blocks of b bytes; "out" is what a node sends.
 * Includes: hier.h, alltoall.h, bcast.h, collect.h. Included by host_algorithm.c. */
#ifndef ISO_HIER_MOVE_H
#define ISO_HIER_MOVE_H

#include "hier.h"
#include "alltoall.h"
#include "bcast.h"
#include "collect.h"

/* One flag each. */
#define HIER_CHUNK_BYTES ((size_t)65536)

static size_t hier_chunks(size_t bytes) { return bytes / HIER_CHUNK_BYTES + (bytes % HIER_CHUNK_BYTES != 0); }
static size_t hier_chunk_bytes(size_t bytes, size_t i)
{
    return ISO_MIN(bytes - i * HIER_CHUNK_BYTES, HIER_CHUNK_BYTES);
}

/* ---- broadcast: short ones to one member of each other node, which hands them on. Out: K - 1 messages by the
 * root. ---- */

static void hier_forward(struct coll *c, const struct coll_work *w, const char *from)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    for (int i = 1; i < nodes->n_near; i++) {
        coll_put(c, coll_range(&w->dest, 0, w->bytes, hier_peer(nodes, i)), from);
        coll_flag_set(c, hier_peer(nodes, i));
    }
}

static void hier_bcast(struct coll *c, const struct coll_work *w)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    int root_node = hier_node_of(nodes, w->root), leader = iso_slot_node_leader(nodes, nodes->mine);
    coll_begin_epoch(c);
    if (c->me == w->root) {
        for (int k = 1; k < nodes->n; k++)
            coll_put_flag(c, coll_range(&w->dest, 0, w->bytes, iso_slot_node_leader(nodes, (root_node + k) % nodes->n)),
                          w->source.base);
        hier_forward(c, w, w->source.base);
        bcast_own(w);
        coll_put_done(c);
        return;
    }
    bool forwards = nodes->mine != root_node && c->me == leader;
    coll_flag_wait(c, nodes->mine == root_node || forwards ? w->root : leader);
    if (forwards)
        hier_forward(c, w, w->dest.base);
}

/* ---- broadcast: long ones from node to node in chunks. Out: b by every node but the last, in chunks; the first bytes
 * are everywhere after K - 1 hops of a chunk. A chunk arrives with one member of the node, by turns, which sends it on;
 * the others copy it out of that member's dest. ---- */

struct hier_pipe {
    uint64_t base;
    size_t chunks;
    int before, next; /* nodes; -1: the root is before; this one is the last */
};

static void hier_pipe_send(struct coll *c, const struct coll_work *w, const struct hier_pipe *p, const char *from,
                           size_t i)
{
    if (p->next < 0)
        return;
    c->epoch = p->base + 1 + i;
    coll_put_flag(c,
                  coll_range(&w->dest, i * HIER_CHUNK_BYTES, hier_chunk_bytes(w->bytes, i),
                             hier_rail(c->slot->nodes, i, p->next)),
                  from + i * HIER_CHUNK_BYTES);
}

static void hier_bcast_pipe(struct coll *c, const struct coll_work *w)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    int n = nodes->n, root_node = hier_node_of(nodes, w->root), hops = (nodes->mine - root_node + n) % n;
    struct hier_pipe p = {c->slot->seq, hier_chunks(w->bytes), -1, -1};
    if (hops > 1)
        p.before = (nodes->mine + n - 1) % n;
    if (hops < n - 1)
        p.next = (nodes->mine + 1) % n;
    c->slot->seq += p.chunks + 1;

    if (c->me == w->root) {
        c->epoch = p.base + 1;
        for (int i = 1; i < nodes->n_near; i++)
            coll_flag_set(c, hier_peer(nodes, i));
        for (size_t i = 0; i < p.chunks; i++)
            hier_pipe_send(c, w, &p, w->source.base, i);
        bcast_own(w);
    } else if (hops == 0) {
        hier_flag_wait(c, c->me, w->root, p.base + 1);
        coll_read(c, w->dest.base, coll_range(&w->source, 0, w->bytes, w->root));
    } else {
        for (size_t i = 0; i < p.chunks; i++) {
            int rail = hier_rail(nodes, i, nodes->mine), from = p.before < 0 ? w->root : hier_rail(nodes, i, p.before);
            size_t at = i * HIER_CHUNK_BYTES;
            hier_flag_wait(c, rail, from, p.base + 1 + i);
            if (rail == c->me)
                hier_pipe_send(c, w, &p, w->dest.base, i);
            else
                coll_read(c, w->dest.base + at, coll_range(&w->dest, at, hier_chunk_bytes(w->bytes, i), rail));
        }
    }
    coll_put_done(c);
    hier_sync(c, c->slot->seq); /* no member of the node reads this memory any more */
}

/* ---- fcollect and collect: long blocks. Out: K - 1 messages for each member and chunk, m * b bytes to each other
 * node. A member's block goes to its rail in each other node, straight into dest, where the others of that node read
 * it. ---- */

struct hier_gather {
    struct coll_mem dest, source;
    size_t bytes;        /* of each block, or ... */
    const size_t *begin; /* ... [n + 1] where each begins */
    size_t chunks;       /* of the longest */
    uint64_t base;
};

static size_t hier_gather_at(const struct hier_gather *g, int member)
{
    return g->begin != NULL ? g->begin[member] : (size_t)member * g->bytes;
}
static size_t hier_gather_bytes(const struct hier_gather *g, int member)
{
    return g->begin != NULL ? g->begin[member + 1] - g->begin[member] : g->bytes;
}

/* Chunk i of the member at `place` in `node`. */
static void hier_gather_far(struct coll *c, const struct hier_gather *g, int node, int place, size_t i)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    int from = nodes->members[nodes->begin[node] + place], rail = hier_rail(nodes, (size_t)place, nodes->mine);
    size_t bytes = hier_gather_bytes(g, from), at = hier_gather_at(g, from) + i * HIER_CHUNK_BYTES;
    if (i >= hier_chunks(bytes))
        return;
    hier_flag_wait(c, rail, from, g->base + 1 + i);
    if (rail != c->me)
        coll_read(c, g->dest.base + at, coll_range(&g->dest, at, hier_chunk_bytes(bytes, i), rail));
}

static void hier_gather(struct coll *c, struct hier_gather *g)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    size_t bytes = hier_gather_bytes(g, c->me), own_at = hier_gather_at(g, c->me);
    g->base = c->slot->seq;
    c->slot->seq += g->chunks + 2;
    for (size_t i = 0; i < hier_chunks(bytes); i++) {
        size_t at = i * HIER_CHUNK_BYTES;
        c->epoch = g->base + 1 + i;
        for (int k = 1; k < nodes->n; k++)
            coll_put_flag(c,
                          coll_range(&g->dest, own_at + at, hier_chunk_bytes(bytes, i),
                                     hier_rail(nodes, (size_t)nodes->me_near, (nodes->mine + k) % nodes->n)),
                          g->source.base + at);
    }

    hier_sync(c, c->slot->seq - 1); /* sources of this node are ready */
    coll_copy_own(g->dest.base + own_at, g->source.base, bytes);
    for (int i = 1; i < nodes->n_near; i++) {
        int from = hier_peer(nodes, i);
        coll_read(c, g->dest.base + hier_gather_at(g, from),
                  coll_range(&g->source, 0, hier_gather_bytes(g, from), from));
    }

    for (size_t i = 0; i < g->chunks; i++)
        for (int k = 1; k < nodes->n; k++)
            for (int place = 0; place < hier_size(nodes, (nodes->mine + k) % nodes->n); place++)
                hier_gather_far(c, g, (nodes->mine + k) % nodes->n, place, i);
    coll_put_done(c);
    hier_sync(c, c->slot->seq); /* no member of the node reads this memory any more */
}

static void hier_fcollect_rails(struct coll *c, const struct coll_work *w)
{
    struct hier_gather g = {w->dest, w->source, w->bytes, NULL, hier_chunks(w->bytes), 0};
    hier_gather(c, &g);
}

/* Short blocks. Out: K - 1 messages of m * b bytes. */
static void hier_fcollect(struct coll *c, const struct coll_work *w)
{
    const char *blocks[HIER_MEMBERS];
    hier_exchange(c, w->source.base, w->bytes, hier_share(w), blocks);
    for (int m = 0; m < c->n; m++)
        memcpy(collect_place(w, m), blocks[m], w->bytes);
}

/* Lengths and short blocks as short blocks of fcollect, then long ones as long ones; none: nothing more. */
static void hier_collect(struct coll *c, const struct coll_work *w)
{
    const char *heads[HIER_MEMBERS];
    size_t begin[HIER_MEMBERS + 1] = {0};
    struct collect_head mine;
    size_t longest = 0;
    mine.bytes = w->bytes;
    memcpy(mine.block, w->source.base, w->bytes <= COLLECT_INLINE_BYTES ? w->bytes : 0);
    hier_exchange(c, &mine, sizeof(mine), sizeof(mine), heads);
    for (int m = 0; m < c->n; m++) {
        uint64_t bytes = ((const struct collect_head *)(const void *)heads[m])->bytes;
        if (__builtin_add_overflow(begin[m], bytes, &begin[m + 1]))
            begin[m + 1] = SIZE_MAX;
        longest = ISO_MAX(longest, bytes);
    }
    struct coll_mem dest = iso_coll_mem(w->dest.base, begin[c->n], "dest", c->call);
    if (longest > COLLECT_INLINE_BYTES) {
        struct hier_gather g = {dest, iso_coll_mem(w->source.base, longest, "source", c->call), 0, begin, 0, 0};
        g.chunks = hier_chunks(longest);
        hier_gather(c, &g);
        return;
    }
    for (int m = 0; m < c->n; m++)
        memcpy(dest.base + begin[m], ((const struct collect_head *)(const void *)heads[m])->block,
               begin[m + 1] - begin[m]);
}

/* ---- alltoall: short blocks. Out: K - 1 messages of m * (members there) * b bytes. The blocks of a node for another
 * lie together on its scratch: for each member here its blocks for the members there. Long blocks have no better way
 * than straight to their member (alltoall_push, which sends them first and copies meanwhile): all bytes differ. ---- */

static size_t hier_rows_at(struct coll *c, int node, size_t bytes)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    return (size_t)nodes->n_near * (size_t)nodes->begin[node] * bytes;
}

/* All blocks of other nodes are here; this member's are one of each row. */
static void hier_alltoall_take(struct coll *c, const struct coll_work *w)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    size_t row = (size_t)nodes->n_near * w->bytes;
    for (int k = 0; k < nodes->n; k++) {
        int size = hier_size(nodes, k);
        const char *rows = k == nodes->mine ? hier_scratch(c) + hier_rows_at(c, k, w->bytes)
                                            : hier_block(c, k, (size_t)size * row);
        for (int i = 0; i < size; i++)
            memcpy(alltoall_in(w, nodes->members[nodes->begin[k] + i]),
                   rows + (size_t)i * row + (size_t)nodes->me_near * w->bytes, w->bytes);
    }
}

static void hier_alltoall(struct coll *c, const struct coll_work *w)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    coll_begin_staged_epoch(c);
    for (int k = 0; k < nodes->n; k++) {
        int size = hier_size(nodes, k);
        char *rows = hier_scratch(c) + hier_rows_at(c, k, w->bytes);
        char *row = rows + (size_t)nodes->me_near * (size_t)size * w->bytes;
        for (int i = 0; i < size; i++)
            memcpy(row + (size_t)i * w->bytes, alltoall_out(w, nodes->members[nodes->begin[k] + i]), w->bytes);
    }
    if (!iso_slot_node_arrive(nodes)) {
        iso_slot_node_await(c->slot, c->epoch, c->call);
        hier_alltoall_take(c, w);
        return;
    }
    for (int i = 1; i < nodes->n; i++) {
        int k = (nodes->mine + i) % nodes->n;
        hier_send(c, k, hier_scratch(c) + hier_rows_at(c, k, w->bytes),
                  (size_t)nodes->n_near * (size_t)hier_size(nodes, k) * w->bytes);
    }
    hier_alltoall_take(c, w);
    iso_slot_node_release(nodes, c->epoch);
}

#endif
