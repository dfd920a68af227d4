/* SPDX-License-Identifier: MIT */
/* Kernels of reductions on streams for all operators and all ways in which elements are kept, which are arguments: one
 * switch a batch of members, instead of some hundred kernels. Launched by stream_algorithm.c.
 * Includes: stream_device.h. */
#include "stream_device.h"

/* ---- a unit of any elements, as it is combined: 16-bit formats are floats there ---- */

struct any_acc {
    uint64_t word[4];
};

#define ANY_JOIN(NAME, ...)                                      \
    case ISOD_KEPT_##NAME: {                                     \
        struct isod_acc_##NAME b;                                \
        __builtin_memcpy(&b, a, sizeof(b));                      \
        isod_acc_join_##NAME(&b, v, m, what->h.n_pes, what->op); \
        __builtin_memcpy(a, &b, sizeof(b));                      \
        break;                                                   \
    }
PRIM_FN void any_join(const struct isod_stream_coll *what, struct any_acc *a, struct prim_vec16 v, int32_t m)
{
    switch (what->kept) {
        ISOD_STREAM_KEPT(ANY_JOIN)
    }
}
/* isod_acc_batch for the call's type and operator. A loop that stays one: what it holds is long. */
PRIM_FN void any_batch(const struct isod_stream_coll *what, struct any_acc *a, const struct prim_vec16 *v,
                       int32_t first)
{
    struct prim_vec16 next = v[0], second = v[1], third = v[2];
    for (int32_t k = 0; k < ISOD_BATCH; k++) {
        any_join(what, a, next, first + k);
        next = second;
        second = third;
        third = v[3];
    }
}

#define ANY_VEC(NAME, ...)                  \
    case ISOD_KEPT_##NAME: {                \
        struct isod_acc_##NAME b;           \
        __builtin_memcpy(&b, a, sizeof(b)); \
        v = isod_acc_vec_##NAME(&b);        \
        break;                              \
    }
PRIM_FN struct prim_vec16 any_vec(const struct isod_stream_coll *what, const struct any_acc *a)
{
    struct prim_vec16 v = {{0, 0}};
    switch (what->kept) {
        ISOD_STREAM_KEPT(ANY_VEC)
    }
    return v;
}

/* ---- lines: as in reduce_stream.h ---- */

PRIM_FN void any_lines_unit(struct isod_coll *c, const struct isod_stream_coll *what, const struct isod_move *w,
                            uint64_t u)
{
    uint64_t left = w->bytes - u * 16;
    struct prim_vec16 mine = isod_unit_load(w->source + (uint64_t)c->h.my_pe * w->source_stride + u * 16, left);
    struct any_acc a = {{0, 0, 0, 0}};
    for (int32_t first = 0; first < c->h.n_pes; first += ISOD_BATCH) {
        struct prim_vec16 v[ISOD_BATCH] = {mine, mine, mine, mine};
        isod_units_wait(c, first, ISOD_BATCH, u, 16, v);
        any_batch(what, &a, v, first);
    }
    if (!c->failed)
        isod_unit_store(w->dest + u * 16, any_vec(what, &a), left);
}

PRIM_FN int any_lines(const struct isod_stream_coll *what)
{
    struct isod_coll c;
    struct isod_move w;
    uint64_t at = 0;
    if (!isod_stream_part(what, &w))
        return 0;
    if (!isod_coll_enter(&c, what->h, what->call))
        return 1;
    do {
        struct isod_move piece = isod_move_piece(&w, at, c.packet_bytes);
        isod_coll_step_staged(&c);
        prim_sync(prim_group_block());
        isod_stream_lines_send(&c, piece.source, piece.source_stride, piece.bytes);
        for (uint64_t u = c.rank; u < isod_units(piece.bytes) && !c.failed; u += c.size)
            any_lines_unit(&c, what, &piece, u);
        at += c.packet_bytes;
    } while (at < w.bytes && isod_coll_goes_on(&c));
    return isod_coll_leave(&c);
}

/* ---- any memory, any path: isod_reduce_long in one loop. Where all pointers reach both arrays, one turn of reads, and
 * a meeting at its end; else turns of stages ---- */

PRIM_FN void any_span(struct isod_coll *c, const struct isod_stream_coll *what, const struct isod_span *s)
{
    for (uint64_t u = s->first + c->rank; u < s->last; u += c->size) {
        uint64_t left = s->bytes - u * 16;
        struct any_acc a = {{0, 0, 0, 0}};
        for (int32_t first = 0; first < c->h.n_pes; first += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH];
            PRIM_UNROLL
            for (int32_t k = 0; k < ISOD_BATCH; k++)
                if (first + k < c->h.n_pes)
                    v[k] = isod_unit_load(isod_operand(c, s, first + k) + u * 16, left);
            any_batch(what, &a, v, first);
        }
        isod_result_store(c, s, u, any_vec(what, &a));
    }
}

/* What is reduced in the turn at `at`, whose step begins. */
PRIM_FN struct isod_span any_turn(struct isod_coll *c, const struct isod_reduce *w, uint64_t at, bool direct)
{
    struct isod_span s;
    if (direct) {
        s = isod_span_direct(c, w);
        isod_coll_step(c);
    } else {
        s = isod_span_staged(c, w, at);
        isod_coll_step_staged(c);
        isod_stages_put(c, w->source + at, w->stride, s.bytes);
    }
    return s;
}

PRIM_FN int any_long(const struct isod_stream_coll *what)
{
    struct isod_coll c;
    struct isod_move w;
    if (!isod_stream_part(what, &w))
        return 0;
    if (!isod_coll_enter_for(&c, what->h, what->call, isod_units(w.bytes) + 2)) /* a piece is a unit or more */
        return 1;
    struct isod_reduce all = isod_reduce_of(w.dest, w.source, w.bytes, w.source_stride);
    bool direct = isod_reduce_is_direct(&c, &all);
    for (uint64_t at = 0; at < w.bytes; at += direct ? w.bytes : c.packet_bytes) {
        struct isod_span s = any_turn(&c, &all, at, direct);
        isod_coll_meet(&c);
        if (!isod_coll_goes_on(&c))
            break;
        any_span(&c, what, &s);
    }
    if (direct && !c.failed) {
        isod_coll_step(&c);
        isod_coll_meet_near(&c);
    }
    return isod_coll_leave(&c);
}

/* ---- kernels ---- */

#define ANY_KERNEL(kernel, CALL)                                                                            \
    PRIM_KERNEL_BOUNDED(isod_stream_##kernel##_any_kernel, struct isod_stream_coll, a, ISOD_STREAM_THREADS) \
    {                                                                                                       \
        int rc = 0;                                                                                         \
        if (prim_call_begin())                                                                              \
            rc = CALL(&a);                                                                                  \
        (void)prim_call_end(rc);                                                                            \
    }
ANY_KERNEL(reduce_lines, any_lines)
ANY_KERNEL(reduce_long, any_long)
