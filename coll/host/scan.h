/* SPDX-License-Identifier: MIT */
/* Schedules of the scans: member m gets 0 + 1 + ... + m (inclusive) or + ... + m - 1 (w->exclusive; member 0 gets 0),
 * always added in member order. All allow dest == source. Includes: reduce.h. Included by host_algorithm.c. */
#ifndef ISO_SCAN_H
#define ISO_SCAN_H

#include "reduce.h"

/* The last member whose operand goes into member m's result; -1: none. */
static int scan_last(const struct coll_work *w, int m) { return w->exclusive ? m - 1 : m; }

/* ---- one-shot: all send to all (the rule of a staged epoch), and each adds the operands before its own ---- */

static void scan_inbox(struct coll *c, const struct coll_work *w)
{
    _Alignas(16) char sum[ISO_INBOX_BYTES] = {0};
    const void *left = sum;
    int last = scan_last(w, c->me);
    coll_begin_staged_epoch(c);
    for (int i = 1; i < c->n; i++)
        coll_inbox_send(c, coll_other(c, i), w->source.base, w->bytes);
    for (int m = 0; m < c->n; m++) {
        const void *operand = m == c->me ? w->source.base : coll_inbox_wait(c, m);
        if (m == 0 && last >= 0) {
            left = operand;
        } else if (m <= last) {
            w->combine(sum, left, operand, w->nelems);
            left = sum;
        }
    }
    coll_copy_own(w->dest.base, left, w->bytes);
    coll_inbox_prepare(c);
}

/* ---- two-shot: member i scans part i of all members, and writes each of them its result ---- */

/* In member order with two sums: a member's operand is read before its dest, which may be the same, is written. */
struct scan_sums {
    _Alignas(16) char room[2][REDUCE_BLOCK_BYTES];
    _Alignas(16) char spare[REDUCE_BLOCK_BYTES];
    char *before, *after; /* without the next member's operand, and with it */
    bool empty;           /* there is no operand before that one */
};

/* Member m's turn: it gets its result. */
static void scan_member(struct coll *c, const struct coll_work *w, struct reduce_part block, int m, struct scan_sums *s)
{
    size_t offset = block.first * w->elem_bytes, bytes = block.count * w->elem_bytes;
    const char *operand = reduce_operand(c, w, block, m, s->spare);
    char *after = s->after;
    if (s->empty)
        memcpy(after, operand, bytes);
    else
        w->combine(after, s->before, operand, block.count);
    coll_put(c, coll_range(&w->dest, offset, bytes, m), w->exclusive ? s->before : after);
    s->after = s->before;
    s->before = after;
    s->empty = false;
}
static void scan_block(struct coll *c, const struct coll_work *w, struct reduce_part block)
{
    struct scan_sums s;
    s.before = s.room[0];
    s.after = s.room[1];
    s.empty = true;
    memset(s.before, 0, block.count * w->elem_bytes);
    for (int m = 0; m < c->n; m++)
        scan_member(c, w, block, m, &s);
}

static void scan_twoshot(struct coll *c, const struct coll_work *w)
{
    reduce_sync(c);
    reduce_own_part(c, w, scan_block);
    reduce_sync(c);
}

static void scan_twoshot_central(struct coll *c, const struct coll_work *w)
{
    reduce_sync_central(c);
    reduce_own_part(c, w, scan_block);
    reduce_sync_central(c);
}

/* ---- node scratch ---- */

static void scan_scratch(struct coll *c, const struct coll_work *w)
{
    size_t share = reduce_scratch_share(c->n), most = share / w->elem_bytes;
    if (share == 0) {
        scan_twoshot_central(c, w);
        return;
    }
    int last = scan_last(w, c->me);
    struct reduce_part piece = {0, 0};
    do {
        piece.count = w->nelems - piece.first < most ? w->nelems - piece.first : most;
        const char *left = reduce_scratch_fill(c, w, piece, share), *scratch = left;
        char *into = w->dest.base + piece.first * w->elem_bytes;
        for (int m = 1; m <= last; m++) {
            w->combine(into, left, scratch + (size_t)m * share, piece.count);
            left = into;
        }
        if (last < 0)
            memset(into, 0, piece.count * w->elem_bytes);
        else
            coll_copy_own(into, left, piece.count * w->elem_bytes);
        piece.first += piece.count;
    } while (piece.first < w->nelems);
}

#endif
