/* SPDX-License-Identifier: MIT */
/* The base of schedules for teams on several nodes, besides coll.h: within a node by pointer, between nodes
 * by what crosses once for all of a node. They need slot->nodes, and are the host's only. In the node that receives,
 * the flags and data of a message lie with one member, where all of the node wait and read. Included by hier_*.h. */
#ifndef ISO_HIER_H
#define ISO_HIER_H

#include "../../shmem/node/wait.h"
#include "coll.h"

/* ---- nodes and rails ---- */

static int hier_size(const struct slot_nodes *nodes, int node) { return nodes->begin[node + 1] - nodes->begin[node]; }

/* Rail number `rail` of a node: there may be any number of rails; the members of each node take them in turn. */
static int hier_rail(const struct slot_nodes *nodes, size_t rail, int node)
{
    return nodes->members[nodes->begin[node] + (int)(rail % (size_t)hier_size(nodes, node))];
}

/* The i-th other member of this node, i = 1 .. n_near - 1. */
static int hier_peer(const struct slot_nodes *nodes, int i)
{
    return hier_rail(nodes, (size_t)(nodes->me_near + i), nodes->mine);
}

static int hier_node_of(const struct slot_nodes *nodes, int member)
{
    for (int k = 0; k < nodes->n; k++)
        for (int i = nodes->begin[k]; i < nodes->begin[k + 1]; i++)
            if (nodes->members[i] == member)
                return k;
    return 0;
}

/* ---- barriers and flags within a node ---- */

/* All members of this node have arrived, and what they wrote before is seen. `epoch` grows. */
static void hier_sync(struct coll *c, uint64_t epoch)
{
    if (iso_slot_node_arrive(c->slot->nodes))
        iso_slot_node_release(c->slot->nodes, epoch);
    else
        iso_slot_node_await(c->slot, epoch, c->call);
}

static const uint64_t *hier_flag(struct coll *c, int holder, int from)
{
    return (const uint64_t *)(const void *)(c->views[holder].near + iso_slot_flag_offset(from));
}

/* Until `from` has flagged `holder`, a member of this node, with this epoch or a later one. */
static void hier_flag_wait(struct coll *c, int holder, int from, uint64_t epoch)
{
    const uint64_t *flag = hier_flag(c, holder, from);
    if (prim_poll_u64(flag) < epoch)
        (void)iso_slot_wait(c->slot, flag, epoch, c->views[from].pe, c->call);
}

/* ---- blocks of nodes; staged epochs only ----
 * The member that speaks for its node sends one block to every other node and waits for one from each. So all members
 * have arrived when any of them is through, which the two banks need. It takes the blocks; the others of its node find
 * them once it has released them. The packet's number is compared for equality: a later one of another member, by
 * another connection, says nothing of data that is still on its way. */

#define HIER_MEMBERS (ISO_SCRATCH_BYTES / 8)

static size_t hier_share(const struct coll_work *w)
{
    size_t unit = w->elem_bytes <= 8 ? 8 : 16;
    return (w->bytes + unit - 1) / unit * unit;
}

static char *hier_scratch(struct coll *c)
{
    return c->slot->nodes->central + iso_slot_scratch_offset(ISO) + (c->slot->staged & 1) * ISO_SCRATCH_BYTES;
}

static void hier_send(struct coll *c, int node, const char *block, size_t bytes)
{
    int to = iso_slot_node_leader(c->slot->nodes, node);
    if (bytes > ISO_INBOX_BYTES)
        coll_stage_put(c, to, 0, block, bytes);
    coll_inbox_send(c, to, block, bytes > ISO_INBOX_BYTES ? 0 : bytes);
}

/* The member that has spoken for the node in this epoch, or -1. */
static int hier_speaker(struct coll *c, int node)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    for (int i = nodes->begin[node]; i < nodes->begin[node + 1]; i++) {
        int from = nodes->members[i];
        if (prim_poll_u64(&coll_inbox_at(c, nodes->central, from)->seq) == c->epoch ||
            iso_inbox_far_take(coll_inbox(c), nodes->central, from))
            return from;
    }
    return -1;
}

/* The node's block, in memory of this node. */
static const char *hier_block(struct coll *c, int node, size_t bytes)
{
    char *central = c->slot->nodes->central;
    int leader = iso_slot_node_leader(c->slot->nodes, node), from;
    const uint64_t *word = &coll_inbox_at(c, central, leader)->seq;
    struct wait wait = ISO_WAIT(c->call, c->views[leader].pe, word, c->epoch);
    wait.slot = c->slot;
    while ((from = hier_speaker(c, node)) < 0)
        iso_wait_pause(&wait, prim_poll_u64(word));
    iso_wait_end(&wait);
    return bytes > ISO_INBOX_BYTES ? central + coll_stage_offset(c, from)
                                   : (const char *)coll_inbox_at(c, central, from)->payload;
}

/* Every member's share of the scratch, by member: this node's there, the others' where they arrived. */
static void hier_operands(struct coll *c, size_t share, const char **operands)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    for (int k = 0; k < nodes->n; k++) {
        int first = nodes->begin[k], count = hier_size(nodes, k);
        const char *block = k == nodes->mine ? hier_scratch(c) : hier_block(c, k, (size_t)count * share);
        for (int i = 0; i < count; i++)
            operands[nodes->members[first + i]] = block + (size_t)i * share;
    }
}

/* All members get the shares of all, in one epoch: in the scratch of each node; the last members exchange them. For
 * each node and other node one message, of all shares of the node. */
static void hier_exchange(struct coll *c, const void *mine, size_t bytes, size_t share, const char **operands)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    coll_begin_staged_epoch(c);
    memcpy(hier_scratch(c) + (size_t)nodes->me_near * share, mine, bytes);
    if (iso_slot_node_arrive(nodes)) {
        for (int k = 1; k < nodes->n; k++)
            hier_send(c, (nodes->mine + k) % nodes->n, hier_scratch(c), (size_t)nodes->n_near * share);
        hier_operands(c, share, operands);
        iso_slot_node_release(nodes, c->epoch);
    } else {
        iso_slot_node_await(c->slot, c->epoch, c->call);
        hier_operands(c, share, operands);
    }
}

#endif
