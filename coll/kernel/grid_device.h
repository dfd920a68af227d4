/* SPDX-License-Identifier: MIT */
/* Calls of all blocks of one PE's grid together. Includes: session_device.h, units_device.h. */
#ifndef ISO_GRID_DEVICE_H
#define ISO_GRID_DEVICE_H

#include "session_device.h"
#include "units_device.h"

/* All blocks of the grid are here; their stores are seen by all of them. All blocks are resident, which is the caller's
 * duty. Bit 63 of the counter turns when the last one arrives, and its other bits come back to where they were: so
 * grids of any sizes may follow one another. true, for all threads of the block: given up. */
PRIM_FN bool isod_grid_sync(shmemd_t h)
{
    const uint64_t top = (uint64_t)1 << 63;
    bool bad = false;
    if (prim_call_begin()) {
        uint64_t *arrived = &h.team->grid->arrived, others = prim_block_count() - 1;
        prim_gather_stores(prim_group_block());
        if (prim_is_first(prim_group_block())) {
            prim_fence_flag(); /* pairs with the acquire in isod_wait of the other blocks, as the addition does */
            uint64_t old = prim_fetch_add_u64(arrived, prim_block_index() == 0 ? top - others : 1);
            struct isod_until turned = isod_until_of(ISOD_I64, arrived, (old & top) != 0 ? ISOD_GE : ISOD_LT, 0);
            bad = !isod_wait(h, turned, isod_who(ISOD_CALL_GRID, -1), (uint64_t *)0);
        }
        bad = prim_sync_or(prim_group_block(), bad);
    }
    return prim_call_end(bad ? 1 : 0) != 0;
}

/* The end of a call of the grid: whatever any block has noticed, all of them return nonzero. */
PRIM_FN int isod_grid_leave(shmemd_t h)
{
    bool bad = isod_grid_sync(h);
    if (prim_is_first(prim_group_block()))
        bad = bad || prim_load_relaxed_u64(&h.team->status) != 0;
    return prim_sync_or(prim_group_block(), bad) ? 1 : 0;
}

/* Less than this is not worth another block. */
#define ISOD_GRID_SHARE_BYTES 1024u

/* Takes this block's part of a call, whole units; the same on all PEs, whose grids are equal. false: it has none. */
PRIM_FN bool isod_grid_part(shmemd_t h, char **dest, const char **source, uint64_t *bytes)
{
    const uint64_t units = isod_units(*bytes), worth = (*bytes + ISOD_GRID_SHARE_BYTES - 1) / ISOD_GRID_SHARE_BYTES;
    uint32_t blocks = prim_block_count(), mine = prim_block_index();
    blocks = blocks < h.lanes ? blocks : h.lanes;
    blocks = blocks < worth ? blocks : (uint32_t)worth;
    if (mine >= blocks)
        return false;
    const uint64_t from = isod_part_at(units, mine, blocks) * 16, end = isod_part_at(units, mine + 1, blocks) * 16;
    *dest += from;
    *source += from;
    *bytes = (end < *bytes ? end : *bytes) - from;
    return true;
}

#endif
