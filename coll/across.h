/* SPDX-License-Identifier: MIT */
/* Schedules for teams on several nodes: within a node by pointer, between nodes one message for all of a node. They
 * need slot->nodes, and are the host's only. What arrives for a node lies in the part of its first member, where all of
 * the node read it. Elements are combined in member order, as by every other schedule. Included by select.c. */
#ifndef ISO_ACROSS_H
#define ISO_ACROSS_H

#include "bcast.h"

/* ---- blocks of nodes; staged steps only ----
 * Whoever speaks for its node sends one block to every other node and waits for one from each: so all members have
 * arrived when anybody is through, which is what the two banks need. The packet's number is looked at for equality: a
 * later one of another member, by another connection, says nothing of data that is still on its way. */

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
    for (int i = nodes->begin[node]; i < nodes->begin[node + 1]; i++)
        if (prim_poll_u64(&coll_packet_at(c, nodes->central, nodes->members[i])->seq) == c->step)
            return nodes->members[i];
    return -1;
}

/* The node's block, in memory of this node. */
static const char *across_block(struct coll *c, int node, size_t bytes)
{
    char *central = c->slot->nodes->central;
    int leader = iso_slot_node_leader(c->slot->nodes, node), from;
    const uint64_t *word = &coll_packet_at(c, central, leader)->seq;
    struct wait wait = ISO_WAIT(c->call, c->views[leader].pe, word, c->step);
    while ((from = across_speaker(c, node)) < 0)
        iso_wait_pause(&wait, prim_poll_u64(word));
    iso_wait_end(&wait);
    return bytes > ISO_PACKET_BYTES ? central + coll_stage_offset(c, from)
                                    : (const char *)coll_packet_at(c, central, from)->payload;
}

/* ---- reduce: short arrays ---- */

#define ACROSS_MEMBERS (ISO_BOARD_BYTES / 8)

/* Every member's operand, by member: this node's on the board, the others' where they arrived. */
static void across_operands(struct coll *c, size_t share, const char **operands)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    for (int k = 0; k < nodes->n; k++) {
        int first = nodes->begin[k], count = nodes->begin[k + 1] - first;
        const char *block = k == nodes->mine ? across_board(c) : across_block(c, k, (size_t)count * share);
        for (int i = 0; i < count; i++)
            operands[nodes->members[first + i]] = block + (size_t)i * share;
    }
}

static void across_reduce(struct coll *c, const struct coll_work *w)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    const char *operands[ACROSS_MEMBERS];
    size_t share = across_share(w);
    coll_step_staged(c);
    char *board = across_board(c), *sum = board + (size_t)nodes->n_near * share;
    memcpy(board + (size_t)nodes->me_near * share, w->source.base, w->bytes);
    if (iso_slot_node_arrive(nodes)) {
        for (int k = 1; k < nodes->n; k++)
            across_send(c, (nodes->mine + k) % nodes->n, board, (size_t)nodes->n_near * share);
        across_operands(c, share, operands);
        const char *left = operands[0];
        for (int m = 1; m < c->n; m++) {
            w->combine(sum, left, operands[m], w->nelems);
            left = sum;
        }
        iso_slot_node_release(nodes, c->step);
    } else {
        iso_slot_node_await(nodes, c->step, c->call);
    }
    memcpy(w->dest.base, sum, w->bytes);
}

/* ---- broadcast: to one member of each other node, which hands it on ---- */

static int across_node_of(const struct slot_nodes *nodes, int member)
{
    for (int k = 0; k < nodes->n; k++)
        for (int i = nodes->begin[k]; i < nodes->begin[k + 1]; i++)
            if (nodes->members[i] == member)
                return k;
    return 0;
}

static void across_hand_on(struct coll *c, const struct coll_work *w, const char *from)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    for (int i = nodes->begin[nodes->mine]; i < nodes->begin[nodes->mine + 1]; i++) {
        int to = nodes->members[i];
        if (to == c->me)
            continue;
        coll_put(c, &w->dest, 0, from, w->bytes, to);
        coll_flag_set(c, to);
    }
}

static void across_bcast(struct coll *c, const struct coll_work *w)
{
    const struct slot_nodes *nodes = c->slot->nodes;
    int home = across_node_of(nodes, w->root), leader = iso_slot_node_leader(nodes, nodes->mine);
    coll_step(c);
    if (c->me == w->root) {
        for (int k = 1; k < nodes->n; k++) {
            int to = iso_slot_node_leader(nodes, (home + k) % nodes->n);
            coll_put(c, &w->dest, 0, w->source.base, w->bytes, to);
            coll_flag_set(c, to);
        }
        across_hand_on(c, w, w->source.base);
        bcast_own(c, w);
        return;
    }
    bool hands_on = nodes->mine != home && c->me == leader;
    coll_flag_wait(c, nodes->mine == home || hands_on ? w->root : leader);
    if (hands_on)
        across_hand_on(c, w, w->dest.base);
}

#endif
