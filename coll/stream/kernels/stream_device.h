/* SPDX-License-Identifier: MIT */
/* The base of kernels of collectives on streams, beside coll/kernel/. A kernel is one call of each of
 * its blocks over the block's lane; block b works on part b of the data, which is the same for all members, so blocks
 * without a part do nothing, on all members alike. Stream order makes earlier kernels' stores visible to this one, and
 * this one's to later kernels; so a flag that only says "this kernel has begun" needs no fence.
 * Whole aligned units are loaded several at once; misaligned ones and the last of an array one by one, since the code
 * for those is long, and compiled in wherever it stands. Includes: place_stream.h. Included by *_kernels.c here. */
#ifndef ISO_STREAM_DEVICE_H
#define ISO_STREAM_DEVICE_H

#include "place_stream.h" /* first */

#include "../../../device/api/odd_device.h"

/* ---- parts ---- */

/* This block's part of the call. false: it has none. */
PRIM_FN bool isod_stream_part(const struct isod_stream_coll *a, struct isod_move *w)
{
    uint64_t at = prim_block_index() * a->share, left = at < a->bytes ? a->bytes - at : 0;
    *w = isod_move_of(a->dest + at, a->source + at, left < a->share ? left : a->share);
    w->dest_stride = a->dest_stride;
    w->source_stride = a->source_stride;
    w->to = a->to;
    w->from = a->from;
    return left > 0;
}

/* The data that this thread sends first, by LL, is on its way while the lane is looked up. */
PRIM_FN void isod_stream_expect(const struct isod_stream_coll *a, const struct isod_move *w)
{
    uint64_t at = 16 * (uint64_t)prim_rank(prim_group_block());
    int32_t parts = w->source_stride != 0 ? a->h.n_pes : 1;
    for (int32_t m = 0; m < parts && at < w->bytes; m++)
        prim_expect_load(w->source + (uint64_t)(uint32_t)m * w->source_stride + at);
}

/* At most `most` bytes of it, at `at`. */
PRIM_FN struct isod_move isod_move_piece(const struct isod_move *w, uint64_t at, uint64_t most)
{
    struct isod_move p = *w;
    p.dest += at;
    p.source += at;
    p.bytes = w->bytes - at < most ? w->bytes - at : most;
    return p;
}

/* Divisions of 64 bits are functions of a hundred instructions on GPUs, so numbers of units have 32. */
PRIM_FN uint32_t isod_ceil_div(uint32_t x, uint32_t y) { return x / y + (x % y != 0 ? 1 : 0); }

/* ---- synchronisation of teams that pointers reach ---- */

/* All members' kernels are here. The flags announce no stores of this kernel, hence no fence; nor need all threads of a
 * block have come before its flags. In two halves, so that other work may be done while flags are under way. */
PRIM_FN void isod_stream_announce(struct isod_coll *c)
{
    isod_coll_begin_epoch(c);
    isod_flags_send_near(c);
}
PRIM_FN bool isod_stream_await(struct isod_coll *c)
{
    isod_flags_wait(c, -1, ISOD_DATA);
    prim_acquire_from_peer();
    return isod_coll_goes_on(c);
}

/* ---- LL ---- */

/* isod_unit_send_all in the epoch after this one. */
PRIM_FN void isod_unit_send_ahead(struct isod_coll *c, uint64_t unit, struct prim_vec16 v)
{
    uint64_t inbox_at = c->inbox_at;
    isod_coll_begin_staged_epoch(c);
    isod_unit_send_all(c, unit, v);
    c->epoch--;
    c->staged--;
    c->inbox_at = inbox_at;
}

/* ---- LL in parts: `bytes` in parts of `each` units, part m is member m's; the last ones may be short or empty.
 * Threads are spread over the units of all other parts, ISOD_SPREAD units of a thread at once ---- */

#define ISOD_SPREAD 2 /* more do not fit in registers, beside the rest of a kernel */

