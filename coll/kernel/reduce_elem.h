/* SPDX-License-Identifier: MIT */
/* Reductions inside kernels for one way in which elements are kept in memory: a template, stamped by reduce_device.h.
 *   ISOD_T, ISOD_A, ISOD_NAME, ISOD_UP, ISOD_DOWN, ISOD_ONE   as reduce_acc.h says; the operator is a constant
 * Every element is combined in member order, ((0 op 1) op 2) op ..., by every schedule and on every member, rounded to
 * ISOD_T once: bit-identical everywhere. A thread handles 16 bytes at a time. */

#define ISOD_ELEMS (16 / sizeof(ISOD_T))
#include "reduce_acc.h"

/* Unit u of all members' LL data of this epoch, and mine. */
PRIM_FN struct prim_vec16 ISOD_NAMED(isod_ll_combine)(struct isod_coll *c, uint64_t u, struct prim_vec16 mine, int op)
{
    struct ISOD_NAMED(isod_acc) a = ISOD_NAMED(isod_acc_of)(mine);
    for (int32_t first = 0; first < c->h.n_pes; first += ISOD_BATCH) {
        struct prim_vec16 v[ISOD_BATCH] = {mine, mine, mine, mine};
        isod_units_wait(c, first, ISOD_BATCH, u, v);
        ISOD_NAMED(isod_acc_batch)(&a, v, first, c->h.n_pes, op);
    }
    return ISOD_NAMED(isod_acc_vec)(&a);
}

/* One-shot, by LL: every member gets all data, and reduces for itself. At most inbox_bytes, in one epoch; calls on
 * streams make rounds of this. A thread writes a unit of dest after it has sent and read it, so dest may be source. */
PRIM_FN void ISOD_NAMED(isod_reduce_ll)(struct isod_coll *c, const struct isod_move *w, int op)
{
    const char *own = w->source + (uint64_t)c->h.my_pe * w->source_stride;
    isod_coll_begin_staged_epoch(c);
    prim_sync(prim_group_block());
    isod_ll_send(c, w->source, w->source_stride, w->bytes);
    for (uint64_t u = c->rank; u < isod_units(w->bytes) && !c->failed; u += c->size) {
        uint64_t left = w->bytes - u * 16;
        struct prim_vec16 result = ISOD_NAMED(isod_ll_combine)(c, u, isod_unit_load(own + u * 16, left), op);
        if (!c->failed)
            isod_unit_store(w->dest + u * 16, result, left);
    }
}

/* Units first .. last - 1 of all members, by loads, to the dests that s->scope names. */
PRIM_FN void ISOD_NAMED(isod_reduce_span)(struct isod_coll *c, const struct isod_span *s, int op)
{
    for (uint64_t u = s->first + c->rank; u < s->last; u += c->size) {
        uint64_t left = s->bytes - u * 16;
        struct ISOD_NAMED(isod_acc) a = ISOD_NAMED(isod_acc_of)(isod_unit_load(isod_operand(c, s, 0) + u * 16, left));
        for (int32_t first = 1; first < c->h.n_pes; first += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH] PRIM_UNSET;
            PRIM_UNROLL
            for (int32_t k = 0; k < ISOD_BATCH; k++)
                if (first + k < c->h.n_pes)
                    v[k] = isod_unit_load(isod_operand(c, s, first + k) + u * 16, left);
            ISOD_NAMED(isod_acc_batch)(&a, v, first, c->h.n_pes, op);
        }
        isod_result_store(c, s, u, ISOD_NAMED(isod_acc_vec)(&a));
    }
}

/* Two hops: member i reduces part i for all (reducescatter: its own block, for itself) from the sources of all and
 * writes it to the dests of all. First synchronisation: all sources may be read and all dests written. Second: all
 * parts are there, and all reads have ended. dest may be source: part i of any array is read and then written by member
 * i only. */
PRIM_FN void ISOD_NAMED(isod_reduce_direct)(struct isod_coll *c, const struct isod_reduce *w, int op)
{
    struct isod_span s = isod_span_direct(c, w);
    isod_coll_begin_epoch(c);
    isod_coll_sync(c);
    if (!isod_coll_goes_on(c))
        return;
    ISOD_NAMED(isod_reduce_span)(c, &s, op);
    isod_coll_begin_epoch(c);
    isod_coll_sync(c);
}

/* Where pointers do not reach all: piece by piece into the stages of all members. */
PRIM_FN void ISOD_NAMED(isod_reduce_staged)(struct isod_coll *c, const struct isod_reduce *w, int op)
{
    prim_sync(prim_group_block());
    for (uint64_t at = 0; at < w->bytes; at += c->inbox_bytes) {
        struct isod_span s = isod_span_staged(c, w, at);
        isod_coll_begin_staged_epoch(c);
        for (uint32_t i = 1; i <= isod_coll_others(c); i++) {
            int32_t to = isod_coll_other(c, i);
            isod_stage_put(c, to, w->source + (uint64_t)to * w->stride + at, s.bytes);
        }
        isod_coll_sync(c);
        if (!isod_coll_goes_on(c))
            return;
        ISOD_NAMED(isod_reduce_span)(c, &s, op);
    }
}

/* A function of its own: what it needs in registers does not burden the short way. */
PRIM_CALL_FN int ISOD_NAMED(isod_reduce_pipelined)(shmemd_t h, struct isod_reduce w, int op)
{
    struct isod_coll c;
    if (!isod_coll_enter_for(&c, h, w.call, isod_units(w.bytes) + 2)) /* a piece is a unit or more */
        return 1;
    if (isod_takes_pointers(isod_reduce_facts(h, &w)))
        ISOD_NAMED(isod_reduce_direct)(&c, &w, op);
    else
        ISOD_NAMED(isod_reduce_staged)(&c, &w, op);
    return isod_coll_leave(&c);
}

PRIM_FN int ISOD_NAMED(isod_reduce)(shmemd_t h, struct isod_reduce w, int op)
{
    struct isod_coll c;
    if (w.bytes == 0)
        return isod_coll_nothing(h);
    if (!isod_takes_ll(isod_facts_of(h, w.bytes)))
        return ISOD_NAMED(isod_reduce_pipelined)(h, w, op);
    if (!isod_coll_enter(&c, h, w.call))
        return 1;
    struct isod_move all = isod_move_of(w.dest, w.source, w.bytes);
    all.source_stride = w.stride;
    ISOD_NAMED(isod_reduce_ll)(&c, &all, op);
    return isod_coll_leave(&c);
}

PRIM_FN int ISOD_NAMED(isod_reduce_block)(shmemd_t h, struct isod_reduce w, int op)
{
    int rc = 0;
    if (prim_call_begin())
        rc = ISOD_NAMED(isod_reduce)(h, w, op);
    return prim_call_end(rc);
}

PRIM_FN int ISOD_NAMED(isod_reduce_grid)(shmemd_t h, struct isod_reduce w, int op)
{
    int rc = 1;
    if (prim_call_begin() && !isod_grid_sync(h)) {
        if (isod_reduce_part(h, &w))
            (void)ISOD_NAMED(isod_reduce_block)(isod_without_lane(h), w, op);
        rc = isod_grid_leave(h);
    }
    return prim_call_end(rc);
}

#undef ISOD_ELEMS
#undef ISOD_T
#undef ISOD_A
#undef ISOD_NAME
#undef ISOD_ONE
#undef ISOD_UP
#undef ISOD_DOWN
