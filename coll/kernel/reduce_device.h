/* SPDX-License-Identifier: MIT */
/* Reductions inside kernels: allreduce (OpenSHMEM's reduce) and reducescatter, for every operator and type.
 * Every element is combined in member order, ((0 op 1) op 2) op ..., by every schedule and on every member, rounded
 * once: bit-identical everywhere. A thread handles 16 bytes at a time. Includes: elem_device.h, move_device.h. Included
 * by include/shmem_device_coll.h. */
#ifndef ISO_REDUCE_DEVICE_H
#define ISO_REDUCE_DEVICE_H

#include "elem_device.h"
#include "move_device.h"

/* One call. Member m's result comes from source + m * stride of all members: stride 0 is allreduce. */
struct isod_reduce {
    char *dest;
    const char *source;
    uint64_t bytes, stride;
    uint32_t call;
};

PRIM_FN struct isod_reduce isod_reduce_of(void *dest, const void *source, uint64_t bytes, uint64_t stride)
{
    struct isod_reduce w;
    w.dest = (char *)dest;
    w.source = (const char *)source;
    w.bytes = bytes;
    w.stride = stride;
    w.call = stride == 0 ? ISOD_CALL_REDUCE : ISOD_CALL_REDUCESCATTER;
    return w;
}

/* Units first .. last - 1 of an array of `bytes` that members hold at `source`, combined into `dest`. */
enum isod_span_from { ISOD_SPAN_SOURCES, ISOD_SPAN_STAGES };
enum isod_span_to { ISOD_SPAN_ALL, ISOD_SPAN_OWN };
struct isod_span {
    char *dest;
    const char *source;
    uint64_t first, last, bytes;
    enum isod_span_from from;
    enum isod_span_to to;
};

PRIM_FN struct isod_span isod_span_direct(const struct isod_coll *c, const struct isod_reduce *w)
{
    const uint64_t units = isod_units(w->bytes);
    const uint32_t me = (uint32_t)c->h.my_pe, n = (uint32_t)c->h.n_pes;
    bool all = w->stride == 0;
    struct isod_span s;
    s.dest = w->dest;
    s.source = w->source + me * w->stride;
    s.first = all ? isod_part_at(units, me, n) : 0;
    s.last = all ? isod_part_at(units, me + 1, n) : units;
    s.bytes = w->bytes;
    s.from = ISOD_SPAN_SOURCES;
    s.to = all ? ISOD_SPAN_ALL : ISOD_SPAN_OWN;
    return s;
}

/* The piece at `at`, which fits a stage. */
PRIM_FN struct isod_span isod_span_staged(const struct isod_coll *c, const struct isod_reduce *w, uint64_t at)
{
    struct isod_span s;
    s.dest = w->dest + at;
    s.source = w->source + (uint64_t)c->h.my_pe * w->stride + at;
    s.bytes = w->bytes - at < c->inbox_bytes ? w->bytes - at : c->inbox_bytes;
    s.first = 0;
    s.last = isod_units(s.bytes);
    s.from = ISOD_SPAN_STAGES;
    s.to = ISOD_SPAN_OWN;
    return s;
}

/* Member m's operand of the span. */
PRIM_FN const char *isod_operand(const struct isod_coll *c, const struct isod_span *s, int32_t m)
{
    if (m == c->h.my_pe)
        return s->source;
    return s->from == ISOD_SPAN_STAGES ? c->here + isod_stage_at(c, m) : isod_near(c->h, s->source, m);
}

/* Pointers reach what members read and write of each other, and all of them know it of each other: of the heap only.
 * dest of reducescatter is not asked: no other member touches it, so it may lie elsewhere on each. */
PRIM_FN struct isod_facts isod_reduce_facts(shmemd_t h, const struct isod_reduce *w)
{
    struct isod_facts f = isod_facts_of(h, w->bytes);
    uint64_t dest = (uint64_t)((uintptr_t)w->dest - (uintptr_t)h.heap);
    uint64_t source = (uint64_t)((uintptr_t)w->source - (uintptr_t)h.heap);
    f.in_heap = source < h.heap_bytes && (w->stride != 0 || dest < h.heap_bytes);
    return f;
}

/* ---- schedules ---- */

/* Unit u of all members' LL data of this epoch, and mine. */
PRIM_FN struct prim_vec16 isod_ll_combine(struct isod_coll *c, uint64_t u, struct prim_vec16 mine, enum isod_elem elem,
                                          int op)
{
    struct isod_acc a;
    isod_acc_of(elem, &a, mine);
    for (int32_t first = 0; first < c->h.n_pes; first += ISOD_BATCH) {
        struct prim_vec16 v[ISOD_BATCH] = {mine, mine, mine, mine};
        isod_units_wait(c, first, ISOD_BATCH, u, v);
        isod_acc_batch(elem, &a, v, first, c->h.n_pes, op);
    }
    return isod_acc_vec(elem, &a);
}

/* One-shot, by LL: every member gets all data, and reduces for itself. At most inbox_bytes, in one epoch; calls on
 * streams make rounds of this. A thread writes a unit of dest after it has sent and read it, so dest may be source. */