struct isod_spread {
    uint64_t bytes;
    uint32_t each, count; /* count: units to go over, short parts counted as full ones */
};
/* The i-th unit that this member exchanges with others: whose part it is of, the number in it, where it is. */
struct isod_spread_place {
    int32_t member; /* -1: there is no such unit */
    uint32_t unit;
    uint64_t at;
};
PRIM_FN struct isod_spread_place isod_spread_place_of(const struct isod_coll *c, const struct isod_spread *s,
                                                      uint32_t i)
{
    struct isod_spread_place p;
    uint32_t other = i / s->each;
    p.member = isod_coll_other(c, other + 1);
    p.unit = i - other * s->each;
    p.at = ((uint64_t)(uint32_t)p.member * s->each + p.unit) * 16;
    if (i >= s->count || p.at >= s->bytes)
        p.member = -1;
    return p;
}

PRIM_FN void isod_spread_send(struct isod_coll *c, const struct isod_spread *s, const char *source)
{
    uint64_t whole = isod_whole_bytes(source, s->bytes);
    for (uint32_t i = c->rank; whole > 0 && i < s->count; i += ISOD_SPREAD * c->size) {
        struct prim_ll *to[ISOD_SPREAD];
        struct prim_vec16 v[ISOD_SPREAD];
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_SPREAD; k++) {
            struct isod_spread_place p = isod_spread_place_of(c, s, i + k * c->size);
            to[k] = 0;
            if (p.member >= 0 && p.at < whole) {
                to[k] = isod_ll_there(c, p.member, p.unit);
                v[k] = prim_load16(source + p.at);
            }
        }
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_SPREAD; k++)
            if (to[k] != 0)
                isod_ll_store(c, to[k], v[k]);
    }
    for (uint32_t i = c->rank; whole < s->bytes && i < s->count; i += c->size) {
        struct isod_spread_place p = isod_spread_place_of(c, s, i);
        if (p.member >= 0 && p.at >= whole)
            isod_ll_store(c, isod_ll_there(c, p.member, p.unit), isod_unit_load_odd(source + p.at, s->bytes - p.at));
    }
}

/* Where the unit that the place's member sends arrives; NULL: there is no such unit. */
PRIM_FN const struct prim_ll *isod_spread_ll(const struct isod_coll *c, struct isod_spread_place p)
{
    return p.member >= 0 ? isod_ll(c, c->here, p.member) + 2 * (uint64_t)p.unit : (const struct prim_ll *)0;
}
/* The i-th unit and those of the next blocks of threads; all are looked at before one is waited for. */
PRIM_FN void isod_spread_wait(struct isod_coll *c, const struct isod_spread *s, uint32_t i, struct prim_vec16 *v)
{
    struct isod_waiting w = {0, 0};
    const struct prim_ll *from[ISOD_SPREAD];
    PRIM_UNROLL
    for (uint32_t k = 0; k < ISOD_SPREAD; k++)
        from[k] = isod_spread_ll(c, isod_spread_place_of(c, s, i + k * c->size));
    for (;;) {
        uint32_t missing = ISOD_SPREAD;
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_SPREAD; k++)
            if (from[k] != 0 && !isod_unit_look(from[k], (uint32_t)c->epoch, &v[k]))
                missing = k;
        if (missing == ISOD_SPREAD || c->failed)
            return;
        int32_t member = isod_spread_place_of(c, s, i + missing * c->size).member;
        isod_coll_pause(c, &w, member, isod_ll(c, c->here, member));
    }
}
PRIM_FN void isod_spread_receive(struct isod_coll *c, const struct isod_spread *s, char *dest)
{
    uint64_t whole = isod_whole_bytes(dest, s->bytes);
    for (uint32_t i = c->rank; i < s->count && !c->failed; i += ISOD_SPREAD * c->size) {
        struct prim_vec16 v[ISOD_SPREAD];
        isod_spread_wait(c, s, i, v);
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_SPREAD && !c->failed; k++) {
            struct isod_spread_place p = isod_spread_place_of(c, s, i + k * c->size);
            if (p.member >= 0 && p.at < whole)
                prim_store16(dest + p.at, v[k]);
        }
    }

    /* The others, which this thread has waited for in the loop above. */
    for (uint32_t i = c->rank; whole < s->bytes && i < s->count && !c->failed; i += c->size) {
        struct isod_spread_place p = isod_spread_place_of(c, s, i);
        struct prim_vec16 v;
        if (p.member >= 0 && p.at >= whole && isod_unit_look(isod_spread_ll(c, p), (uint32_t)c->epoch, &v))
            isod_unit_store_odd(dest + p.at, v, s->bytes - p.at);
    }
}

