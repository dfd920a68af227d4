/* SPDX-License-Identifier: MIT */
/* Reductions and scans of teams on several nodes. Elements are combined in member order, as by every other schedule, so
 * results have the same bits: where members are numbered node by node a node goes on with the result of the nodes
 * before it; other numberings do that for integers only, whose result no order changes. n members, K nodes, m of them
 * on a node, arrays of N bytes; "out" is what a node sends. Includes: hier.h, reduce.h, scan.h. Included by
 * host_algorithm.c. */
#ifndef ISO_HIER_REDUCE_H
#define ISO_HIER_REDUCE_H

#include "hier.h"
#include "reduce.h"
#include "scan.h"

/* ---- short arrays: every member's operand to every node. Out: K - 1 messages of m * N bytes. ---- */

/* The last of the node to arrive reduces for all of it. */
static void hier_reduce(struct coll *c, const struct coll_work *w)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    const char *operands[HIER_MEMBERS];
    size_t share = hier_share(w);
    coll_begin_staged_epoch(c);
    char *scratch = hier_scratch(c), *sum = scratch + (size_t)nodes->n_near * share;
    memcpy(scratch + (size_t)nodes->me_near * share, w->source.base, w->bytes);
    if (iso_slot_node_arrive(nodes)) {
        for (int k = 1; k < nodes->n; k++)
            hier_send(c, (nodes->mine + k) % nodes->n, scratch, (size_t)nodes->n_near * share);
        hier_operands(c, share, operands);
        const char *left = operands[0];
        for (int m = 1; m < c->n; m++) {
            w->combine(sum, left, operands[m], w->nelems);
            left = sum;
        }
        iso_slot_node_release(nodes, c->epoch);
    } else {
        iso_slot_node_await(c->slot, c->epoch, c->call);
    }
    memcpy(w->dest.base, sum, w->bytes);
}

/* Each member adds up the operands before its own. */
static void hier_scan(struct coll *c, const struct coll_work *w)
{
    const char *operands[HIER_MEMBERS], *left = NULL;
    int last = scan_last(w, c->me);
    hier_exchange(c, w->source.base, w->bytes, hier_share(w), operands);
    for (int m = 0; m <= last; m++) {
        if (left != NULL)
            w->combine(w->dest.base, left, operands[m], w->nelems);
        left = left != NULL ? w->dest.base : operands[m];
    }
    if (last < 0)
        memset(w->dest.base, 0, w->bytes);
    else
        coll_copy_own(w->dest.base, left, w->bytes);
}

/* ---- long arrays: a chain of nodes. Out: N bytes of what is reduced so far to the next node, and N of results to the
 * one before; the last and the first node only one of them. (What must leave each node is 2 N (K - 1) / K.) Chunk i
 * runs on rail i: in each node one member combines it, by pointer, with the operands of all of the node, and sends it
 * on while it combines the next; the last node has the result, which runs back, and each node's rail hands it to all of
 * the node. 2 (K - 1) hops, as many chunks under way as there are. A rail's result so far lies in its own dest: so it
 * needs no memory besides, and goes on into the dest of the next rail. Where dest is the source too, the next rail
 * reads it instead, since its operand stands there. ---- */

#define CHAIN_UNIT_BYTES ((size_t)4096)
#define CHAIN_MOST_BYTES ((size_t)65536)
/* Bytes of a member's own part of the slot, to which no other member sends: a target of reads from another node. */
#define CHAIN_FETCH_BYTES ((size_t)2 * ISO_STAGE_BYTES)

struct chain {
    uint64_t base;     /* epochs: base + 1: "entered"; base + 2 + i: chunk i is there; the last one: the end */
    size_t chunks;     /* of the whole array */
    size_t per_chunk;  /* elements */
    size_t rails;      /* as many as the fullest node has members */
    bool in_place;     /* dest is the source */
    bool first, last;  /* node of the chain */
    int before, after; /* nodes */
};

static struct chain chain_of(struct coll *c, const struct coll_work *w, size_t most_bytes)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    struct chain h = {c->slot->seq, 0, 0, (size_t)nodes->most_near, w->dest.base == w->source.base, false, false, 0, 0};
    size_t some = w->bytes / (4 * h.rails), units = (some + CHAIN_UNIT_BYTES - 1) / CHAIN_UNIT_BYTES;
    size_t bytes = ISO_MIN(ISO_MAX(units, (size_t)1) * CHAIN_UNIT_BYTES, most_bytes);
    h.per_chunk = bytes / w->elem_bytes;
    h.chunks = (w->nelems + h.per_chunk - 1) / h.per_chunk;
    h.first = nodes->mine == 0;
    h.last = nodes->mine == nodes->n - 1;
    h.before = nodes->mine - 1;
    h.after = nodes->mine + 1;
    c->slot->seq += h.chunks + 2;
    return h;
}