PRIM_FN void isod_reduce_ll(struct isod_coll *c, const struct isod_move *w, enum isod_elem elem, int op)
{
    const char *own = w->source + (uint64_t)c->h.my_pe * w->source_stride;
    isod_coll_begin_staged_epoch(c);
    prim_sync(prim_group_block());
    isod_ll_send(c, w->source, w->source_stride, w->bytes);
    for (uint64_t u = c->rank; u < isod_units(w->bytes) && !c->failed; u += c->size) {
        uint64_t left = w->bytes - u * 16;
        struct prim_vec16 result = isod_ll_combine(c, u, isod_unit_load(own + u * 16, left), elem, op);
        if (!c->failed)
            isod_unit_store(w->dest + u * 16, result, left);
    }
}

/* Units first .. last - 1 of all members, by loads, to the dests that s->to names. */
PRIM_FN void isod_reduce_span(struct isod_coll *c, const struct isod_span *s, enum isod_elem elem, int op)
{
    for (uint64_t u = s->first + c->rank; u < s->last; u += c->size) {
        uint64_t left = s->bytes - u * 16;
        struct isod_acc a;
        isod_acc_of(elem, &a, isod_unit_load(isod_operand(c, s, 0) + u * 16, left));
        for (int32_t first = 1; first < c->h.n_pes; first += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH] = {{{0}}}; /* or ptxas keeps what the registers held before */
            PRIM_UNROLL
            for (int32_t k = 0; k < ISOD_BATCH; k++)
                if (first + k < c->h.n_pes)
                    v[k] = isod_unit_load(isod_operand(c, s, first + k) + u * 16, left);
            isod_acc_batch(elem, &a, v, first, c->h.n_pes, op);
        }
        struct prim_vec16 result = isod_acc_vec(elem, &a);
        isod_unit_store(s->dest + u * 16, result, left);
        for (uint32_t i = 1; s->to == ISOD_SPAN_ALL && i <= isod_coll_others(c); i++)
            isod_unit_store(isod_near(c->h, s->dest, isod_coll_other(c, i)) + u * 16, result, left);
    }
}

/* Two hops: member i reduces part i for all (reducescatter: its own block, for itself) from the sources of all and
 * writes it to the dests of all. First synchronisation: all sources may be read and all dests written. Second: all
 * parts are there, and all reads have ended. dest may be source: part i of any array is read and then written by member
 * i only. */
PRIM_FN void isod_reduce_direct(struct isod_coll *c, const struct isod_reduce *w, enum isod_elem elem, int op)
{
    struct isod_span s = isod_span_direct(c, w);
    isod_coll_begin_epoch(c);
    isod_coll_sync(c);
    if (!isod_coll_goes_on(c))
        return;
    isod_reduce_span(c, &s, elem, op);
    isod_coll_begin_epoch(c);
    isod_coll_sync(c);
}

/* Where pointers do not reach all: piece by piece into the stages of all members. */
PRIM_FN void isod_reduce_staged(struct isod_coll *c, const struct isod_reduce *w, enum isod_elem elem, int op)
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
        isod_reduce_span(c, &s, elem, op);
    }
}

PRIM_FN int isod_reduce_pipelined(shmemd_t h, struct isod_reduce w, enum isod_elem elem, int op)
{
    struct isod_coll c;
    if (!isod_coll_enter_for(&c, h, w.call, isod_units(w.bytes) + 2)) /* a piece is a unit or more */
        return 1;
    if (isod_takes_pointers(isod_reduce_facts(h, &w)))
        isod_reduce_direct(&c, &w, elem, op);
    else
        isod_reduce_staged(&c, &w, elem, op);
    return isod_coll_leave(&c);
}

/* A function of its own for each type: what it needs in registers does not burden the short way. Calls hand on that of
 * their type, so that a program has no other. */
typedef int isod_pipelined(shmemd_t h, struct isod_reduce w, int op);
#define ISOD_PIPELINED(NAME, ...)                                                           \
    PRIM_CALL_FN int isod_reduce_pipelined_##NAME(shmemd_t h, struct isod_reduce w, int op) \
    {                                                                                       \
        return isod_reduce_pipelined(h, w, ISOD_ELEM_##NAME, op);                           \
    }
ISOD_ALL_ELEMS(ISOD_PIPELINED)
#undef ISOD_PIPELINED

PRIM_FN int isod_reduce_call(shmemd_t h, struct isod_reduce w, enum isod_elem elem, int op, isod_pipelined *pipelined)
{
    struct isod_coll c;
    if (w.bytes == 0)
        return isod_coll_nothing(h);
    if (!isod_takes_ll(isod_facts_of(h, w.bytes)))
        return pipelined(h, w, op);
    if (!isod_coll_enter(&c, h, w.call))
        return 1;
    struct isod_move all = isod_move_of(w.dest, w.source, w.bytes);
    all.source_stride = w.stride;
    isod_reduce_ll(&c, &all, elem, op);
    return isod_coll_leave(&c);
}

PRIM_FN int isod_reduce_block(shmemd_t h, struct isod_reduce w, enum isod_elem elem, int op, isod_pipelined *pipelined)
{
    int rc = 0;
    if (prim_call_begin())
        rc = isod_reduce_call(h, w, elem, op, pipelined);
    return prim_call_end(rc);
}

PRIM_FN int isod_reduce_grid(shmemd_t h, struct isod_reduce w, enum isod_elem elem, int op, isod_pipelined *pipelined)
{
    int rc = 1;
    if (prim_call_begin() && !isod_grid_sync(h)) {
        if (isod_grid_part(h, &w.dest, &w.source, &w.bytes))
            (void)isod_reduce_block(isod_without_lane(h), w, elem, op, pipelined);
        rc = isod_grid_leave(h);
    }
    return prim_call_end(rc);
}

#endif