/* ---- a block's waves share the members, so that data is under way to all of them, over all links, at once ---- */

struct isod_waves {
    uint32_t first, stride; /* members of this wave: first, first + stride .., counted from the own one */
    uint32_t nth, of;       /* and its part of what goes to each of them */
};
PRIM_FN struct isod_waves isod_waves_among(const struct isod_coll *c, uint32_t members)
{
    uint32_t waves = isod_ceil_div(c->size, prim_wave_size()), wave = c->rank / prim_wave_size();
    struct isod_waves w;
    w.stride = waves < members ? waves : members;
    w.first = wave % w.stride;
    w.nth = wave / w.stride;
    w.of = isod_ceil_div(waves - w.first, w.stride);
    return w;
}
PRIM_FN struct isod_waves isod_waves_of(const struct isod_coll *c) { return isod_waves_among(c, (uint32_t)c->h.n_pes); }

/* Part nth of `of`, whole units. */
struct isod_part {
    uint64_t at, bytes;
};
PRIM_FN struct isod_part isod_part_of(uint64_t bytes, uint32_t nth, uint32_t of)
{
    uint64_t share = (uint64_t)isod_ceil_div((uint32_t)isod_units(bytes), of) * 16;
    struct isod_part p;
    p.at = nth * share;
    p.bytes = p.at >= bytes ? 0 : bytes - p.at < share ? bytes - p.at : share;
    return p;
}

/* One wave's part of a copy into dest of member `to`, which may be this one; at the place where dest is here. Its place
 * has come, and the distance of the first ISOD_STREAM_MEMBERS members is in the table. */
PRIM_FN void isod_wave_put(struct isod_coll *c, const struct isod_stream_coll *a, int32_t to, struct isod_bytes b)
{
    int64_t distance = to < ISOD_STREAM_MEMBERS ? isod_table_dest()[to] : ISOD_BY_RING;
    char *dest = (char *)b.dest, *near = (char *)0;
    if (b.len == 0 || (to == c->h.my_pe && b.dest == b.source))
        return;
    if (to >= ISOD_STREAM_MEMBERS)
        distance = to == c->h.my_pe ? 0 : isod_distance(c->h, a->dest, isod_place_sent(c, to, 0), to);
    if (distance != ISOD_BY_RING)
        near = dest + distance;
    else
        b.dest = isod_place_name(c->h.world, isod_place_sent(c, to, 0)) + (dest - a->dest);
    isod_coll_put_at(c, prim_group_wave(), to, near, b);
}

/* A wave's put between ends that are misaligned to each other: whole vectors all the same, but for less than two at
 * each end. */
#define ISOD_ODD 2 /* vectors of a thread under way at once: more of them cost those who call it their registers */
PRIM_CALL_FN void isod_wave_put_odd(char *dest, const char *source, uint64_t bytes)
{
    struct prim_odd_body b = prim_odd_body_of((uintptr_t)dest, (uintptr_t)source, bytes);
    uint32_t rank = prim_rank(prim_group_wave()), size = prim_size(prim_group_wave());
    for (uint64_t i = rank; i < b.count; i += ISOD_ODD * (uint64_t)size) {
        struct prim_vec16 v[ISOD_ODD] PRIM_UNSET;
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_ODD; k++)
            if (i + k * size < b.count)
                v[k] = prim_load16_odd(source + b.head + (i + k * size) * 16);
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_ODD; k++)
            if (i + k * size < b.count)
                prim_store16(dest + b.head + (i + k * size) * 16, v[k]);
    }
    for (uint64_t i = rank; i < bytes - b.count * 16; i += size) {
        uint64_t at = i < b.head ? i : i + b.count * 16;
        dest[at] = source[at];
    }
}
/* isod_wave_put, for ends that are misaligned to each other too. */
PRIM_FN void isod_wave_push(struct isod_coll *c, const struct isod_stream_coll *a, int32_t to, struct isod_bytes b)
{
    int64_t distance = to < ISOD_STREAM_MEMBERS ? isod_table_dest()[to] : ISOD_BY_RING;
    char *there = (char *)b.dest + (distance != ISOD_BY_RING ? distance : 0);
    bool odd = (((uintptr_t)there ^ (uintptr_t)b.source) & 15) != 0 && b.len >= 64;
    if (prim_copies_odd_by_words() && odd && distance != ISOD_BY_RING)
        isod_wave_put_odd(there, (const char *)b.source, b.len);
    else
        isod_wave_put(c, a, to, b);
}

