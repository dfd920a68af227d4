/* SPDX-License-Identifier: MIT */
/* Collectives of data by few threads of a block: one, or a wave, in the sequence of the block's lane. Kernels of 1024
 * threads make them too, so they take few registers: two synchronisations of the members, and between them puts, or
 * loads of what is combined. The first: all sources may be read and all dests written; the second: all of it is done.
 * These are other schedules than a block's, so a member that takes part by a block does not meet them; a thread and a
 * wave do. Includes: move_device.h, reduce_device.h, sync_device.h. Included by include/shmem_device_coll.h. */
#ifndef ISO_FEW_DEVICE_H
#define ISO_FEW_DEVICE_H

#include "move_device.h"
#include "reduce_device.h"
#include "sync_device.h"

PRIM_FN int isod_few_meet(shmemd_t h, struct prim_group g, uint32_t call)
{
    return isod_synchronise(h, g, call, ISOD_DATA);
}

/* ---- moves ---- */

/* What this member sends: to m from source + m * stride, to dest + my_pe * dest_stride there. */
PRIM_CALL_FN void isod_few_send(shmemd_t h, struct prim_group g, struct isod_move w, int32_t to)
{
    char *dest = w.dest + (uint64_t)(uint32_t)h.my_pe * w.dest_stride;
    const char *source = w.source + (uint64_t)(uint32_t)to * w.source_stride;
    if (to != h.my_pe || dest != source)
        isod_put_nbi(h, g, isod_bytes_of(dest, source, w.bytes), to);
}
PRIM_FN int isod_exchange_few(shmemd_t h, struct prim_group g, struct isod_move w, uint32_t call)
{
    if (isod_few_meet(h, g, call) != 0)
        return 1;
    PRIM_ROLLED
    for (int32_t to = 0; to < h.n_pes; to++)
        isod_few_send(h, g, w, to);
    return isod_few_meet(h, g, call);
}
PRIM_FN int isod_broadcast_few(shmemd_t h, struct prim_group g, struct isod_move w)
{
    if ((uint32_t)w.from >= (uint32_t)h.n_pes)
        return isod_broadcast_refuse(h, g, &w);
    if (isod_few_meet(h, g, ISOD_CALL_BROADCAST) != 0)
        return 1;
    PRIM_ROLLED
    for (int32_t to = 0; to < h.n_pes && h.my_pe == w.from; to++)
        isod_few_send(h, g, w, to);
    return isod_few_meet(h, g, ISOD_CALL_BROADCAST);
}
PRIM_FN int isod_permute_few(shmemd_t h, struct prim_group g, struct isod_move w)
{
    if (!isod_permute_is_right(h, &w))
        return isod_permute_refuse(h, g, &w);
    if (isod_few_meet(h, g, ISOD_CALL_PERMUTE) != 0)
        return 1;
    isod_few_send(h, g, w, w.to);
    return isod_few_meet(h, g, ISOD_CALL_PERMUTE);
}

/* ---- reductions ---- */

/* The unit at `at` in member m's array, where `left` bytes are left of it. */
PRIM_FN struct prim_vec16 isod_few_load(shmemd_t h, const char *at, uint64_t left, int32_t m)
{
    const char *near = isod_near(h, at, m);
    struct prim_vec16 v = {{0, 0}};
    if (near != 0)
        return isod_unit_load(near, left);
    const uint32_t n = left < 16 ? (uint32_t)left : 16u, odd = (uint32_t)(uintptr_t)at | n;
    const uint32_t width = (odd & 7) == 0 ? 8 : (odd & 3) == 0 ? 4 : 1;
    PRIM_ROLLED
    for (uint32_t i = 0; i < n; i += width) {
        const uint64_t part = isod_ring_get_word(h, at + i, width, isod_world_pe(h, m)) << (i & 7) * 8;
        if (i < 8) /* no index: an array would be stack */
            v.word[0] |= part;
        else
            v.word[1] |= part;
    }
    return v;
}
PRIM_FN void isod_few_store(shmemd_t h, char *at, struct prim_vec16 v, uint64_t left, int32_t m)
{
    char *near = isod_near(h, at, m);
    if (near != 0)
        isod_unit_store(near, v, left);
    else
        isod_ring_put_words(h, at, isod_words_of(v.word[0], v.word[1], left < 16 ? (uint32_t)left : 16u),
                            isod_world_pe(h, m));
}

/* This thread's units from u on, two at once, since few threads have few loads in flight: as long as they are whole and
 * pointers reach them. Returns the first that is left. */
