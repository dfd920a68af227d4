/* SPDX-License-Identifier: MIT */
/* Schedules of the reductions. Every element is combined in member order, ((0 op 1) op 2) op ..., by every schedule and
 * on every member: results are bit-identical everywhere, from run to run, and whatever schedule is chosen.
 * All allow dest == source. Includes: coll.h. Included by host_algorithm.c. */
#ifndef ISO_REDUCE_H
#define ISO_REDUCE_H

#include "coll.h"

/* Bytes that stay in the first-level cache while all members' operands are combined. */
#define REDUCE_BLOCK_BYTES 8192

/* ---- one-shot: each member gets all operands, and reduces for itself ---- */

static void reduce_inbox(struct coll *c, const struct coll_work *w)
{
    _Alignas(16) char sum[ISO_INBOX_BYTES];
    coll_begin_staged_epoch(c);
    for (int i = 1; i < c->n; i++)
        coll_inbox_send(c, coll_other(c, i), w->source.base, w->bytes);
    const void *left = c->me == 0 ? w->source.base : coll_inbox_wait(c, 0);
    for (int m = 1; m < c->n; m++) {
        w->combine(sum, left, m == c->me ? w->source.base : coll_inbox_wait(c, m), w->nelems);
        left = sum;
    }
    memcpy(w->dest.base, left, w->bytes);
    coll_inbox_prepare(c);
}

static void reduce_staged(struct coll *c, const struct coll_work *w)
{
    _Alignas(16) char sum[ISO_STAGE_BYTES];
    char *into = w->dest.base == w->source.base ? sum : w->dest.base; /* own operand may be needed after the first */
    coll_begin_staged_epoch(c);
    for (int i = 1; i < c->n; i++) {
        coll_stage_put(c, coll_other(c, i), 0, w->source.base, w->bytes);
        coll_flag_set(c, coll_other(c, i));
    }
    coll_flag_wait_all(c);
    const char *left = c->me == 0 ? w->source.base : coll_stage_from(c, 0);
    for (int m = 1; m < c->n; m++) {
        w->combine(into, left, m == c->me ? w->source.base : coll_stage_from(c, m), w->nelems);
        left = into;
    }
    coll_copy_own(w->dest.base, left, w->bytes);
}

/* ---- two-shot: member i reduces part i for all ---- */

/* Elements first .. first + count - 1. */
struct reduce_part {
    size_t first, count;
};

/* A block of member m's source: in place where a pointer reaches it, else copied into `spare`. */
static const char *reduce_operand(struct coll *c, const struct coll_work *w, struct reduce_part block, int m,
                                  char *spare)
{
    const char *near = coll_pointer(c, &w->source, m);
    if (near != NULL)
        return near + block.first * w->elem_bytes;
    coll_read(c, spare, coll_range(&w->source, block.first * w->elem_bytes, block.count * w->elem_bytes, m));
    return spare;
}

/* Combines into the block of member 0's dest where a pointer reaches it: when that is also member 0's source, it is
 * read for the last time by the very combination that overwrites it. */
static void reduce_block(struct coll *c, const struct coll_work *w, struct reduce_part block)
{
    _Alignas(16) char sum[REDUCE_BLOCK_BYTES], spare[REDUCE_BLOCK_BYTES];
    size_t offset = block.first * w->elem_bytes, bytes = block.count * w->elem_bytes;
    char *near = coll_pointer(c, &w->dest, 0);
    char *into = near != NULL ? near + offset : sum;
    const char *left = reduce_operand(c, w, block, 0, sum);
    for (int m = 1; m < c->n; m++) {
        w->combine(into, left, reduce_operand(c, w, block, m, spare), block.count);
        left = into;
    }
    for (int m = near != NULL ? 1 : 0; m < c->n; m++)
        coll_put(c, coll_range(&w->dest, offset, bytes, m), into);
}

typedef void reduce_block_fn(struct coll *c, const struct coll_work *w, struct reduce_part block);

/* Parts begin at multiples of a cache line, so that no two members write one line of an aligned array. */
static void reduce_own_part(struct coll *c, const struct coll_work *w, reduce_block_fn *each_block)
{
    size_t per_line = ISO_LINE / w->elem_bytes, most = REDUCE_BLOCK_BYTES / w->elem_bytes;
    size_t lines = (w->nelems + per_line - 1) / per_line;
    size_t share = lines / (size_t)c->n, rest = lines % (size_t)c->n, me = (size_t)c->me;
    size_t from = me * share + (me < rest ? me : rest);
    size_t to = from + share + (me < rest ? 1 : 0);
    size_t end = to * per_line < w->nelems ? to * per_line : w->nelems;
    struct reduce_part part = {from * per_line, 0};
    part.count = end > part.first ? end - part.first : 0;
    while (part.count > 0) {
        struct reduce_part block = {part.first, part.count < most ? part.count : most};
        each_block(c, w, block);
        part.first += block.count;
        part.count -= block.count;
    }
}

/* All members are here, and what they have written and read is done: by flags between all pairs, ... */
static void reduce_sync(struct coll *c)
{
    coll_begin_epoch(c);
    coll_flag_set_all(c);
    coll_flag_wait_all(c);
}

/* ... or by the leader's counter. */
static void reduce_sync_central(struct coll *c)
{
    coll_begin_staged_epoch(c);
    coll_scratch_pass(c);
}

/* After the first barrier all sources may be read and all dests written. After the second all parts are there, and no
 * member reads on. */
static void reduce_twoshot(struct coll *c, const struct coll_work *w)
{
    reduce_sync(c);
    reduce_own_part(c, w, reduce_block);
    reduce_sync(c);
}

static void reduce_twoshot_central(struct coll *c, const struct coll_work *w)
{
    reduce_sync_central(c);
    reduce_own_part(c, w, reduce_block);
    reduce_sync_central(c);
}

/* ---- node scratch: one barrier for members that share cores; in pieces, when members are many or arrays long ---- */

/* Bytes of node scratch for each of n members; 0: there are too many. */
static size_t reduce_scratch_share(int n)
{
    size_t share = ISO_SCRATCH_BYTES / (size_t)n;
    return share >= ISO_LINE ? share & ~(size_t)(ISO_LINE - 1) : share & ~(size_t)15;
}

/* All operands of a piece in the node scratch, `share` bytes apart. */
static const char *reduce_scratch_fill(struct coll *c, const struct coll_work *w, struct reduce_part piece, size_t share)
{
    coll_begin_staged_epoch(c);
    char *scratch = coll_scratch(c);
    memcpy(scratch + (size_t)c->me * share, w->source.base + piece.first * w->elem_bytes, piece.count * w->elem_bytes);
    coll_scratch_pass(c);
    return scratch;
}

static void reduce_scratch(struct coll *c, const struct coll_work *w)
{
    size_t share = reduce_scratch_share(c->n), most = share / w->elem_bytes;
    if (share == 0) {
        reduce_twoshot_central(c, w);
        return;
    }
    struct reduce_part piece = {0, 0};
    do {
        piece.count = w->nelems - piece.first < most ? w->nelems - piece.first : most;
        const char *left = reduce_scratch_fill(c, w, piece, share), *scratch = left;
        char *into = w->dest.base + piece.first * w->elem_bytes;
        for (int m = 1; m < c->n; m++) {
            w->combine(into, left, scratch + (size_t)m * share, piece.count);
            left = into;
        }
        piece.first += piece.count;
    } while (piece.first < w->nelems);
}

#endif