/* source + m * stride into the stage of each other member m, `bytes` that fit there; in a staged epoch. */
PRIM_FN void isod_stages_put(struct isod_coll *c, const char *source, uint64_t stride, uint64_t bytes)
{
    struct isod_waves w = isod_waves_of(c);
    struct isod_part p = isod_part_of(bytes, w.nth, w.of);
    uint64_t at = isod_stage_at(c, c->h.my_pe) + p.at;
    for (uint32_t i = w.first; i <= isod_coll_others(c); i += w.stride) {
        int32_t to = isod_coll_other(c, i);
        const char *from = source + (uint64_t)(uint32_t)to * stride + p.at;
        char *memory = isod_coll_memory(c, to);
        if (i == 0 || p.bytes == 0)
            continue;
        if (memory != 0)
            prim_copy_put(prim_group_wave(), memory + at, from, p.bytes);
        else
            isod_coll_put_far(c, prim_group_wave(), to, isod_bytes_of(isod_coll_far_memory(c, to) + at, from, p.bytes));
    }
}

/* ---- reductions by reads: units first .. last - 1 of the members' sources, combined into the own dest or all of them.
 * Below `whole` they are whole and aligned at all members ---- */

#define ISOD_READS 8 /* loads of a thread under way at once, two batches: of two units, or in large teams of one */

struct isod_reads {
    char *dest;
    const char *source;
    const int64_t *sources, *dests; /* dests NULL: into the own one only */
    uint64_t bytes, first, whole, last;
};

/* In two halves about the arrival of all members: what this member alone knows, ahead. */
PRIM_FN struct isod_reads isod_reads_of(const struct isod_coll *c, const struct isod_move *w, uint64_t first,
                                        uint64_t last, enum isod_span_to to)
{
    struct isod_reads r;
    r.dest = w->dest;
    r.source = w->source + (uint64_t)c->h.my_pe * w->source_stride;
    r.sources = isod_table_source();
    r.dests = to == ISOD_SPAN_ALL ? isod_table_dest() : (const int64_t *)0;
    r.bytes = w->bytes;
    r.last = last < isod_units(w->bytes) ? last : isod_units(w->bytes);
    r.first = first < r.last ? first : r.last;
    r.whole = r.last < w->bytes / 16 ? r.last : w->bytes / 16;
    return r;
}
/* Tells the members where source, and dest where all write it, are; then a sync in which all of them are here. false:
 * given up. */
PRIM_FN void isod_reads_announce(struct isod_coll *c, const struct isod_stream_coll *a, enum isod_span_to to)
{
    isod_places_announce(c, to == ISOD_SPAN_ALL ? 2 : 1, a->source_place, a->dest_place);
}
PRIM_FN bool isod_reads_await(struct isod_coll *c, const struct isod_stream_coll *a, struct isod_reads *r)
{
    struct isod_touched source = isod_touched_of(a->source, a->source_place, isod_table_source(), r->source);
    struct isod_touched dest = isod_touched_of(a->dest, a->dest_place, isod_table_dest(), r->dest);
    bool odd = (((uintptr_t)r->dest | (uintptr_t)r->source) & 15) != 0, goes_on;
    isod_table_expect(c, source);
    if (r->dests != 0)
        isod_table_expect(c, dest);
    goes_on = isod_places_await(c, r->dests != 0 ? 2 : 1, source, dest, &odd);
    if (odd || r->whole < r->first)
        r->whole = r->first;
    return goes_on;
}

