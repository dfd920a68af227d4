/* SPDX-License-Identifier: MIT */
/* Reductions by stores into dests: the stage for what member i sends to be reduced is where member i's own result will
 * be, in dest of the member that reduces. So stages are as large as the data, and nothing but links is waited for.
 * Member m's result has its span of all arrays, `span` bytes from one to the next; a block works on one slice of each
 * span, in pieces. One iteration: send piece k to be reduced, flag; reduce piece k - 2 into the own dest; hand out the
 * result of piece k - 4. Flags of an iteration are waited for one iteration later, so that they are under way beside
 * data: a member in iteration t has waited for the others' flags of iteration t - 2. So piece t - 3, which it reduces,
 * has come in their iteration t - 2. The place of its results, those of piece t - 5, they have read in iteration t - 2.
 * The synchronisation at the start says that dests may be written, the one at the end that results are there.
 * Included by reduce_kernels.c. */
#ifndef ISO_DEST_STREAM_H
#define ISO_DEST_STREAM_H

#include "stream_device.h"

/* A piece in inbox_bytes, the same in all blocks: large ones cost fewer iterations. Of few pieces there is little to
 * overlap: below 8 of them they are half as long. */
#define ISOD_DEST_INBOXES 8
#define ISOD_DEST_BATCH 2   /* units of a thread under way at once, to ISOD_BATCH members each */
enum { ISOD_DEST_REDUCES = 3, ISOD_DEST_HANDS_OUT = 5 }; /* in iteration t: piece t - this; it sends piece t - 1 */

struct isod_dest {
    char *dest; /* of this block, in span 0 */
    const char *source;
    const int64_t *dests;   /* table of distances */
    uint64_t span, bytes;   /* of this block: bytes in each span, whole units */
    uint32_t piece, pieces; /* bytes of one, their number */
    bool whole;             /* all addresses are those of units */
};

PRIM_FN uint32_t isod_dest_pieces(uint64_t bytes, uint32_t piece)
{
    return isod_ceil_div((uint32_t)isod_units(bytes), piece / 16);
}
PRIM_FN uint32_t isod_dest_turns(const struct isod_dest *d) { return d->pieces + ISOD_DEST_HANDS_OUT; }

PRIM_FN struct isod_dest isod_dest_of(const struct isod_move *w, uint32_t piece)
{
    struct isod_dest d;
    d.dest = w->dest;
    d.source = w->source;
    d.dests = isod_table_dest();
    d.span = w->source_stride;
    d.bytes = w->bytes;
    d.piece = piece;
    d.pieces = isod_dest_pieces(w->bytes, piece);
    d.whole = false;
    return d;
}
/* Iteration 0: all members are here, dests may be written. A sync. false: given up. */
PRIM_FN bool isod_dest_arrive(struct isod_coll *c, const struct isod_stream_coll *a, struct isod_dest *d)
{
    struct isod_touched dest = isod_touched_of(a->dest, a->dest_place, isod_table_dest(), d->dest);
    bool odd = (((uintptr_t)d->dest | (uintptr_t)d->source) & 15) != 0;
    isod_places_announce(c, 1, a->dest_place, 0);
    isod_table_expect(c, dest);
    bool goes_on = isod_places_await(c, 1, dest, dest, &odd);
    d->whole = !odd;
    return goes_on;
}

/* A piece in a span: where it begins, and its units. */
PRIM_FN uint64_t isod_dest_at(const struct isod_dest *d, uint32_t number) { return (uint64_t)number * d->piece; }
PRIM_FN uint32_t isod_dest_units(const struct isod_dest *d, uint32_t number)
{
    uint64_t left = d->bytes - isod_dest_at(d, number);
    return (uint32_t)isod_units(left < d->piece ? left : d->piece);
}

/* At addresses that are not those of units. */
PRIM_FN void isod_dest_copy_odd(const struct isod_coll *c, char *to, const char *from, uint32_t units)
{
    for (uint32_t u = c->rank; u < units; u += c->size)
        isod_unit_store_odd(to + (uint64_t)u * 16, isod_unit_load_odd(from + (uint64_t)u * 16, 16), 16);
}

/* Units u and u + c->size of the piece, if there is one, to the members other .. other + ISOD_BATCH - 1, as far as
 * there are. */
