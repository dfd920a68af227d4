/* SPDX-License-Identifier: MIT */
/* Splits: a member's block is a row of parts that lie apart. Packed, they lie one behind the other, and so they travel:
 * a piece of a packed block is a range of it, whatever splits are in it. Two places of a split: in a member's block,
 * and in the array of all members' blocks, where each split of all members stands together, in their order.
 * Invariant: the list is alike on all members, so a position in a packed block means the same to all.
 * Includes: stream_device.h. Included by list_kernels.c and reduce_any_kernels.c. */
#ifndef ISO_LIST_DEVICE_H
#define ISO_LIST_DEVICE_H

#include "stream_device.h"

/* Instead of a member: the block alone. */
#define ISOD_SPLITS_OWN (-1)

/* Where position `at` of split i lies in the block (ISOD_SPLITS_OWN), or in the array of all blocks. */
PRIM_FN uint64_t isod_split_place(const struct isod_stream_coll *a, uint32_t i, uint64_t at, int32_t member)
{
    uint64_t begin = prim_load_const_u64(&a->list[i]), bytes = prim_load_const_u64(&a->list[i + 1]) - begin;
    uint64_t offset = prim_load_const_u64(&a->list[a->n_splits + 1 + i]);
    if (member == ISOD_SPLITS_OWN)
        return offset + at - begin;
    return offset * (uint32_t)a->h.n_pes + (uint64_t)(uint32_t)member * bytes + at - begin;
}

/* The split that position `at` is in. None of them is empty. */
PRIM_FN uint32_t isod_split_find(const struct isod_stream_coll *a, uint64_t at)
{
    uint32_t low = 0, high = a->n_splits;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (prim_load_const_u64(&a->list[middle]) <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* From `at` on, as far as split i and `end` go. */
PRIM_FN uint64_t isod_split_bytes(const struct isod_stream_coll *a, uint32_t i, uint64_t at, uint64_t end)
{
    uint64_t next = prim_load_const_u64(&a->list[i + 1]);
    return (next < end ? next : end) - at;
}

/* By a wave: positions at .. end - 1 of the own block into packed memory, where the first of them comes to `to`; and
 * out of it into dest. */
PRIM_FN void isod_splits_pack(const struct isod_stream_coll *a, char *to, uint64_t at, uint64_t end)
{
    uint64_t bytes;
    for (uint32_t i = isod_split_find(a, at); at < end; i++, at += bytes, to += bytes) {
        bytes = isod_split_bytes(a, i, at, end);
        prim_copy(prim_group_wave(), to, a->source + isod_split_place(a, i, at, ISOD_SPLITS_OWN), bytes);
    }
}
PRIM_FN void isod_splits_unpack(const struct isod_stream_coll *a, int32_t member, const char *from, uint64_t at,
                                uint64_t end)
{
    uint64_t bytes;
    for (uint32_t i = isod_split_find(a, at); at < end; i++, at += bytes, from += bytes) {
        bytes = isod_split_bytes(a, i, at, end);
        prim_copy(prim_group_wave(), a->dest + isod_split_place(a, i, at, member), from, bytes);
    }
}

/* The own stage of the epoch in progress, where no other member puts anything. */
PRIM_FN char *isod_own_stage(const struct isod_coll *c) { return c->here + isod_stage_at(c, c->h.my_pe); }

#endif
