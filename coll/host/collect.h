/* SPDX-License-Identifier: MIT */
/* Schedules of fcollect (all blocks are equally long) and collect (each member has its own length).
 * Included by host_algorithm.c. */
#ifndef ISO_COLLECT_H
#define ISO_COLLECT_H

#include "coll.h"

static char *collect_place(const struct coll_work *w, int member) { return w->dest.base + (size_t)member * w->bytes; }

/* ---- fcollect ---- */

/* At most ISO_INBOX_BYTES each: the block shares a cache line with its epoch. One hop. */
static void fcollect_inbox(struct coll *c, const struct coll_work *w)
{
    coll_begin_staged_epoch(c);
    for (int i = 1; i < c->n; i++)
        coll_inbox_send(c, coll_other(c, i), w->source.base, w->bytes);
    coll_copy_own(collect_place(w, c->me), w->source.base, w->bytes);
    for (int i = 1; i < c->n; i++)
        coll_inbox_recv(c, coll_other(c, i), collect_place(w, coll_other(c, i)), w->bytes);
    coll_inbox_prepare(c);
}

/* All blocks side by side in the node scratch: each member writes one, all read all. */
static void fcollect_scratch(struct coll *c, const struct coll_work *w)
{
    coll_begin_staged_epoch(c);
    coll_copy(coll_scratch(c) + (size_t)c->me * w->bytes, w->source.base, w->bytes);
    coll_scratch_pass(c);
    coll_copy(w->dest.base, coll_scratch(c), (size_t)c->n * w->bytes);
}

/* Each member writes its block into all dests, which are ready before any member calls. One hop. */
static void fcollect_push(struct coll *c, const struct coll_work *w)
{
    coll_begin_epoch(c);
    for (int i = 1; i < c->n; i++)
        coll_put_flag(c, coll_range(&w->dest, (size_t)c->me * w->bytes, w->bytes, coll_other(c, i)), w->source.base);
    coll_copy_own(collect_place(w, c->me), w->source.base, w->bytes);
    coll_flag_wait_all(c);
    coll_put_done(c);
}

/* Each member reads all sources, once each, into memory of its own. The second epoch keeps each source unchanged until
 * its last reader is done. */
static void fcollect_pull(struct coll *c, const struct coll_work *w)
{
    coll_begin_epoch(c);
    coll_flag_set_all(c);
    coll_copy_own(collect_place(w, c->me), w->source.base, w->bytes);
    for (int i = 1; i < c->n; i++) {
        int from = coll_other(c, i);
        coll_flag_wait(c, from);
        coll_read(c, collect_place(w, from), coll_range(&w->source, 0, w->bytes, from));
    }
    coll_begin_epoch(c);
    coll_flag_set_all(c);
    coll_flag_wait_all(c);
}

/* ---- collect ---- */

#define COLLECT_INLINE_BYTES (ISO_INBOX_BYTES - 8)

struct collect_head {
    uint64_t bytes;
    unsigned char block[COLLECT_INLINE_BYTES]; /* the whole block when it is no longer than this */
};

static const struct collect_head *collect_head_of(struct coll *c, const struct collect_head *mine, int member)
{
    return member == c->me ? mine : (const struct collect_head *)coll_inbox_wait(c, member);
}

/* Where this member's block begins, how long all blocks are together, and the longest of them. */
struct collect_sum {
    uint64_t before, all, longest;
};

static struct collect_sum collect_add_up(struct coll *c, const struct collect_head *mine)
{
    struct collect_sum sum = {0, 0, 0};
    for (int m = 0; m < c->n; m++) {
        uint64_t bytes = collect_head_of(c, mine, m)->bytes;
        if (m == c->me)
            sum.before = sum.all;
        if (__builtin_add_overflow(sum.all, bytes, &sum.all))
            sum.all = UINT64_MAX;
        if (bytes > sum.longest)
            sum.longest = bytes;
    }
    return sum;
}

/* Each member tells all others how long its block is, and sends a short block along. */
static void collect_send_heads(struct coll *c, const struct coll_work *w, struct collect_head *mine)
{
    size_t inlined = w->bytes <= COLLECT_INLINE_BYTES ? w->bytes : 0;
    mine->bytes = w->bytes;
    coll_copy(mine->block, w->source.base, inlined);
    coll_begin_staged_epoch(c);
    for (int i = 1; i < c->n; i++)
        coll_inbox_send(c, coll_other(c, i), mine, sizeof(mine->bytes) + inlined);
}

/* Short blocks from the inboxes to their places. */
static void collect_place_short(struct coll *c, const struct collect_head *mine, char *dest)
{
    uint64_t offset = 0;
    for (int m = 0; m < c->n; m++) {
        const struct collect_head *head = collect_head_of(c, mine, m);
        if (head->bytes <= COLLECT_INLINE_BYTES && m != c->me)
            coll_copy(dest + offset, head->block, head->bytes);
        offset += head->bytes;
    }
}

/* Members with long blocks write them to all dests, and flag that in the same epoch. The others wait for the long ones,
 * which all know from the inboxes. */
static void collect_push(struct coll *c, const struct coll_work *w)
{
    struct collect_head mine;
    collect_send_heads(c, w, &mine);
    struct collect_sum sum = collect_add_up(c, &mine);
    struct coll_mem dest = iso_coll_mem(w->dest.base, (size_t)sum.all, "dest", c->call);
    for (int i = 1; i < c->n && w->bytes > COLLECT_INLINE_BYTES; i++)
        coll_put_flag(c, coll_range(&dest, (size_t)sum.before, w->bytes, coll_other(c, i)), w->source.base);
    coll_copy_own(w->dest.base + sum.before, w->source.base, w->bytes);
    collect_place_short(c, &mine, w->dest.base);
    for (int m = 0; m < c->n; m++)
        if (m != c->me && collect_head_of(c, &mine, m)->bytes > COLLECT_INLINE_BYTES)
            coll_flag_wait(c, m);
    coll_put_done(c);
}

/* Each member reads the long blocks, once each; the inbox has said that they are ready. Their owners stay until all
 * others have flagged, in the same epoch, that they are done. */
static void collect_pull(struct coll *c, const struct coll_work *w)
{
    struct collect_head mine;
    uint64_t offset = 0;
    collect_send_heads(c, w, &mine);
    struct collect_sum sum = collect_add_up(c, &mine);
    (void)iso_coll_mem(w->dest.base, (size_t)sum.all, "dest", c->call);
    struct coll_mem source = iso_coll_mem(w->source.base, (size_t)sum.longest, "source", c->call);
    coll_copy_own(w->dest.base + sum.before, w->source.base, w->bytes);
    collect_place_short(c, &mine, w->dest.base);
    for (int m = 0; m < c->n; m++) {
        size_t bytes = (size_t)collect_head_of(c, &mine, m)->bytes;
        if (m != c->me && bytes > COLLECT_INLINE_BYTES) {
            coll_read(c, w->dest.base + offset, coll_range(&source, 0, bytes, m));
            coll_flag_set(c, m);
        }
        offset += bytes;
    }
    if (w->bytes > COLLECT_INLINE_BYTES)
        coll_flag_wait_all(c);
}

#endif