PRIM_FN void isod_dest_send_batch(const struct isod_coll *c, const struct isod_dest *d, uint32_t number, uint32_t u,
                                  uint32_t other)
{
    uint32_t units = isod_dest_units(d, number);
    uint64_t at = isod_dest_at(d, number);
    struct prim_vec16 v[ISOD_BATCH][ISOD_DEST_BATCH];
    PRIM_UNROLL
    for (uint32_t k = 0; k < ISOD_BATCH; k++)
        if (other + k <= isod_coll_others(c)) {
            const char *from = d->source + (uint64_t)(uint32_t)isod_coll_other(c, other + k) * d->span + at;
            PRIM_UNROLL
            for (uint32_t b = 0; b < ISOD_DEST_BATCH; b++)
                if (u + b * c->size < units)
                    v[k][b] = prim_load16(from + (uint64_t)(u + b * c->size) * 16);
        }
    PRIM_UNROLL
    for (uint32_t k = 0; k < ISOD_BATCH; k++)
        if (other + k <= isod_coll_others(c)) {
            char *to = d->dest + d->dests[isod_coll_other(c, other + k)] + (uint64_t)c->h.my_pe * d->span + at;
            PRIM_UNROLL
            for (uint32_t b = 0; b < ISOD_DEST_BATCH; b++)
                if (u + b * c->size < units)
                    prim_store16(to + (uint64_t)(u + b * c->size) * 16, v[k][b]);
        }
}

/* A piece of what the others reduce. */
PRIM_FN void isod_dest_send(const struct isod_coll *c, const struct isod_dest *d, uint32_t number)
{
    uint32_t units = isod_dest_units(d, number);
    uint64_t at = isod_dest_at(d, number), ours = (uint64_t)c->h.my_pe * d->span + at;
    for (uint32_t u = c->rank; d->whole && u < units; u += ISOD_DEST_BATCH * c->size)
        for (uint32_t other = 1; other <= isod_coll_others(c); other += ISOD_BATCH)
            isod_dest_send_batch(c, d, number, u, other);
    for (uint32_t i = 1; !d->whole && i <= isod_coll_others(c); i++) {
        int32_t m = isod_coll_other(c, i);
        isod_dest_copy_odd(c, d->dest + d->dests[m] + ours, d->source + (uint64_t)(uint32_t)m * d->span + at, units);
    }
}

/* A piece of the own result, which the same threads have stored. */
PRIM_FN void isod_dest_hand_out(const struct isod_coll *c, const struct isod_dest *d, uint32_t number)
{
    char *ours = d->dest + (uint64_t)c->h.my_pe * d->span + isod_dest_at(d, number);
    uint32_t units = isod_dest_units(d, number);
    for (uint32_t u = c->rank; d->whole && u < units; u += ISOD_BATCH * c->size) {
        struct prim_vec16 v[ISOD_BATCH];
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_BATCH; k++)
            if (u + k * c->size < units)
                v[k] = prim_load16(ours + (uint64_t)(u + k * c->size) * 16);
        for (uint32_t i = 1; i <= isod_coll_others(c); i++) {
            char *theirs = ours + d->dests[isod_coll_other(c, i)];
            PRIM_UNROLL
            for (uint32_t k = 0; k < ISOD_BATCH; k++)
                if (u + k * c->size < units)
                    prim_store16(theirs + (uint64_t)(u + k * c->size) * 16, v[k]);
        }
    }
    for (uint32_t i = 1; !d->whole && i <= isod_coll_others(c); i++)
        isod_dest_copy_odd(c, ours + d->dests[isod_coll_other(c, i)], ours, units);
}

/* The end of another iteration, whose stores and reads the flags publish. Iteration 1 waits for none: all have
 * arrived. */
PRIM_FN bool isod_dest_sync(struct isod_coll *c, const struct isod_dest *d, uint32_t turn)
{
    uint64_t late = turn == isod_dest_turns(d) - 1 ? 0 : 1;
    prim_gather_stores(prim_group_block());
    if (c->rank < isod_coll_others(c))
        prim_fence_flag(); /* pairs with the acquire below, of the members that wait */
    isod_flags_send_near(c);
    c->epoch -= late;
    if (turn != 1)
        isod_flags_wait(c, -1, ISOD_DATA);
    c->epoch += late;
    prim_acquire_from_peer();
    return isod_coll_goes_on(c);
}

#endif