/* ---- reductions by pushes: piece by piece into stages of the owner. Stage memory of a lane is 4 banks here, each with
 * half an inbox of each sender. One iteration: push piece k, flag; wait for piece k - 1 of the others, reduce it. Four
 * banks are enough: a member that pushes piece k has, one iteration before, waited for the others' flags of piece k -
 * 2. They sent these behind the iteration of piece k - 3, in which they have read piece k - 4. Three are not enough:
 * their flags of piece k - 1 say that they have read piece k - 3, and no member has waited for these yet. After the
 * synchronisation at the start the stages have no other use, after the one at the end they have none ---- */

struct isod_push {
    char *dest;
    const char *source;
    uint64_t stride, each, bytes;  /* member m's span is at source + m * stride: `each` bytes, as far as `bytes` goes */
    const int64_t *memory, *dests; /* dests NULL: the result is for its owner only, and all spans are equal */
    uint32_t piece, pieces;        /* bytes of one, their number */
};

/* `span`: of each member, where the result is for all. The table of dests is filled by isod_push_arrive. */
PRIM_FN struct isod_push isod_push_of(const struct isod_coll *c, const struct isod_move *w, uint64_t span,
                                      enum isod_span_to to)
{
    struct isod_push p;
    p.dest = w->dest;
    p.source = w->source;
    p.bytes = w->bytes;
    p.each = to == ISOD_SPAN_ALL ? span : w->bytes;
    p.stride = to == ISOD_SPAN_ALL ? span : w->source_stride;
    p.memory = isod_table_memory();
    p.dests = to == ISOD_SPAN_ALL ? isod_table_dest() : (const int64_t *)0;
    p.piece = c->inbox_bytes / 32 * 16;
    p.pieces = isod_ceil_div((uint32_t)isod_units(p.each), p.piece / 16);
    for (int32_t m = (int32_t)c->rank; m < c->h.n_pes; m += (int32_t)c->size) /* the lane, from our heap on */
        isod_table_memory()[m] = (int64_t)((uintptr_t)isod_coll_memory(c, m) - (uintptr_t)c->h.heap);
    return p;
}

/* Bytes of member m's span from `at` on, which is inside of `each`. */
PRIM_FN uint64_t isod_push_left(const struct isod_push *p, int32_t m, uint64_t at)
{
    uint64_t begin = (p->dests != 0 ? (uint64_t)(uint32_t)m * p->each : 0) + at;
    uint64_t left = begin < p->bytes ? p->bytes - begin : 0;
    return left < p->each - at ? left : p->each - at;
}

/* Where in the lane `sender`'s bytes of a piece are. */
PRIM_FN uint64_t isod_push_stage(const struct isod_coll *c, const struct isod_push *p, uint32_t number, int32_t sender)
{
    uint64_t n = (uint64_t)c->h.n_pes, stages = isod_flags_bytes(c->h.n_pes) + 4 * n * c->inbox_bytes;
    return stages + ((number & 3) * n + (uint64_t)(uint32_t)sender) * p->piece;
}

