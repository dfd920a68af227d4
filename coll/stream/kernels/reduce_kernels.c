/* SPDX-License-Identifier: MIT */
/* Kernels of sums on streams, one for each schedule and type, so that an addition is one instruction and nothing is
 * asked about types and operators, but whether a factor comes last. As everywhere, elements are combined in member
 * order and rounded once, so every schedule gives the same bits. Launched by stream_algorithm.c. Includes:
 * dest_stream.h, reduce_stream.h. */
#include "dest_stream.h"
#include "reduce_stream.h"

/* ---- reads ---- */

/* Whole units i and j; j == i: there is no second one, as always in teams of more than a batch. */
PRIM_FN void isod_reads_two(const struct isod_coll *c, const struct isod_stream_coll *what, const struct isod_reads *r,
                            uint64_t i, uint64_t j, enum isod_elem elem)
{
    struct prim_vec16 result[2] = {{{0, 0}}, {{0, 0}}};
    struct isod_acc a, b;
    isod_acc_of(elem, &a, result[0]);
    b = a;
    bool few = c->h.n_pes <= ISOD_BATCH;
    for (int32_t first = 0; first < c->h.n_pes; first += ISOD_READS) {
        struct prim_vec16 v[ISOD_READS] PRIM_UNSET;
        PRIM_UNROLL
        for (int32_t k = 0; k < ISOD_READS; k++) {
            int32_t m = few ? k % ISOD_BATCH : first + k;
            if (m < c->h.n_pes)
                v[k] = prim_load16(r->source + r->sources[m] + (few && k >= ISOD_BATCH ? j : i) * 16);
        }
        isod_acc_batch(elem, &a, v, first, c->h.n_pes, ISOD_OP_sum_reduce);
        if (few)
            isod_acc_batch(elem, &b, v + ISOD_BATCH, 0, c->h.n_pes, ISOD_OP_sum_reduce);
        else
            isod_acc_batch(elem, &a, v + ISOD_BATCH, first + ISOD_BATCH, c->h.n_pes, ISOD_OP_sum_reduce);
    }
    result[0] = isod_sum_vec(what, elem, &a);
    result[1] = isod_sum_vec(what, elem, &b);
    for (uint32_t other = 0; other <= (r->dests != 0 ? isod_coll_others(c) : 0); other++) {
        char *dest = other == 0 ? r->dest : r->dest + r->dests[isod_coll_other(c, other)];
        prim_store16(dest + i * 16, result[0]);
        if (i != j)
            prim_store16(dest + j * 16, result[1]);
    }
}

/* Any unit. */
PRIM_FN void isod_reads_odd(const struct isod_coll *c, const struct isod_stream_coll *what, const struct isod_reads *r,
                            uint64_t u, enum isod_elem elem)
{
    struct prim_vec16 zero = {{0, 0}};
    struct isod_acc a;
    isod_acc_of(elem, &a, zero);
    for (int32_t m = 0; m < c->h.n_pes; m++)
        isod_acc_join(elem, &a, isod_unit_load_odd(r->source + r->sources[m] + u * 16, r->bytes - u * 16), m,
                      c->h.n_pes, ISOD_OP_sum_reduce);
    struct prim_vec16 result = isod_sum_vec(what, elem, &a);
    for (uint32_t i = 0; i <= (r->dests != 0 ? isod_coll_others(c) : 0); i++) {
        char *dest = i == 0 ? r->dest : r->dest + r->dests[isod_coll_other(c, i)];
        isod_unit_store_odd(dest + u * 16, result, r->bytes - u * 16);
    }
}

PRIM_FN void isod_reads_span(const struct isod_coll *c, const struct isod_stream_coll *what, const struct isod_reads *r,
                             enum isod_elem elem)
{
    uint64_t size = c->size, second = c->h.n_pes <= ISOD_BATCH ? size : 0;
    for (uint64_t u = r->first + c->rank; u < r->whole; u += size + second)
        isod_reads_two(c, what, r, u, u + second < r->whole ? u + second : u, elem);
    for (uint64_t u = r->whole + c->rank; u < r->last; u += c->size)
        isod_reads_odd(c, what, r, u, elem);
}

/* Each member reads all that it needs. In the end all have read: a load whose value went into a store before the sync
 * is done, so these flags need no fence either. */
