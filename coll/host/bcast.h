/* SPDX-License-Identifier: MIT */
/* Schedules of broadcast. w->root_dest: the root writes its own dest too (teams; active sets do not).
 * Included by host_algorithm.c. */
#ifndef ISO_BCAST_H
#define ISO_BCAST_H

#include "coll.h"

static void bcast_own(const struct coll_work *w)
{
    if (w->root_dest)
        coll_copy_own(w->dest.base, w->source.base, w->bytes);
}

/* The root writes each dest and flags it, without an answer. One hop. The root may run ahead without credit: all dests
 * are ready before any member calls, and a later flag stands for an earlier one. */
static void bcast_push(struct coll *c, const struct coll_work *w)
{
    coll_begin_epoch(c);
    if (c->me != w->root) {
        coll_flag_wait(c, w->root);
        return;
    }
    for (int i = 1; i < c->n; i++)
        coll_put_flag(c, coll_range(&w->dest, 0, w->bytes, coll_other(c, i)), w->source.base);
    bcast_own(w);
    coll_put_done(c);
}

/* Each receiver copies for itself, all at once; the root stays until the last has said that it is done. A cache line
 * crosses once, where a push makes it cross twice (to be written, and to be read by its owner). */
static void bcast_pull(struct coll *c, const struct coll_work *w)
{
    coll_begin_epoch(c);
    if (c->me == w->root) {
        coll_flag_set_all(c);
        if (ISO->oversubscribed) /* its own copy would stand in front of a receiver's, which needs this core */
            coll_flag_wait_all(c);
        bcast_own(w);
        coll_flag_wait_all(c);
    } else {
        coll_flag_wait(c, w->root);
        coll_read(c, w->dest.base, coll_range(&w->source, 0, w->bytes, w->root));
        coll_flag_set(c, w->root);
    }
}

/* A binomial tree from the root, ranks counted from it: member r hands on to r + 1, r + 2, r + 4 ... below its own
 * lowest set bit, largest first, out of its own dest (the root: out of its source). log2 n hops. */
static void bcast_tree(struct coll *c, const struct coll_work *w)
{
    int rank = (c->me - w->root + c->n) % c->n, top = 1;
    const char *from = rank == 0 ? w->source.base : w->dest.base;
    coll_begin_epoch(c);
    while (top < c->n && (rank & top) == 0)
        top *= 2;
    if (rank != 0)
        coll_flag_wait(c, (rank - top + w->root) % c->n);
    for (int bit = top / 2; bit > 0; bit /= 2) {
        if (rank + bit >= c->n)
            continue;
        coll_put_flag(c, coll_range(&w->dest, 0, w->bytes, (rank + bit + w->root) % c->n), from);
    }
    if (rank == 0)
        bcast_own(w);
    coll_put_done(c);
}

#endif