/* A piece of all other members' spans, over whose units the threads are spread. */
struct isod_push_piece {
    uint64_t at, stage; /* of the piece in a span, of our stage in a lane */
    uint32_t units, count;
};
struct isod_push_place {
    const char *from; /* never NULL, which would take these for pointers into any memory */
    char *to;
    uint64_t left; /* of the member's span from there on; 0: there is no such unit */
};
PRIM_FN struct isod_push_place isod_push_place_of(const struct isod_coll *c, const struct isod_push *p,
                                                  const struct isod_push_piece *piece, uint32_t i)
{
    struct isod_push_place place;
    uint32_t other = i < piece->count ? i / piece->units : 0;
    int32_t m = isod_coll_other(c, other + 1);
    uint64_t in = (uint64_t)(i - other * piece->units) * 16, left = isod_push_left(p, m, piece->at);
    place.from = p->source + (uint64_t)(uint32_t)m * p->stride + piece->at + in;
    place.to = c->h.heap + p->memory[m] + piece->stage + in;
    place.left = i < piece->count && in < left ? left - in : 0;
    return place;
}
PRIM_FN void isod_push_send(const struct isod_coll *c, const struct isod_push *p, uint32_t number)
{
    struct isod_push_piece piece;
    bool odd = false;
    piece.at = (uint64_t)number * p->piece;
    piece.stage = isod_push_stage(c, p, number, c->h.my_pe);
    piece.units = (uint32_t)isod_units(p->each - piece.at < p->piece ? p->each - piece.at : p->piece);
    piece.count = piece.units * isod_coll_others(c);
    for (uint32_t i = c->rank; i < piece.count; i += ISOD_BATCH * c->size) {
        struct isod_push_place at[ISOD_BATCH];
        struct prim_vec16 v[ISOD_BATCH];
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_BATCH; k++) {
            at[k] = isod_push_place_of(c, p, &piece, i + k * c->size);
            if (isod_unit_is_whole(at[k].from, at[k].left))
                v[k] = prim_load16(at[k].from);
            else
                odd = odd || at[k].left > 0;
        }
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_BATCH; k++)
            if (isod_unit_is_whole(at[k].from, at[k].left))
                prim_store16(at[k].to, v[k]);
    }
    for (uint32_t i = c->rank; odd && i < piece.count; i += c->size) {
        struct isod_push_place at = isod_push_place_of(c, p, &piece, i);
        if (at.left > 0 && !isod_unit_is_whole(at.from, at.left))
            prim_store16(at.to, isod_unit_load_odd(at.from, at.left));
    }
}

/* Iterations of a call, each an epoch: 0 is the arrival of all members, those from 1 on push, those from 2 on reduce,
 * pieces + 1 sends no flags, and the last one, pieces + 2, synchronises. */
PRIM_FN bool isod_push_arrive(struct isod_coll *c, const struct isod_stream_coll *a, const struct isod_push *p)
{
    struct isod_touched dest = isod_touched_of(a->dest, a->dest_place, isod_table_dest(), a->dest);
    bool odd = false;
    if (p->dests == 0) {
        isod_stream_announce(c);
        return isod_stream_await(c);
    }
    isod_places_announce(c, 1, a->dest_place, 0);
    isod_table_expect(c, dest);
    return isod_places_await(c, 1, dest, dest, &odd);
}
/* The end of another iteration's pushes. Only the last iteration waits for its own flags; the second one for none,
 * since all have arrived. */
PRIM_FN bool isod_push_sync(struct isod_coll *c, const struct isod_push *p, uint32_t turn)
{
    uint64_t late = turn == p->pieces + 2 ? 0 : 1;
    prim_gather_stores(prim_group_block());
    if (c->rank < isod_coll_others(c))
        prim_fence_flag(); /* pairs with the acquire below, of the members that wait */
    if (turn != p->pieces + 1)
        isod_flags_send_near(c);
    c->epoch -= late;
    if (turn != 1)
        isod_flags_wait(c, -1, ISOD_DATA);
    c->epoch += late;
    prim_acquire_from_peer();
    return isod_coll_goes_on(c);
}

/* ---- kernels ---- */

/* All of them are like this: launched early, with one argument, and `call` is what a block does. */
#define ISOD_STREAM_KERNEL_OF(type, name, call)                                   \
    PRIM_KERNEL_BOUNDED(isod_stream_##name##_kernel, type, a, ISOD_STREAM_THREADS) \
    {                                                                             \
        int rc = 0;                                                               \
        prim_stream_wait();                                                       \
        if (prim_call_begin())                                                    \
            rc = call;                                                            \
        (void)prim_call_end(rc);                                                  \
        prim_stream_pass();                                                       \
    }
#define ISOD_STREAM_KERNEL(name, call) ISOD_STREAM_KERNEL_OF(struct isod_stream_coll, name, call)

#endif
