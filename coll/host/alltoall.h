/* SPDX-License-Identifier: MIT */
/* Schedules of alltoall (block j of member i becomes block i of member j) and alltoalls (the same with strides).
 * Included by host_algorithm.c. */
#ifndef ISO_ALLTOALL_H
#define ISO_ALLTOALL_H

#include "coll.h"

/* Block `member` of the source and of dest. */
static char *alltoall_out(const struct coll_work *w, int member) { return w->source.base + (size_t)member * w->bytes; }
static char *alltoall_in(const struct coll_work *w, int member) { return w->dest.base + (size_t)member * w->bytes; }

/* ---- alltoall ---- */

/* At most ISO_INBOX_BYTES for each pair: the block shares a cache line with its epoch. One hop. */
static void alltoall_inbox(struct coll *c, const struct coll_work *w)
{
    coll_begin_staged_epoch(c);
    for (int i = 1; i < c->n; i++)
        coll_inbox_send(c, coll_other(c, i), alltoall_out(w, coll_other(c, i)), w->bytes);
    coll_copy_own(alltoall_in(w, c->me), alltoall_out(w, c->me), w->bytes);
    for (int i = 1; i < c->n; i++)
        coll_inbox_recv(c, coll_other(c, i), alltoall_in(w, coll_other(c, i)), w->bytes);
    coll_inbox_prepare(c);
}

/* All sources side by side in the node scratch: each member writes a row, and reads a column. */
static void alltoall_scratch(struct coll *c, const struct coll_work *w)
{
    size_t row = (size_t)c->n * w->bytes;
    coll_begin_staged_epoch(c);
    const char *scratch = coll_scratch(c);
    coll_copy(coll_scratch(c) + (size_t)c->me * row, w->source.base, row);
    coll_scratch_pass(c);
    for (int m = 0; m < c->n; m++)
        coll_copy(alltoall_in(w, m), scratch + (size_t)m * row + (size_t)c->me * w->bytes, w->bytes);
}

/* Each member writes its blocks into the dests, which are ready before any member calls. One hop. */
static void alltoall_push_to(struct coll *c, const struct coll_work *w, bool far)
{
    for (int i = 1; i < c->n; i++) {
        int to = coll_other(c, i);
        if (coll_is_far(c, to) == far)
            coll_put_flag(c, coll_range(&w->dest, (size_t)c->me * w->bytes, w->bytes, to), alltoall_out(w, to));
    }
}

/* Blocks for other nodes are on their way while those for this one are copied. */
static void alltoall_push(struct coll *c, const struct coll_work *w)
{
    coll_begin_epoch(c);
    if (!coll_is_direct(c))
        alltoall_push_to(c, w, true);
    alltoall_push_to(c, w, false);
    coll_copy_own(alltoall_in(w, c->me), alltoall_out(w, c->me), w->bytes);
    coll_flag_wait_all(c);
    coll_put_done(c);
}

/* Each member reads its blocks out of the sources, once each; the second epoch keeps them unchanged until they are
 * read. */
static void alltoall_pull(struct coll *c, const struct coll_work *w)
{
    coll_begin_epoch(c);
    coll_flag_set_all(c);
    coll_copy_own(alltoall_in(w, c->me), alltoall_out(w, c->me), w->bytes);
    for (int i = 1; i < c->n; i++) {
        int from = coll_other(c, i);
        coll_flag_wait(c, from);
        coll_read(c, alltoall_in(w, from), coll_range(&w->source, (size_t)c->me * w->bytes, w->bytes, from));
    }
    coll_begin_epoch(c);
    coll_flag_set_all(c);
    coll_flag_wait_all(c);
}

/* ---- alltoalls: element e of block m lies at (m * nelems + e) * stride ---- */

struct alltoalls_run {
    char *to;
    const char *from;
    size_t to_step, from_step; /* bytes */
};

#define ALLTOALLS_COPY(r, count, bytes)                                                                   \
    for (size_t copied = 0; copied < (count); copied++, (r).to += (r).to_step, (r).from += (r).from_step) \
    __builtin_memcpy((r).to, (r).from, (bytes))

/* The usual sizes as constants, so that each element is one load and one store. */
static void alltoalls_copy(struct alltoalls_run r, size_t nelems, size_t elem_bytes)
{
    switch (elem_bytes) {
    case 1:
        ALLTOALLS_COPY(r, nelems, 1);
        break;
    case 2:
        ALLTOALLS_COPY(r, nelems, 2);
        break;
    case 4:
        ALLTOALLS_COPY(r, nelems, 4);
        break;
    case 8:
        ALLTOALLS_COPY(r, nelems, 8);
        break;
    default:
        ALLTOALLS_COPY(r, nelems, elem_bytes);
    }
}

