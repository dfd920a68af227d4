/* SPDX-License-Identifier: MIT */
/* Schedules of reductions on streams by LL and LL128. `elem` is a type of ISOD_ELEMS, and the operator is the sum: an
 * addition is one instruction, and nothing is asked about types and operators, but whether a factor comes last. Or, by
 * LL128, it is REDUCE_ANY: type, operator and scaling are those of the call. As everywhere, elements are combined in
 * member order and rounded once, so every schedule gives the same bits. Includes: ll128_device.h, reduce_join.h.
 * Included by reduce_kernels.c and reduce_join_kernels.c. */
#ifndef ISO_REDUCE_STREAM_H
#define ISO_REDUCE_STREAM_H

#include "ll128_device.h"
#include "reduce_join.h"

#define REDUCE_ANY (-1)

/* The end of a sum. `what` is an argument of the kernel: it takes no registers. */
PRIM_FN struct prim_vec16 isod_sum_vec(const struct isod_stream_coll *what, enum isod_elem elem,
                                       const struct isod_acc *sum)
{
    struct isod_acc a = *sum;
    if (what->scaling == ISOD_SCALING_TIMES) /* ISOD_SCALING_BY_MEMBERS is another kernel's */
        isod_acc_scale(elem, &a, what->scale_from != NULL ? *what->scale_from : what->scale, false);
    return isod_acc_vec(elem, &a);
}

/* ---- LL, LL128 ---- */

/* Two hops. Part m goes to member m, which sends its result to all. The second epoch begins without a sync, and nothing
 * is sent for parts that are empty; two banks are enough all the same. The bank of the first epoch is written next in
 * the epoch behind the second: the result of a unit comes from the thread that has read all that its member was sent
 * for it, so a member that has all results knows that all have read. That of the second is the bank of the epoch before
 * the first: a thread sends results behind the LL data of all members, and those were sent behind a sync, which all
 * reads came before. dest may be source: a unit's result comes after all members have sent what they had there. */
PRIM_FN void isod_stream_twoshot_ll_round(struct isod_coll *c, const struct isod_move *w, uint32_t each,
                                          int elem)
{
    struct isod_spread s = {w->bytes, each, each * isod_coll_others(c)};
    uint64_t at = (uint64_t)c->h.my_pe * each * 16;
    isod_coll_begin_staged_epoch(c);
    prim_sync(prim_group_block());
    isod_spread_send(c, &s, w->source);
    for (uint64_t u = c->rank; u < each && at + u * 16 < w->bytes && !c->failed; u += c->size) {
        uint64_t left = w->bytes - at - u * 16;
        struct prim_vec16 mine = isod_unit_load(w->source + at + u * 16, left);
        struct prim_vec16 result = isod_ll_combine(c, u, mine, (enum isod_elem)elem, ISOD_OP_sum_reduce);
        if (!c->failed) {
            isod_unit_send_ahead(c, u, result);
            isod_unit_store(w->dest + at + u * 16, result, left);
        }
    }
    isod_coll_begin_staged_epoch(c);
    isod_spread_receive(c, &s, w->dest);
}

/* A piece of a line that all members have sent in this epoch, and mine: the sum. */
PRIM_FN struct prim_vec16 isod_ll128_sum(struct isod_coll *c, const struct isod_stream_coll *what,
                                         struct isod_ll128_piece p, struct prim_vec16 mine, enum isod_elem elem)
{
    struct isod_acc a;
    isod_acc_of(elem, &a, mine);
    for (int32_t first = 0; first < c->h.n_pes && !c->failed; first += ISOD_BATCH) {
        struct prim_vec16 v[ISOD_BATCH] = {mine, mine, mine, mine};
        isod_ll128_wait(c, first, ISOD_BATCH, p, v);
        isod_acc_batch(elem, &a, v, first, c->h.n_pes, ISOD_OP_sum_reduce);
    }
    return isod_sum_vec(what, elem, &a);
}
/* By the call's type and operator; a unit may have several parts. */
PRIM_FN struct prim_vec16 isod_ll128_join(struct isod_coll *c, const struct isod_stream_coll *what,
                                          struct isod_ll128_piece p, struct prim_vec16 mine)
{
    struct prim_vec16 v[ISOD_BATCH] PRIM_UNSET, result = {{0, 0}};
    for (uint32_t part = 0; part < join_parts(what); part++) {
        struct join_acc a = join_begin(part);
        for (int32_t first = 0; first < c->h.n_pes && !c->failed; first += ISOD_BATCH) {
            if (part == 0 || c->h.n_pes > ISOD_BATCH) { /* a batch stays for the next part */
                v[0] = v[1] = v[2] = v[3] = mine;
                isod_ll128_wait(c, first, ISOD_BATCH, p, v);
            }
            join_batch(what, &a, v, first, c->h.n_pes);
        }
        join_unite(&result, join_result(what, &a));
    }
    return result;
}
PRIM_FN struct prim_vec16 isod_ll128_combine(struct isod_coll *c, const struct isod_stream_coll *what,
                                             struct isod_ll128_piece p, struct prim_vec16 mine, int elem)
{
    return elem == REDUCE_ANY ? isod_ll128_join(c, what, p, mine)
                              : isod_ll128_sum(c, what, p, mine, (enum isod_elem)elem);
}