PRIM_FN int isod_stream_read(const struct isod_stream_coll *a, enum isod_elem elem)
{
    struct isod_coll c;
    struct isod_move w;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter_near(&c, a->h, a->call))
        return 1;
    isod_reads_announce(&c, a, ISOD_SPAN_OWN);
    struct isod_reads r = isod_reads_of(&c, &w, 0, isod_units(w.bytes), ISOD_SPAN_OWN);
    if (isod_reads_await(&c, a, &r)) {
        isod_reads_span(&c, a, &r, elem);
        prim_sync(prim_group_block());
        isod_stream_announce(&c);
        (void)isod_stream_await(&c);
    }
    return isod_coll_leave(&c);
}

/* Each member reads its span and writes the result to all. One thread of one member reads a unit of an array and then
 * writes it, so dest may be source. */
PRIM_FN int isod_stream_twoshot_read(const struct isod_stream_coll *a, enum isod_elem elem)
{
    struct isod_coll c;
    struct isod_move w;
    uint64_t span = a->span / 16, first = (uint64_t)a->h.my_pe * span;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter(&c, a->h, a->call))
        return 1;
    if (a->brought != 0) { /* into w.source, where the others read it */
        isod_coll_copy_own(w.dest, a->brought + (w.source - a->source), w.bytes);
        prim_gather_stores(prim_group_block());
        if (c.rank < isod_coll_others(&c))
            prim_fence_flag(); /* pairs with the acquire of isod_reads_await, of the members that wait */
    }
    isod_reads_announce(&c, a, ISOD_SPAN_ALL); /* behind that, by the same threads */
    struct isod_reads r = isod_reads_of(&c, &w, first, first + span, ISOD_SPAN_ALL);
    if (isod_reads_await(&c, a, &r)) {
        isod_reads_span(&c, a, &r, elem);
        isod_coll_begin_epoch(&c);
        isod_coll_sync_near(&c);
    }
    return isod_coll_leave(&c);
}

/* ---- pushes ---- */

/* This member's piece, of its own source and of what is in its stages. dest may be source: what another member writes
 * into dest here has been pushed from there, and the own span is read by the thread that writes it. */
PRIM_FN void isod_push_reduce(const struct isod_coll *c, const struct isod_stream_coll *what, const struct isod_push *p,
                              uint32_t number, enum isod_elem elem)
{
    uint64_t at = (uint64_t)number * p->piece, left = isod_push_left(p, c->h.my_pe, at);
    const char *own = p->source + (uint64_t)c->h.my_pe * p->stride + at;
    const char *stages = c->h.heap + p->memory[c->h.my_pe] + isod_push_stage(c, p, number, 0);
    for (uint64_t u = c->rank; u < isod_units(left < p->piece ? left : p->piece); u += c->size) {
        struct prim_vec16 mine = isod_unit_load(own + u * 16, left - u * 16);
        struct isod_acc a;
        isod_acc_of(elem, &a, mine);
        for (int32_t first = 0; first < c->h.n_pes; first += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH] = {mine, mine, mine, mine};
            PRIM_UNROLL
            for (int32_t k = 0; k < ISOD_BATCH; k++)
                if (first + k < c->h.n_pes && first + k != c->h.my_pe)
                    v[k] = prim_load16(stages + (uint64_t)(uint32_t)(first + k) * p->piece + u * 16);
            isod_acc_batch(elem, &a, v, first, c->h.n_pes, ISOD_OP_sum_reduce);
        }
        isod_unit_store(p->dest + at + u * 16, isod_sum_vec(what, elem, &a), left - u * 16);
    }
}

PRIM_FN int isod_stream_push(const struct isod_stream_coll *a, enum isod_elem elem)
{
    struct isod_coll c;
    struct isod_move w;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter_near_for(&c, a->h, a->call, isod_units(w.bytes) + 3)) /* a piece is a unit or more */
        return 1;
    struct isod_push p = isod_push_of(&c, &w, a->span, ISOD_SPAN_OWN);
    bool on = isod_push_arrive(&c, a, &p);
    for (uint32_t turn = 1; on && turn < p.pieces + 3; turn++) {
        isod_coll_begin_epoch(&c);
        if (turn <= p.pieces)
            isod_push_send(&c, &p, turn - 1);
        on = isod_push_sync(&c, &p, turn);
        if (!on)
            break;
        if (turn >= 2 && turn <= p.pieces + 1)
            isod_push_reduce(&c, a, &p, turn - 2, elem);
    }
    return isod_coll_leave(&c);
}

/* ---- stores into dests ---- */