PRIM_FN uint64_t isod_reduce_few_pairs(shmemd_t h, struct isod_reduce w, uint64_t u, uint64_t last, uint64_t step,
                                       enum isod_elem elem, int op)
{
    const char *source = w.source + (uint64_t)(uint32_t)h.my_pe * w.stride;
    const uint64_t whole = isod_whole_bytes(source, w.bytes) / 16;
    const bool reached = isod_goes_direct(h) && isod_in_heap(h, source) && isod_in_heap(h, w.dest);
    last = last < whole ? last : whole;
    PRIM_ROLLED
    for (; reached && u + step < last; u += 2 * step) {
        struct isod_acc a[2] PRIM_UNSET;
        PRIM_ROLLED
        for (int32_t m = 0; m < h.n_pes; m++) {
            const char *near = isod_near(h, source, m) + u * 16;
            struct prim_vec16 v = prim_load16(near), next = prim_load16(near + step * 16);
            isod_acc_join(elem, &a[0], v, m, h.n_pes, op);
            isod_acc_join(elem, &a[1], next, m, h.n_pes, op);
        }
        PRIM_ROLLED
        for (int32_t m = 0; m < h.n_pes; m++) {
            if (w.stride != 0 && m != h.my_pe)
                continue;
            char *near = isod_near(h, w.dest, m) + u * 16;
            isod_unit_store(near, isod_acc_vec(elem, &a[0]), 16);
            isod_unit_store(near + step * 16, isod_acc_vec(elem, &a[1]), 16);
        }
    }
    return u;
}

/* Member m combines part m of all arrays and stores it to all; of a reducescatter its own block, to itself. dest may be
 * source: a part of an array is read and then written by one thread. */
PRIM_FN int isod_reduce_few(shmemd_t h, struct prim_group g, struct isod_reduce w, enum isod_elem elem, int op)
{
    const uint64_t units = isod_units(w.bytes), me = (uint64_t)(uint32_t)h.my_pe, n = (uint64_t)(uint32_t)h.n_pes;
    const bool all = w.stride == 0;
    const uint64_t last = all ? units * (me + 1) / n : units;
    if (isod_few_meet(h, g, w.call) != 0)
        return 1;
    uint64_t u = (all ? units * me / n : 0) + prim_rank(g);
#ifndef PRIM_CALLS_BY_ABI /* there a kernel of 1024 threads would have too many registers */
    u = isod_reduce_few_pairs(h, w, u, last, prim_size(g), elem, op);
#endif
    PRIM_ROLLED
    for (; u < last; u += prim_size(g)) {
        const uint64_t left = w.bytes - u * 16;
        const char *source = w.source + me * w.stride + u * 16;
        struct isod_acc a[1] PRIM_UNSET; /* by the first join */
        PRIM_ROLLED
        for (int32_t m = 0; m < h.n_pes; m++)
            isod_acc_join(elem, a, isod_few_load(h, source, left, m), m, h.n_pes, op);
        PRIM_ROLLED
        for (int32_t m = all ? 0 : h.my_pe; m < (all ? h.n_pes : h.my_pe + 1); m++)
            isod_few_store(h, w.dest + u * 16, isod_acc_vec(elem, a), left, m);
    }
    return isod_few_meet(h, g, w.call);
}

/* ---- by any group ---- */

PRIM_FN int isod_exchange_group(shmemd_t h, struct prim_group g, struct isod_move w, uint32_t call)
{
    return g.kind == PRIM_BLOCK ? isod_exchange_block(h, w, call) : isod_exchange_few(h, g, w, call);
}
PRIM_FN int isod_broadcast_group(shmemd_t h, struct prim_group g, struct isod_move w)
{
    return g.kind == PRIM_BLOCK ? isod_broadcast_block(h, w) : isod_broadcast_few(h, g, w);
}
PRIM_FN int isod_permute_group(shmemd_t h, struct prim_group g, struct isod_move w)
{
    return g.kind == PRIM_BLOCK ? isod_permute_block(h, w) : isod_permute_few(h, g, w);
}
PRIM_FN int isod_reduce_group(shmemd_t h, struct prim_group g, struct isod_reduce w, enum isod_elem elem, int op,
                              isod_pipelined *pipelined)
{
    return g.kind == PRIM_BLOCK ? isod_reduce_block(h, w, elem, op, pipelined) : isod_reduce_few(h, g, w, elem, op);
}

#endif