PRIM_FN void isod_stream_ll128_round(struct isod_coll *c, const struct isod_stream_coll *what,
                                     const struct isod_move *w, int elem)
{
    const char *own = w->source + (uint64_t)c->h.my_pe * w->source_stride;
    struct isod_ll128 t = isod_ll128_of(c);
    struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)own | (uintptr_t)w->dest, w->bytes);
    isod_coll_begin_staged_epoch(c);
    prim_sync(prim_group_block());
    isod_ll128_send(c, w->source, w->source_stride, w->bytes);
    for (uint32_t first = t.first; first < isod_ll128_lines(w->bytes) && !c->failed; first += t.every) {
        uint32_t line = first + t.nth;
        bool yes = line < isod_ll128_lines(w->bytes);
        for (uint32_t piece = t.piece; piece < ISOD_LL128_PIECES; piece += t.lanes) {
            uint64_t at = (uint64_t)line * ISOD_LL128_DATA + piece * 16;
            struct isod_ll128_piece l = isod_ll128_piece_of(line, piece, yes);
            struct prim_vec16 mine = isod_ll128_load(&d, own, at, piece);
            struct prim_vec16 result = isod_ll128_combine(c, what, l, mine, elem);
            if (!c->failed)
                isod_ll128_store(&d, w->dest, at, piece, result);
        }
    }
}
/* Two banks are enough for what isod_stream_twoshot_ll_round says, with lines for units. */
PRIM_FN void isod_stream_twoshot_ll128_round(struct isod_coll *c, const struct isod_stream_coll *what,
                                             const struct isod_move *w, uint32_t each, int elem)
{
    struct isod_ll128_parts p = isod_ll128_parts_of(c, w->bytes, 0, each);
    struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)w->source | (uintptr_t)w->dest, w->bytes);
    uint32_t own = (uint32_t)c->h.my_pe * each;
    isod_coll_begin_staged_epoch(c);
    prim_sync(prim_group_block());
    isod_ll128_parts_send(c, &p, w->source);
    for (uint32_t first = p.w.first; first < each && !c->failed; first += p.w.every) {
        uint32_t line = first + p.w.nth;
        bool yes = line < each && (uint64_t)(own + line) * ISOD_LL128_DATA < w->bytes;
        for (uint32_t piece = p.w.piece; piece < ISOD_LL128_PIECES; piece += p.w.lanes) {
            uint64_t at = (uint64_t)(own + line) * ISOD_LL128_DATA + piece * 16;
            struct isod_ll128_piece l = isod_ll128_piece_of(line, piece, yes);
            struct prim_vec16 mine = {{0, 0}};
            if (yes)
                mine = isod_ll128_load(&d, w->source, at, piece);
            struct prim_vec16 result = isod_ll128_combine(c, what, l, mine, elem);
            if (!c->failed) {
                isod_ll128_send_piece_ahead(c, l, result);
                if (yes)
                    isod_ll128_store(&d, w->dest, at, piece, result);
            }
        }
    }
    isod_coll_begin_staged_epoch(c);
    isod_ll128_parts_receive(c, &p, w->dest);
}

/* One-shot: rounds of what an inbox holds. */
PRIM_FN int isod_stream_oneshot(const struct isod_stream_coll *a, enum isod_by by, int elem)
{
    struct isod_coll c;
    struct isod_move w;
    uint64_t at = 0;
    if (!isod_stream_part(a, &w))
        return 0;
    isod_stream_expect(a, &w);
    if (!isod_coll_enter_near(&c, a->h, a->call))
        return 1;
    do {
        struct isod_move piece = isod_move_piece(&w, at, c.inbox_bytes);
        if (by == ISOD_BY_LL)
            isod_reduce_ll(&c, &piece, (enum isod_elem)elem, ISOD_OP_sum_reduce);
        else
            isod_stream_ll128_round(&c, a, &piece, elem);
        at += c.inbox_bytes;
    } while (at < w.bytes && isod_coll_goes_on(&c));
    return isod_coll_leave(&c);
}

/* Two-shot: as few rounds as inboxes allow, each about as long. A member's part of a round is `each` units of LL, or
 * lines of LL128. */
PRIM_FN int isod_stream_twoshot(const struct isod_stream_coll *a, enum isod_by by, int elem)
{
    struct isod_coll c;
    struct isod_move w;
    uint64_t at = 0;
    if (!isod_stream_part(a, &w))
        return 0;
    if (by == ISOD_BY_LL128)
        isod_stream_expect(a, &w);
    if (!isod_coll_enter_near(&c, a->h, a->call))
        return 1;

    uint32_t span =
        by == ISOD_BY_LL ? (uint32_t)(a->span / 16) : isod_ceil_div(isod_ll128_lines(a->share), (uint32_t)a->h.n_pes);
    uint32_t fit = by == ISOD_BY_LL ? c.inbox_bytes / 16 : isod_ll128_lines(c.inbox_bytes);
    uint32_t each = isod_ceil_div(span, isod_ceil_div(span, fit));
    do {
        uint64_t most = (uint64_t)each * (by == ISOD_BY_LL ? 16 : ISOD_LL128_DATA) * (uint64_t)a->h.n_pes;
        struct isod_move piece = isod_move_piece(&w, at, most);
        if (by == ISOD_BY_LL)
            isod_stream_twoshot_ll_round(&c, &piece, each, elem);
        else
            isod_stream_twoshot_ll128_round(&c, a, &piece, each, elem);
        at += most;
    } while (at < w.bytes && isod_coll_goes_on(&c));
    return isod_coll_leave(&c);
}

#endif
