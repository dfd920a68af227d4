/* SPDX-License-Identifier: MIT */
/* Moves on streams in pieces of an inbox: fcollect and alltoall (one schedule, "exchange"), broadcast, permute. By LL
 * and LL128: one hop. Staged: through the slot's memory, whatever memory and path it is.
 * Includes: ll128_device.h. Included by coll_kernels.c and ll128_kernels.c. */
#ifndef ISO_MOVE_STREAM_H
#define ISO_MOVE_STREAM_H

#include "ll128_device.h"

/* ---- stages: a piece, in a staged epoch. All members synchronise in each; a stage is read before its reader's next
 * flags, and written again behind the flags after those ---- */

PRIM_FN const char *stage_of(const struct isod_coll *c, int32_t sender) { return c->here + isod_stage_at(c, sender); }

PRIM_FN void exchange_staged(struct isod_coll *c, const struct isod_move *w)
{
    struct isod_waves waves = isod_waves_of(c);
    struct isod_part p = isod_part_of(w->bytes, waves.nth, waves.of);
    isod_stages_put(c, w->source, w->source_stride, w->bytes);
    isod_coll_sync(c);
    if (!isod_coll_goes_on(c))
        return;
    for (uint32_t i = waves.first; i <= isod_coll_others(c); i += waves.stride) {
        int32_t m = isod_coll_other(c, i);
        char *dest = w->dest + (uint64_t)(uint32_t)m * w->dest_stride;
        const char *from = i == 0 ? w->source + (uint64_t)(uint32_t)m * w->source_stride : stage_of(c, m);
        if (dest != from)
            prim_copy(prim_group_wave(), dest + p.at, from + p.at, p.bytes);
    }
}

PRIM_FN void broadcast_staged(struct isod_coll *c, const struct isod_move *w)
{
    bool root = c->h.my_pe == w->from;
    if (root)
        isod_stages_put(c, w->source, 0, w->bytes);
    isod_coll_sync(c);
    if (isod_coll_goes_on(c))
        isod_coll_copy_own(w->dest, root ? w->source : stage_of(c, w->from), w->bytes);
}

/* To the root alone: the others only flag each other. */
PRIM_FN void gather_staged(struct isod_coll *c, const struct isod_move *w)
{
    struct isod_waves waves = isod_waves_of(c);
    struct isod_part p = isod_part_of(w->bytes, waves.nth, waves.of);
    bool root = c->h.my_pe == w->from;
    if (!root)
        isod_stage_put(c, w->from, w->source, w->bytes);
    isod_coll_sync(c);
    if (!isod_coll_goes_on(c) || !root)
        return;
    for (uint32_t i = waves.first; i <= isod_coll_others(c); i += waves.stride) {
        int32_t m = isod_coll_other(c, i);
        char *dest = w->dest + (uint64_t)(uint32_t)m * w->dest_stride;
        const char *from = i == 0 ? w->source : stage_of(c, m);
        if (dest != from)
            prim_copy(prim_group_wave(), dest + p.at, from + p.at, p.bytes);
    }
}

PRIM_FN void scatter_staged(struct isod_coll *c, const struct isod_move *w)
{
    bool root = c->h.my_pe == w->from;
    if (root)
        isod_stages_put(c, w->source, w->source_stride, w->bytes);
    isod_coll_sync(c);
    if (!isod_coll_goes_on(c))
        return;
    const char *own = w->source + (uint64_t)(uint32_t)c->h.my_pe * w->source_stride;
    isod_coll_copy_own(w->dest, root ? own : stage_of(c, w->from), w->bytes);
}

PRIM_FN void permute_staged(struct isod_coll *c, const struct isod_move *w)
{
    bool itself = w->to == c->h.my_pe;
    if (!itself)
        isod_stage_put(c, w->to, w->source, w->bytes);
    isod_coll_sync(c);
    if (isod_coll_goes_on(c))
        isod_coll_copy_own(w->dest, itself ? w->source : stage_of(c, w->from), w->bytes);
}

/* ---- LL, LL128 and stages, piece by piece ---- */

enum schedule {
    EXCHANGE_LL,
    BROADCAST_LL,
    PERMUTE_LL,
    EXCHANGE_LL128,
    BROADCAST_LL128,
    PERMUTE_LL128,
    EXCHANGE_STAGED,
    BROADCAST_STAGED,
    GATHER_STAGED,
    SCATTER_STAGED,
    PERMUTE_STAGED
};

PRIM_FN void move_piece(struct isod_coll *c, const struct isod_move *w, enum schedule schedule)
{
    switch (schedule) {
    case EXCHANGE_LL:
        isod_exchange_ll(c, w);
        break;
    case BROADCAST_LL:
        isod_broadcast_ll(c, w);
        break;
    case PERMUTE_LL:
        isod_permute_ll(c, w);
        break;
    case EXCHANGE_LL128:
        isod_exchange_ll128(c, w);
        break;
    case BROADCAST_LL128:
        isod_broadcast_ll128(c, w);
        break;
    case PERMUTE_LL128:
        isod_permute_ll128(c, w);
        break;
    case EXCHANGE_STAGED:
        exchange_staged(c, w);
        break;
    case BROADCAST_STAGED:
        broadcast_staged(c, w);
        break;
    case GATHER_STAGED:
        gather_staged(c, w);
        break;
    case SCATTER_STAGED:
        scatter_staged(c, w);
        break;
    default:
        permute_staged(c, w);
    }
}

/* The sync, or isod_coll_goes_on behind a round of LL or LL128, which lets threads fail one by one: the data of an
 * epoch also says that this block has read the data of the epoch before. */
PRIM_FN int move_pieces(const struct isod_stream_coll *a, enum schedule schedule)
{
    bool ll = schedule < EXCHANGE_STAGED;
    struct isod_coll c;
    struct isod_move w;
    uint64_t at = 0;
    if (!isod_stream_part(a, &w))
        return 0;
    if (ll)
        isod_stream_expect(a, &w);
    if (ll ? !isod_coll_enter_near(&c, a->h, a->call)
           : !isod_coll_enter_for(&c, a->h, a->call, isod_units(w.bytes))) /* a piece is a unit or more */
        return 1;
    prim_sync(prim_group_block());
    do {
        struct isod_move piece = isod_move_piece(&w, at, c.inbox_bytes);
        isod_coll_begin_staged_epoch(&c);
        move_piece(&c, &piece, schedule);
        at += c.inbox_bytes;
    } while (at < w.bytes && (ll ? isod_coll_goes_on(&c) : !c.failed));
    return isod_coll_leave(&c);
}

#endif