/* The first chunk from i on whose rail is this member. */
static size_t chain_mine(struct coll *c, const struct chain *h, size_t i)
{
    while (i < h->chunks && hier_rail(c->slot->nodes, i % h->rails, c->slot->nodes->mine) != c->me)
        i++;
    return i;
}
static int chain_rail(struct coll *c, const struct chain *h, size_t i, int node)
{
    return hier_rail(c->slot->nodes, i % h->rails, node);
}

static struct reduce_part chain_part(const struct chain *h, const struct coll_work *w, size_t i)
{
    struct reduce_part part = {i * h->per_chunk, ISO_MIN(h->per_chunk, w->nelems - i * h->per_chunk)};
    return part;
}

/* All of this node are here, then their rails say so to the rails before: from then on dest is the call's. */
static void chain_enter(struct coll *c, const struct chain *h)
{
    c->epoch = h->base + 1;
    hier_sync(c, c->epoch);
    for (size_t i = chain_mine(c, h, 0); !h->first && i < ISO_MIN(h->chunks, h->rails); i = chain_mine(c, h, i + 1))
        coll_flag_set(c, chain_rail(c, h, i, h->before));
}

/* Block of chunk i to the rail in `node`, with its number. */
static void chain_send(struct coll *c, const struct chain *h, const struct coll_work *w, size_t i, int node)
{
    struct reduce_part part = chain_part(h, w, i);
    size_t offset = part.first * w->elem_bytes;
    c->epoch = h->base + 2 + i;
    coll_put_flag(c, coll_range(&w->dest, offset, part.count * w->elem_bytes, chain_rail(c, h, i, node)),
                  w->dest.base + offset);
}

/* One block of a chunk: `left`, then the operands of this node. Into dest of this member, or, on the last node, of all.
 */
static void chain_block(struct coll *c, const struct chain *h, const struct coll_work *w, struct reduce_part block,
                        const char *left)
{
    _Alignas(16) char sum[REDUCE_BLOCK_BYTES], spare[REDUCE_BLOCK_BYTES];
    const struct slot_nodes *nodes = c->slot->nodes;
    size_t offset = block.first * w->elem_bytes, bytes = block.count * w->elem_bytes;
    const int *near = nodes->members + nodes->begin[nodes->mine];
    for (int i = 0; i < nodes->n_near; i++) {
        const char *operand = reduce_operand(c, w, block, near[i], left == NULL ? sum : spare);
        if (left != NULL)
            w->combine(sum, left, operand, block.count);
        left = left != NULL ? sum : operand;
    }
    coll_copy_own(w->dest.base + offset, left, bytes);
    for (int i = 1; h->last && i < nodes->n_near; i++)
        coll_put(c, coll_range(&w->dest, offset, bytes, hier_peer(nodes, i)), left);
}

static void chain_forth(struct coll *c, const struct chain *h, const struct coll_work *w, size_t i)
{
    struct reduce_part part = chain_part(h, w, i);
    size_t offset = part.first * w->elem_bytes;
    const char *left = h->first ? NULL : w->dest.base + offset; /* the result of the nodes before */
    if (!h->first && h->in_place) {
        char *fetched = c->slot->memory + iso_slot_stage_offset(ISO) + (size_t)c->me * CHAIN_FETCH_BYTES;
        coll_read(c, fetched, coll_range(&w->dest, offset, part.count * w->elem_bytes, chain_rail(c, h, i, h->before)));
        left = fetched;
    }

    for (size_t done = 0, count; done < part.count; done += count) {
        count = ISO_MIN(part.count - done, REDUCE_BLOCK_BYTES / w->elem_bytes);
        struct reduce_part block = {part.first + done, count};
        chain_block(c, h, w, block, left == NULL ? NULL : left + done * w->elem_bytes);
    }
    if (h->last) {
        chain_send(c, h, w, i, h->before);
        return;
    }
    c->epoch = h->base + 1;
    coll_flag_wait(c, chain_rail(c, h, i, h->after));
    c->epoch = h->base + 2 + i;
    if (h->in_place)
        coll_flag_set(c, chain_rail(c, h, i, h->after));
    else
        chain_send(c, h, w, i, h->after);
}

