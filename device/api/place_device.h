/* SPDX-License-Identifier: MIT */
/* Where a symmetric object of a member is for this kernel: the one `if`. A pointer, or NULL: then by the ring.
 * Includes: state.h. Used by every *_device.h. */
#ifndef ISO_PLACE_DEVICE_H
#define ISO_PLACE_DEVICE_H

#include "state.h"

#define ISOD_LOAD_POINTER(p) ((char *)(uintptr_t)prim_load_const_u64((const uint64_t *)(const void *)(p)))
#define ISOD_LOAD_I32(p) ((int32_t)prim_load_const_u32((const uint32_t *)(const void *)(p)))

PRIM_FN int32_t isod_world_pe(shmemd_t h, int32_t pe) { return ISOD_LOAD_I32(&h.team->world_of[pe]); }

/* Memory of no segment. With NVSHMEM's names a PE reaches its own memory by any address. */
PRIM_FN char *isod_near_unknown(struct isod_origin at, const void *addr, int32_t pe)
{
#ifdef ISOD_OWN_BY_ANY_ADDRESS
    return pe == at.team->my_pe ? (char *)(uintptr_t)addr : (char *)0;
#else
    (void)at, (void)addr, (void)pe;
    return (char *)0; /* the proxy says that it is not symmetric */
#endif
}
/* For addresses that spacing alone does not give: heaps that lie anywhere, registered buffers, the host heap, global
 * variables. */
#ifdef SHMEMD_NO_RING
/* In the table's order and without a call: the fewest registers, for a look-up that may take longer. */
PRIM_FN char *isod_near_by_table(struct isod_origin at, const void *addr, int32_t pe)
{
    const struct isod_segment *s = at.world->segments;
    uint32_t left = at.world->n_segments;
    PRIM_ROLLED
    do {
        if ((uint64_t)((uintptr_t)addr - (uintptr_t)s->base) < s->len)
            break;
        s++;
    } while (--left != 0);
    if (left == 0)
        return isod_near_unknown(at, addr, pe);
    char *base = ISOD_LOAD_POINTER(&s->peers[ISOD_LOAD_I32(&at.team->world_of[pe])]);
    return base != 0 ? base + ((uintptr_t)addr - (uintptr_t)s->base) : (char *)0;
}
#else
PRIM_COLD_FN char *isod_near_by_table(struct isod_origin at, const void *addr, int32_t pe)
{
    uint32_t n = at.world->n_segments, parts = ISOD_SEGMENT_BUFFERS - ISOD_SEGMENT_PARTS;
    for (uint32_t k = 0; k < n; k++) { /* local and team memory last: a look-up of other memory costs no more */
        uint32_t i = k < ISOD_SEGMENT_PARTS ? k : k + parts < n ? k + parts : ISOD_SEGMENT_PARTS + k + parts - n;
        const struct isod_segment *s = &at.world->segments[i];
        uint64_t offset = (uint64_t)((uintptr_t)addr - (uintptr_t)s->base);
        if (offset >= s->len)
            continue;
        char *base = i == 0 ? ISOD_LOAD_POINTER(&at.team->heaps[pe]) : s->peers[ISOD_LOAD_I32(&at.team->world_of[pe])];
        return base != 0 ? base + offset : (char *)0;
    }
    return isod_near_unknown(at, addr, pe);
}
#endif

PRIM_FN bool isod_in_heap(shmemd_t h, const void *addr)
{
    return (uint64_t)((uintptr_t)addr - (uintptr_t)h.heap) < h.heap_bytes;
}
/* Evenly spaced heaps: all addresses of this PE's heap are as far from the member's. The handle alone says where, and
 * one branch asks both conditions. */
PRIM_FN bool isod_is_even(shmemd_t h, const void *addr)
{
    bool even = h.flat != 0;
    return isod_in_heap(h, addr) & even;
}
PRIM_FN int64_t isod_shift(shmemd_t h, int32_t pe)
{
    return (int64_t)((uintptr_t)h.flat - (uintptr_t)h.heap) + (int64_t)pe * h.flat_stride;
}
PRIM_FN char *isod_near(shmemd_t h, const void *addr, int32_t pe)
{
    if (isod_is_even(h, addr))
        return (char *)(uintptr_t)addr + isod_shift(h, pe);
    return isod_near_by_table(isod_origin_of(h), addr, pe);
}

#endif
