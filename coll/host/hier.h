/* SPDX-License-Identifier: MIT */
/* What schedules for teams on several nodes are written over, besides coll.h: within a node by pointer, between nodes
 * by what crosses once for all of a node. They need slot->nodes, and are the host's only. In the node that receives,
 * the flags and data of a message lie with one member, where all of the node wait and read. Included by across_*.h. */
#ifndef ISO_ACROSS_H
#define ISO_ACROSS_H

#include "coll.h"

/* ---- who is where ---- */

static int across_size(const struct slot_nodes *nodes, int node) { return nodes->begin[node + 1] - nodes->begin[node]; }

/* Rail number `rail` of a node: rails are as many as somebody likes, and the members of each node take them in turn. */
static int across_rail(const struct slot_nodes *nodes, size_t rail, int node)
{
    return nodes->members[nodes->begin[node] + (int)(rail % (size_t)across_size(nodes, node))];
}

/* The i-th other member of this node, i = 1 .. n_near - 1. */
static int across_peer(const struct slot_nodes *nodes, int i)
{
    return across_rail(nodes, (size_t)(nodes->me_near + i), nodes->mine);
}

static int across_node_of(const struct slot_nodes *nodes, int member)
{
    for (int k = 0; k < nodes->n; k++)
        for (int i = nodes->begin[k]; i < nodes->begin[k + 1]; i++)
            if (nodes->members[i] == member)
                return k;
    return 0;
}

/* ---- meetings and flags within a node ---- */

/* All members of this node have arrived, and what they wrote before is seen. `step` grows. */
static void across_meet(struct coll *c, uint64_t step)
{
    if (iso_slot_node_arrive(c->slot->nodes))
        iso_slot_node_release(c->slot->nodes, step);
    else
        iso_slot_node_await(c->slot, step, c->call);
}

static const uint64_t *across_flag(struct coll *c, int holder, int from)
{
    return (const uint64_t *)(const void *)(c->views[holder].near + iso_slot_flag_offset(from));
}

/* Until `from` has flagged `holder`, a member of this node, with this step or a later one. */
static void across_flag_wait(struct coll *c, int holder, int from, uint64_t step)
{
    const uint64_t *flag = across_flag(c, holder, from);
    if (prim_poll_u64(flag) < step)
        iso_slot_wait(c->slot, flag, step, c->views[from].pe, c->call);
}

/* ---- blocks of nodes; staged steps only ----
 * Whoever speaks for its node sends one block to every other node and waits for one from each: so all members have
 * arrived when anybody is through, which is what the two banks need. It takes them, and what it has taken the others of
 * its node find, once it has released them. The packet's number is looked at for equality: a later one of another
 * member, by another connection, says nothing of data that is still on its way. */

#define ACROSS_MEMBERS (ISO_BOARD_BYTES / 8)

static size_t across_share(const struct coll_work *w)
{
    size_t unit = w->elem_bytes <= 8 ? 8 : 16;
    return (w->bytes + unit - 1) / unit * unit;
}

static char *across_board(struct coll *c)
{
    return c->slot->nodes->central + iso_slot_board_offset(ISO) + (c->slot->staged & 1) * ISO_BOARD_BYTES;
}

static void across_send(struct coll *c, int node, const char *block, size_t bytes)
{
    int to = iso_slot_node_leader(c->slot->nodes, node);
    if (bytes > ISO_PACKET_BYTES)
        coll_stage_put(c, to, 0, block, bytes);
    coll_packet_send(c, to, block, bytes > ISO_PACKET_BYTES ? 0 : bytes);
}

/* Who has spoken for the node in this step, or -1. */
static int across_speaker(struct coll *c, int node)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    for (int i = nodes->begin[node]; i < nodes->begin[node + 1]; i++) {
        int from = nodes->members[i];
        if (prim_poll_u64(&coll_packet_at(c, nodes->central, from)->seq) == c->step ||
            iso_coll_far_take(c, nodes->central, from))
            return from;
    }
    return -1;
}

/* The node's block, in memory of this node. */
static const char *across_block(struct coll *c, int node, size_t bytes)
{
    char *central = c->slot->nodes->central;
    int leader = iso_slot_node_leader(c->slot->nodes, node), from;
    const uint64_t *word = &coll_packet_at(c, central, leader)->seq;
    struct wait wait = ISO_WAIT(c->call, c->views[leader].pe, word, c->step);
    wait.slot = c->slot;
    while ((from = across_speaker(c, node)) < 0)
        iso_wait_pause(&wait, prim_poll_u64(word));
    iso_wait_end(&wait);
    return bytes > ISO_PACKET_BYTES ? central + coll_stage_offset(c, from)
                                    : (const char *)coll_packet_at(c, central, from)->payload;
}

/* Every member's share of the board, by member: this node's there, the others' where they arrived. */
static void across_operands(struct coll *c, size_t share, const char **operands)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    for (int k = 0; k < nodes->n; k++) {
        int first = nodes->begin[k], count = across_size(nodes, k);
        const char *block = k == nodes->mine ? across_board(c) : across_block(c, k, (size_t)count * share);
        for (int i = 0; i < count; i++)
            operands[nodes->members[first + i]] = block + (size_t)i * share;
    }
}

/* All members get the shares of all, in one step: on the boards of the nodes, whose last members exchange them. For
 * each node and other node one message, of all shares of the node. */
static void across_exchange(struct coll *c, const void *mine, size_t bytes, size_t share, const char **operands)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    coll_step_staged(c);
    memcpy(across_board(c) + (size_t)nodes->me_near * share, mine, bytes);
    if (iso_slot_node_arrive(nodes)) {
        for (int k = 1; k < nodes->n; k++)
            across_send(c, (nodes->mine + k) % nodes->n, across_board(c), (size_t)nodes->n_near * share);
        across_operands(c, share, operands);
        iso_slot_node_release(nodes, c->step);
    } else {
        iso_slot_node_await(c->slot, c->step, c->call);
        across_operands(c, share, operands);
    }
}

#endif
