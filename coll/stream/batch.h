/* SPDX-License-Identifier: MIT */
/* Several small all-gathers and all-to-alls of one slot by one kernel: what coll_group.c and batch_kernels.c have in
 * common. The blocks that a member sends stand one behind the other, each from a whole unit of 16 bytes on, as if they
 * were one block of one call. Blocks of the kernel have equal shares of these units.
 * Includes: on_stream.h. Used by coll/stream/. */
#ifndef ISO_BATCH_H
#define ISO_BATCH_H

#include "on_stream.h"

enum { ISOD_BATCH_CALLS = 96 }; /* a kernel's arguments are at most 4 KiB */

struct isod_batch_call {
    char *dest; /* block m from member m */
    const char *source;
    uint32_t bytes, first; /* of a block; its first unit */
    uint32_t each, spare;  /* each: 1: source has a block for each member (alltoall); 0: one for all (fcollect) */
};
/* The calls are alike on all members but for addresses. */
struct isod_batch {
    shmemd_t h;
    uint32_t call; /* enum isod_call, of the first one, for records */
    uint32_t n, units, share;
    struct isod_batch_call calls[ISOD_BATCH_CALLS];
};

/* Kernels: X(name) is isod_stream_##name##_kernel. batch_ll: one hop, in direct teams, at most ISOD_LL_EPOCHS
 * rounds of inbox_bytes a block. batch_staged: through the slot's memory, whatever path and size it is. */
#define ISOD_STREAM_BATCHES(X) X(batch_ll) X(batch_staged)

#endif