static size_t alltoalls_offset(const struct coll_work *w, int member, ptrdiff_t stride)
{
    return (size_t)member * w->nelems * (size_t)stride * w->elem_bytes;
}

/* This member's block of member `to`'s dest, straight out of the source where a pointer reaches, else by elements. */
static void alltoalls_put(struct coll *c, const struct coll_work *w, int to)
{
    size_t offset = alltoalls_offset(w, c->me, w->dst), to_step = (size_t)w->dst * w->elem_bytes;
    const char *from = w->source.base + alltoalls_offset(w, to, w->sst);
    size_t from_step = (size_t)w->sst * w->elem_bytes;
    char *near = coll_pointer(c, &w->dest, to);
    if (near != NULL) {
        struct alltoalls_run r = {near + offset, from, to_step, from_step};
        alltoalls_copy(r, w->nelems, w->elem_bytes);
        return;
    }
    for (size_t e = 0; e < w->nelems; e++)
        coll_put(c, coll_range(&w->dest, offset + e * to_step, w->elem_bytes, to), from + e * from_step);
}

/* Elements `first` to `first + count - 1` of a block, between its places and dense memory. */
static void alltoalls_pack(const struct coll_work *w, int to, size_t first, size_t count, char *dense)
{
    struct alltoalls_run r = {dense, w->source.base + alltoalls_offset(w, to, w->sst), w->elem_bytes,
                              (size_t)w->sst * w->elem_bytes};
    r.from += first * r.from_step;
    alltoalls_copy(r, count, w->elem_bytes);
}
static void alltoalls_unpack(const struct coll_work *w, int from, size_t first, size_t count, const char *dense)
{
    struct alltoalls_run r = {w->dest.base + alltoalls_offset(w, from, w->dst), dense, (size_t)w->dst * w->elem_bytes,
                              w->elem_bytes};
    r.to += first * r.to_step;
    alltoalls_copy(r, count, w->elem_bytes);
}

/* A block of at most ISO_INBOX_BYTES is gathered into the inbox and scattered by its receiver. */
static void alltoalls_inbox(struct coll *c, const struct coll_work *w)
{
    char dense[ISO_INBOX_BYTES];
    coll_begin_staged_epoch(c);
    for (int i = 1; i < c->n; i++) {
        alltoalls_pack(w, coll_other(c, i), 0, w->nelems, dense);
        coll_inbox_send(c, coll_other(c, i), dense, w->bytes);
    }
    alltoalls_put(c, w, c->me);
    for (int i = 1; i < c->n; i++)
        alltoalls_unpack(w, coll_other(c, i), 0, w->nelems, (const char *)coll_inbox_wait(c, coll_other(c, i)));
}

/* Where no pointer reaches, a block goes packed, a stage at a time; an element at a time would be a message each. */
static void alltoalls_piece(struct coll *c, const struct coll_work *w, size_t first, size_t count)
{
    char piece[ISO_STAGE_BYTES];
    coll_begin_staged_epoch(c);
    for (int i = 1; i < c->n; i++) {
        int to = coll_other(c, i);
        if (coll_is_far(c, to)) {
            alltoalls_pack(w, to, first, count, piece);
            coll_stage_put(c, to, 0, piece, count * w->elem_bytes);
        } else if (first == 0) {
            alltoalls_put(c, w, to);
        }
        coll_flag_set(c, to);
    }
    if (first == 0)
        alltoalls_put(c, w, c->me);
    for (int i = 1; i < c->n; i++) {
        int from = coll_other(c, i);
        coll_flag_wait(c, from);
        if (coll_is_far(c, from))
            alltoalls_unpack(w, from, first, count, coll_stage_from(c, from));
    }
}

static void alltoalls_staged(struct coll *c, const struct coll_work *w)
{
    size_t most = ISO_STAGE_BYTES / w->elem_bytes, first = 0;
    do {
        size_t count = ISO_MIN(most, w->nelems - first);
        alltoalls_piece(c, w, first, count);
        first += count;
    } while (first < w->nelems);
}

static void alltoalls_push(struct coll *c, const struct coll_work *w)
{
    coll_begin_epoch(c);
    for (int i = 1; i < c->n; i++) {
        alltoalls_put(c, w, coll_other(c, i));
        coll_flag_set(c, coll_other(c, i));
    }
    alltoalls_put(c, w, c->me);
    coll_flag_wait_all(c);
}

#endif
