/* SPDX-License-Identifier: MIT */
/* The kernels of batches: many small all-gathers and all-to-alls in the epochs of one. A round is as many units as an
 * inbox has; in each round every member sends to and waits for every other one, as staged epochs ask.
 * Launched by coll_group.c. Includes: batch.h, stream_device.h. */
#include "../batch.h" /* first */

#include "stream_device.h"

/* The number of the call that has the unit. Calls are named by numbers: a pointer that changes would have the compiler
 * copy all arguments to a stack. */
PRIM_FN uint32_t batch_find(const struct isod_batch *a, uint32_t unit)
{
    uint32_t low = 0, high = a->n;
    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;
        if (a->calls[mid].first <= unit)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* Where this member's block for member m is, and where that of member m goes. */
PRIM_FN const char *batch_source(const struct isod_batch_call *b, int32_t m)
{
    return b->source + (b->each != 0 ? (uint64_t)(uint32_t)m * b->bytes : 0);
}
PRIM_FN char *batch_dest(const struct isod_batch_call *b, int32_t m)
{
    return b->dest + (uint64_t)(uint32_t)m * b->bytes;
}

/* Units first .. first + units - 1 of all calls, in a staged epoch. */
PRIM_FN void batch_ll(struct isod_coll *c, const struct isod_batch *a, uint32_t first, uint32_t units)
{
    int32_t me = c->h.my_pe;
    for (uint32_t u = c->rank; u < units; u += c->size) {
        const struct isod_batch_call *b = &a->calls[batch_find(a, first + u)];
        uint64_t at = (uint64_t)(first + u - b->first) * 16;
        const char *own = batch_source(b, me) + at;
        struct prim_vec16 v = isod_unit_load(own, b->bytes - at);
        if (batch_dest(b, me) + at != own)
            isod_unit_store(batch_dest(b, me) + at, v, b->bytes - at);
        for (uint32_t i = 1; i <= isod_coll_others(c); i++) {
            int32_t to = isod_coll_other(c, i);
            if (b->each != 0)
                v = isod_unit_load(batch_source(b, to) + at, b->bytes - at);
            isod_ll_store(c, isod_ll_there(c, to, u), v);
        }
    }
    for (uint32_t u = c->rank; u < units && !c->failed; u += c->size) {
        const struct isod_batch_call *b = &a->calls[batch_find(a, first + u)];
        uint64_t at = (uint64_t)(first + u - b->first) * 16;
        for (int32_t m = 0; m < c->h.n_pes; m += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH];
            isod_units_wait(c, m, ISOD_BATCH, u, v);
            PRIM_UNROLL
            for (int32_t k = 0; k < ISOD_BATCH && !c->failed; k++)
                if (m + k < c->h.n_pes && m + k != me)
                    isod_unit_store(batch_dest(b, m + k) + at, v[k], b->bytes - at);
        }
    }
}

/* The part of a round that one call has: bytes at `at` of its blocks, at `stage` of a stage. */
struct batch_range {
    uint64_t at, stage, bytes;
};
PRIM_FN struct batch_range batch_range_of(const struct isod_batch_call *b, uint32_t first, uint32_t units)
{
    struct batch_range r = {0, 0, 0};
    uint32_t begin = b->first > first ? b->first : first;
    r.at = (uint64_t)(begin - b->first) * 16;
    r.stage = (uint64_t)(begin - first) * 16;
    r.bytes = (uint64_t)(first + units - begin) * 16;
    if (r.bytes > b->bytes - r.at)
        r.bytes = b->bytes - r.at;
    return r;
}

/* The i-th range of a round to or from the i-th member is a wave's. */
PRIM_FN void batch_put(struct isod_coll *c, const struct isod_batch *a, uint32_t first, uint32_t units)
{
    struct isod_waves w = isod_waves_of(c);
    uint64_t stage = isod_stage_at(c, c->h.my_pe);
    for (uint32_t i = w.first; i <= isod_coll_others(c); i += w.stride) {
        int32_t to = isod_coll_other(c, i);
        char *memory = i != 0 ? isod_coll_memory(c, to) : (char *)0;
        uint32_t nth = 0;
        for (uint32_t k = batch_find(a, first); k < a->n && a->calls[k].first < first + units; k++) {
            const struct isod_batch_call *b = &a->calls[k];
            struct batch_range r = batch_range_of(b, first, units);
            const char *from = batch_source(b, to) + r.at;
            if (nth++ % w.of != w.nth)
                continue;
            if (i == 0 && batch_dest(b, to) + r.at != from)
                prim_copy(prim_group_wave(), batch_dest(b, to) + r.at, from, r.bytes);
            else if (i != 0 && memory != 0)
                prim_copy_put(prim_group_wave(), memory + stage + r.stage, from, r.bytes);
            else if (i != 0)
                isod_coll_put_far(c, prim_group_wave(), to,
                                  isod_bytes_of(isod_coll_far_memory(c, to) + stage + r.stage, from, r.bytes));
        }
    }
}
PRIM_FN void batch_take(struct isod_coll *c, const struct isod_batch *a, uint32_t first, uint32_t units)
{
    struct isod_waves w = isod_waves_of(c);
    for (uint32_t i = w.first; i <= isod_coll_others(c); i += w.stride) {
        int32_t m = isod_coll_other(c, i);
        const char *stage = c->here + isod_stage_at(c, m);
        uint32_t nth = 0;
        for (uint32_t k = batch_find(a, first); k < a->n && a->calls[k].first < first + units; k++) {
            const struct isod_batch_call *b = &a->calls[k];
            struct batch_range r = batch_range_of(b, first, units);
            if (i != 0 && nth++ % w.of == w.nth)
                prim_copy(prim_group_wave(), batch_dest(b, m) + r.at, stage + r.stage, r.bytes);
        }
    }
}

PRIM_FN int batch_run(const struct isod_batch *a, bool ll)
{
    struct isod_coll c;
    uint32_t first = prim_block_index() * a->share, each = a->h.inbox_bytes / 16;
    uint32_t end = first < a->units && a->units - first < a->share ? a->units : first + a->share;
    if (first >= a->units)
        return 0;
    if (ll ? !isod_coll_enter_near(&c, a->h, a->call)
           : !isod_coll_enter_for(&c, a->h, a->call, (uint64_t)(end - first)))
        return 1;
    prim_sync(prim_group_block());
    for (; first < end && !c.failed; first += each) {
        uint32_t units = end - first < each ? end - first : each;
        isod_coll_begin_staged_epoch(&c);
        if (ll) {
            batch_ll(&c, a, first, units);
            (void)isod_coll_goes_on(&c); /* the data of an epoch also says that this block has read that before */
        } else {
            batch_put(&c, a, first, units);
            isod_coll_sync(&c);
            if (isod_coll_goes_on(&c))
                batch_take(&c, a, first, units);
        }
    }
    return isod_coll_leave(&c);
}

/* ---- kernels ---- */

#define BATCH_KERNEL(name, ll)                                                                  \
    PRIM_KERNEL_BOUNDED(isod_stream_##name##_kernel, struct isod_batch, a, ISOD_STREAM_THREADS) \
    {                                                                                           \
        int rc = 0;                                                                             \
        prim_stream_wait();                                                                     \
        if (prim_call_begin())                                                                  \
            rc = batch_run(&a, ll);                                                             \
        (void)prim_call_end(rc);                                                                \
        prim_stream_pass();                                                                     \
    }
BATCH_KERNEL(batch_ll, true)
BATCH_KERNEL(batch_staged, false)