/* This member's piece: of its own source, and of what the others have stored into their spans of its dest. One unit
 * of it, at `at` of a span. */
PRIM_FN void isod_dest_reduce_unit(const struct isod_coll *c, const struct isod_dest *d, uint64_t at, bool whole,
                                   enum isod_elem elem)
{
    uint64_t ours = (uint64_t)c->h.my_pe * d->span + at;
    struct prim_vec16 mine = whole ? prim_load16(d->source + ours) : isod_unit_load_odd(d->source + ours, 16);
    struct isod_acc a;
    isod_acc_of(elem, &a, mine);
    for (int32_t first = 0; first < c->h.n_pes; first += ISOD_BATCH) {
        struct prim_vec16 v[ISOD_BATCH] = {mine, mine, mine, mine};
        PRIM_UNROLL
        for (int32_t k = 0; k < ISOD_BATCH; k++) {
            const char *theirs = d->dest + (uint64_t)(uint32_t)(first + k) * d->span + at;
            if (first + k < c->h.n_pes && first + k != c->h.my_pe)
                v[k] = whole ? prim_load16(theirs) : isod_unit_load_odd(theirs, 16);
        }
        isod_acc_batch(elem, &a, v, first, c->h.n_pes, ISOD_OP_sum_reduce);
    }
    if (whole)
        prim_store16(d->dest + ours, isod_acc_vec(elem, &a));
    else
        isod_unit_store_odd(d->dest + ours, isod_acc_vec(elem, &a), 16);
}
PRIM_FN void isod_dest_reduce(const struct isod_coll *c, const struct isod_dest *d, uint32_t number,
                              enum isod_elem elem)
{
    uint64_t at = isod_dest_at(d, number);
    uint32_t units = isod_dest_units(d, number);
    for (uint32_t u = c->rank; d->whole && u < units; u += c->size)
        isod_dest_reduce_unit(c, d, at + (uint64_t)u * 16, true, elem);
    for (uint32_t u = c->rank; !d->whole && u < units; u += c->size)
        isod_dest_reduce_unit(c, d, at + (uint64_t)u * 16, false, elem);
}

PRIM_FN int isod_stream_twoshot_dest(const struct isod_stream_coll *a, enum isod_elem elem)
{
    struct isod_coll c;
    struct isod_move w;
    uint32_t large = a->h.inbox_bytes * ISOD_DEST_INBOXES, piece = a->share < 8 * (uint64_t)large ? large / 2 : large;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter_for(&c, a->h, a->call, isod_dest_pieces(w.bytes, piece) + ISOD_DEST_HANDS_OUT + 1))
        return 1;
    struct isod_dest d = isod_dest_of(&w, piece);
    bool on = isod_dest_arrive(&c, a, &d);
    for (uint32_t turn = 1; on && turn < isod_dest_turns(&d); turn++) {
        isod_coll_begin_epoch(&c);
        if (turn - 1 < d.pieces)
            isod_dest_send(&c, &d, turn - 1);
        if (turn >= ISOD_DEST_REDUCES && turn - ISOD_DEST_REDUCES < d.pieces)
            isod_dest_reduce(&c, &d, turn - ISOD_DEST_REDUCES, elem);
        if (turn >= ISOD_DEST_HANDS_OUT)
            isod_dest_hand_out(&c, &d, turn - ISOD_DEST_HANDS_OUT);
        on = isod_dest_sync(&c, &d, turn);
    }
    if (on) { /* the end that is no whole unit of each member: by LL, of one block */
        uint64_t at = a->source_stride * (uint64_t)a->h.n_pes;
        struct isod_move rest = isod_move_of(a->dest + at, a->source + at, a->dest_stride - at);
        if (prim_block_index() == 0 && rest.bytes > 0)
            isod_reduce_ll(&c, &rest, elem, ISOD_OP_sum_reduce);
    }
    return isod_coll_leave(&c);
}

/* ---- what engines have brought ---- */

/* The end of a sum by isod_sum_vec, and of an average. */
PRIM_FN struct prim_vec16 isod_arrived_vec(const struct isod_stream_coll *what, enum isod_elem elem,
                                           const struct isod_acc *sum)
{
    struct isod_acc a = *sum;
    if (what->scaling != ISOD_SCALING_BY_MEMBERS)
        return isod_sum_vec(what, elem, sum);
    isod_acc_scale(elem, &a, (double)what->h.n_pes, true);
    return isod_acc_vec(elem, &a);
}