/* The result of a chunk is in dest here. */
static void chain_back(struct coll *c, const struct chain *h, const struct coll_work *w, size_t i)
{
    struct reduce_part part = chain_part(h, w, i);
    size_t offset = part.first * w->elem_bytes;
    if (!h->first)
        chain_send(c, h, w, i, h->before);
    for (int k = 1; k < c->slot->nodes->n_near; k++)
        coll_put(c, coll_range(&w->dest, offset, part.count * w->elem_bytes, hier_peer(c->slot->nodes, k)),
                 w->dest.base + offset);
}

/* Has chunk i come from the rail in `node`? The first node's operands are here from the start. */
static bool chain_has(struct coll *c, const struct chain *h, size_t i, int node)
{
    return node < 0 || prim_poll_u64(hier_flag(c, c->me, chain_rail(c, h, i, node))) >= h->base + 2 + i;
}

static void hier_reduce_chain(struct coll *c, const struct coll_work *w)
{
    bool in_place = w->dest.base == w->source.base;
    struct chain h = chain_of(c, w, in_place ? CHAIN_FETCH_BYTES : CHAIN_MOST_BYTES);
    chain_enter(c, &h);

    /* Results first: other nodes wait for them. */
    size_t forth = chain_mine(c, &h, 0), back = h.last ? h.chunks : forth;
    struct wait wait = ISO_WAIT(c->call, -1, NULL, 0);
    while (forth < h.chunks || back < h.chunks) {
        if (back < forth && chain_has(c, &h, back, h.after)) {
            chain_back(c, &h, w, back);
            back = chain_mine(c, &h, back + 1);
        } else if (forth < h.chunks && chain_has(c, &h, forth, h.before)) {
            chain_forth(c, &h, w, forth);
            forth = chain_mine(c, &h, forth + 1);
        } else {
            size_t i = forth < h.chunks ? forth : back;
            int from = chain_rail(c, &h, i, forth < h.chunks ? h.before : h.after);
            wait.addr = hier_flag(c, c->me, from);
            wait.expected = h.base + 2 + i;
            wait.peer = c->views[from].pe;
            wait.slot = c->slot;
            iso_wait_pause(&wait, prim_poll_u64((const uint64_t *)wait.addr));
            continue;
        }
        iso_wait_end(&wait);
        wait = (struct wait)ISO_WAIT(c->call, -1, NULL, 0);
    }
    coll_put_done(c);
    hier_sync(c, c->slot->seq); /* all chunks of this node are there, and no member reads on */
}

/* ---- scan: the same chain one way, dest not the source: a node's members get theirs, the next node the sum of all so
 * far. Out: N bytes. ---- */

/* The sum goes by copy (blocks are short enough for that), since dest gets this member's own result. */
static void chain_scan_block(struct coll *c, const struct chain *h, const struct coll_work *w, size_t i)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    struct reduce_part block = chain_part(h, w, i);
    size_t offset = block.first * w->elem_bytes, bytes = block.count * w->elem_bytes;
    struct scan_sums s;
    s.before = s.room[0];
    s.after = s.room[1];
    s.empty = h->first;
    if (h->first)
        memset(s.before, 0, bytes);
    else
        memcpy(s.before, w->dest.base + offset, bytes);
    for (int k = 0; k < nodes->n_near; k++)
        scan_member(c, w, block, nodes->members[nodes->begin[nodes->mine] + k], &s);
    if (h->last)
        return;
    c->epoch = h->base + 1;
    coll_flag_wait(c, chain_rail(c, h, i, h->after));
    coll_put(c, coll_range(&w->dest, offset, bytes, chain_rail(c, h, i, h->after)), s.before);
    c->epoch = h->base + 2 + i;
    coll_flag_set(c, chain_rail(c, h, i, h->after));
}

static void hier_scan_chain(struct coll *c, const struct coll_work *w)
{
    struct chain h = chain_of(c, w, REDUCE_BLOCK_BYTES);
    chain_enter(c, &h);
    for (size_t i = chain_mine(c, &h, 0); i < h.chunks; i = chain_mine(c, &h, i + 1)) {
        if (!h.first)
            hier_flag_wait(c, c->me, chain_rail(c, &h, i, h.before), h.base + 2 + i);
        chain_scan_block(c, &h, w, i);
    }
    hier_sync(c, c->slot->seq);
}

#endif