/* Formats of 16 bits, as floats: `bytes` is what is left of the sums in memory, which are rounded nowhere. */
PRIM_FN void isod_arrived_floats(const struct isod_stream_coll *what, enum isod_elem elem, char *dest,
                                 const struct isod_acc *sum, uint64_t bytes)
{
    struct isod_acc a = *sum;
    bool divides = what->scaling == ISOD_SCALING_BY_MEMBERS;
    if (divides)
        isod_acc_scale(elem, &a, (double)what->h.n_pes, true);
    else if (what->scaling == ISOD_SCALING_TIMES)
        isod_acc_scale(elem, &a, what->scale_from != NULL ? *what->scale_from : what->scale, false);
    struct prim_vec16 low = {{a.word[0], a.word[1]}}, high = {{a.word[2], a.word[3]}};
    isod_unit_store(dest, low, bytes * 2);
    if (bytes > 8)
        isod_unit_store(dest + 16, high, bytes * 2 - 16);
}

/* Stream order has made it visible. dest may be source: a unit is stored by the thread that has loaded it. */
PRIM_FN int isod_stream_arrived(const struct isod_stream_coll *what, enum isod_elem elem)
{
    struct isod_move w;
    if (!isod_stream_part(what, &w))
        return 0;
    const char *rows = what->brought + (w.source - what->source);
    bool to_float = (elem == ISOD_ELEM_f16 || elem == ISOD_ELEM_bf16) && what->to_float != 0;
    if (to_float)
        w.dest += w.source - what->source;
    uint64_t size = prim_size(prim_group_block());
    for (uint64_t u = prim_rank(prim_group_block()); u < isod_units(w.bytes); u += size) {
        struct prim_vec16 mine = isod_unit_load(w.source + u * 16, w.bytes - u * 16);
        struct isod_acc a;
        isod_acc_of(elem, &a, mine);
        for (int32_t first = 0; first < what->h.n_pes; first += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH] = {mine, mine, mine, mine};
            PRIM_UNROLL
            for (int32_t k = 0; k < ISOD_BATCH; k++)
                if (first + k < what->h.n_pes && first + k != what->h.my_pe)
                    v[k] = prim_load16(rows + (uint64_t)(uint32_t)(first + k) * w.dest_stride + u * 16);
            isod_acc_batch(elem, &a, v, first, what->h.n_pes, ISOD_OP_sum_reduce);
        }
        if (to_float)
            isod_arrived_floats(what, elem, w.dest + u * 32, &a, w.bytes - u * 16);
        else
            isod_unit_store(w.dest + u * 16, isod_arrived_vec(what, elem, &a), w.bytes - u * 16);
    }
    return 0;
}

/* ---- kernels ---- */

#define SUM_KERNELS(NAME, ...)                                                                                    \
    ISOD_STREAM_KERNEL(reduce_ll_sum_##NAME, isod_stream_oneshot(&a, ISOD_BY_LL, ISOD_ELEM_##NAME))               \
    ISOD_STREAM_KERNEL(reduce_twoshot_ll_sum_##NAME, isod_stream_twoshot(&a, ISOD_BY_LL, ISOD_ELEM_##NAME))       \
    ISOD_STREAM_KERNEL(reduce_ll128_sum_##NAME, isod_stream_oneshot(&a, ISOD_BY_LL128, ISOD_ELEM_##NAME))         \
    ISOD_STREAM_KERNEL(reduce_twoshot_ll128_sum_##NAME, isod_stream_twoshot(&a, ISOD_BY_LL128, ISOD_ELEM_##NAME)) \
    ISOD_STREAM_KERNEL(reduce_read_sum_##NAME, isod_stream_read(&a, ISOD_ELEM_##NAME))                            \
    ISOD_STREAM_KERNEL(reduce_twoshot_read_sum_##NAME, isod_stream_twoshot_read(&a, ISOD_ELEM_##NAME))            \
    ISOD_STREAM_KERNEL(reduce_twoshot_dest_sum_##NAME, isod_stream_twoshot_dest(&a, ISOD_ELEM_##NAME))            \
    ISOD_STREAM_KERNEL(reduce_push_sum_##NAME, isod_stream_push(&a, ISOD_ELEM_##NAME))                            \
    ISOD_STREAM_KERNEL(reduce_arrived_sum_##NAME, isod_stream_arrived(&a, ISOD_ELEM_##NAME))
ISOD_STREAM_SUM_KERNELS_FOR(SUM_KERNELS, )
